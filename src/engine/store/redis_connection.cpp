// SPDX-License-Identifier: Apache-2.0
#include "engine/store/redis_connection.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/host_addresses.hpp"
#include "engine/store/redis_store.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// True once the socket is ready for one of `events`, false if `until` passes first.
bool ready(int socket, short events, Clock::time_point until) {
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
        auto wanted = pollfd{socket, events, 0};
        const auto count =
            poll(&wanted, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 3'600'000)));
        if (count > 0) return true;
        if (count < 0 && errno != EINTR) throw RedisConnection::Broken(std::strerror(errno));
        if (count == 0 && Clock::now() >= until) return false;
    }
}

/// More bytes than the entries of a world of a million ranks have.
constexpr auto longest_reply = std::size_t{1} << 29;

/// The addresses of the server's host.
std::vector<std::string> addresses(const std::string& host, Clock::time_point until) {
    try {
        return host_addresses(host, until);
    } catch (const HostNotFound& error) {
        throw RedisConnection::Broken(error.what());
    }
}

std::string since(Clock::time_point begin) {
    return cat(std::chrono::round<milliseconds>(Clock::now() - begin).count(), " ms");
}

}  // namespace

void RedisConnection::Free::operator()(redisContext* context) const { redisFree(context); }

RedisConnection::RedisConnection(const RedisUrl& server, Instant until) : server_(server.text()) {
    const auto begin = Clock::now();
    auto failure = std::string("it has no address");
    for (const auto& address : addresses(server.host, until)) {
        context_.reset(redisConnectNonBlock(address.c_str(), server.port));
        if (!context_) throw std::bad_alloc();
        refuse_lists(*context_->reader);
        auto error = context_->err == 0 ? 0 : errno;
        if (context_->err == 0) {
            fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
            if (!ready(context_->fd, POLLOUT, until))
                throw Timeout(cat("the timeout expired: the store '", server_,
                                  "' has not taken the connection for ", since(begin)),
                              {}, {});
            auto length = socklen_t{sizeof error};
            getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &length);
            if (error == 0) return;
        }
        failure = context_->err == 0 ? std::strerror(error) : context_->errstr;
    }
    throw Broken(failure);
}

RedisConnection::~RedisConnection() = default;

void RedisConnection::throw_no_server(const std::string& why) const {
    throw EngineFailure(cat("what answers at the store '", server_, "' is no Redis server: ", why));
}

std::vector<RedisReply> RedisConnection::ask(const std::vector<Command>& commands, Instant until) {
    const auto begin = Clock::now();
    auto out = std::string{};
    for (const auto& command : commands) {
        auto words = std::vector<const char*>{};
        auto lengths = std::vector<std::size_t>{};
        for (const auto& word : command) {
            words.push_back(word.data());
            lengths.push_back(word.size());
        }
        char* text = nullptr;
        const auto length =
            redisFormatCommandArgv(&text, static_cast<int>(words.size()), words.data(), lengths.data());
        if (length < 0) throw std::bad_alloc();
        out.append(text, static_cast<std::size_t>(length));
        redisFreeCommand(text);
    }
    auto replies = std::vector<RedisReply>{};
    const auto throw_late = [&] {
        throw Timeout(cat("the timeout expired: the store '", server_, "' has not answered ",
                          commands[replies.size()].front(), " for ", since(begin)),
                      {}, {});
    };
    for (auto sent = std::size_t{0}; replies.size() < commands.size();) {
        const auto events = static_cast<short>(sent < out.size() ? POLLIN | POLLOUT : POLLIN);
        if (!ready(context_->fd, events, until)) throw_late();
        if (redisBufferRead(context_.get()) != REDIS_OK) throw Broken(context_->errstr);
        for (;;) {
            void* given = nullptr;
            if (redisGetReplyFromReader(context_.get(), &given) != REDIS_OK)
                throw_no_server(context_->err == REDIS_ERR_OOM ? "it answers with a list" : context_->errstr);
            if (!given) break;
            auto* reply = static_cast<redisReply*>(given);
            replies.push_back(RedisReply::from(*reply));
            freeReplyObject(reply);
        }
        // One that sends without end is always ready.
        if (replies.size() < commands.size() && Clock::now() >= until) throw_late();
        if (context_->reader->len > longest_reply) throw_no_server("its answer does not end");
        if (sent == out.size()) continue;
        // Not by hiredis, which would raise SIGPIPE if the server is gone.
        const auto count = send(context_->fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
        if (count >= 0)
            sent += static_cast<std::size_t>(count);
        else if (errno != EAGAIN && errno != EINTR)
            throw Broken(std::strerror(errno));
    }
    return replies;
}

std::string redis_library() { return cat("hiredis ", HIREDIS_MAJOR, ".", HIREDIS_MINOR, ".", HIREDIS_PATCH); }

}  // namespace rankmesh::detail
