// SPDX-License-Identifier: Apache-2.0
#include "engine/store/redis_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"

namespace rankmesh::detail {

// The replies of Redis's protocol, RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec.
std::optional<RedisReply> RedisReply::take(std::string_view& bytes) {
    constexpr auto line_end = std::string_view("\r\n");
    constexpr auto longest_line = std::size_t{1} << 16;
    if (bytes.empty()) return std::nullopt;
    const auto type = bytes.front();
    if (type == '*') throw Malformed{"it answers with a list"};
    if (std::string_view("+-:$").find(type) == std::string_view::npos)
        throw Malformed{cat("Protocol error, got \"", std::string(1, type), "\" as reply type byte")};
    const auto end = bytes.substr(0, longest_line).find(line_end);
    if (end == bytes.npos && bytes.size() >= longest_line) throw Malformed{"its answer does not end"};
    if (end == bytes.npos) return std::nullopt;
    const auto line = bytes.substr(1, end - 1);
    auto rest = bytes.substr(end + line_end.size());
    auto reply = RedisReply{.is_error = type == '-', .text = std::string(line)};
    if (type == '$') {
        const auto length = number_in(line);
        if (!length || *length < -1) throw Malformed{cat("Protocol error, got the length '", line, "'")};
        if (*length < 0) {
            reply.text = std::nullopt;
        } else {
            const auto size = static_cast<std::size_t>(*length);
            if (rest.size() < size + line_end.size()) return std::nullopt;
            reply.text = rest.substr(0, size);
            rest.remove_prefix(size + line_end.size());
        }
    }
    bytes = rest;
    return reply;
}

namespace {

using Clock = std::chrono::steady_clock;

/// More bytes than the entries of a world of a million ranks have.
constexpr auto longest_reply = std::size_t{1} << 29;

std::string bytes_of(const std::vector<RedisConnection::Command>& commands) {
    auto bytes = std::string{};
    for (const auto& command : commands) {
        append(bytes, cat("*", command.size(), "\r\n"));
        for (const auto& word : command) append(bytes, cat("$", word.size(), "\r\n", word, "\r\n"));
    }
    return bytes;
}

/// Throws Broken for the error of a call on a socket, unless the call is to be repeated.
void check(ssize_t result) {
    if (result < 0 && errno != EAGAIN && errno != EINTR) throw RedisConnection::Broken(std::strerror(errno));
}

}  // namespace

RedisConnection::RedisConnection(const RedisUrl& server, Instant until) : server_(server.text()) {
    const auto begin = Clock::now();
    auto failure = std::string("it has no address");
    try {
        for (const auto& address : host_addresses(server.host, until)) {
            std::tie(socket_, failure) = connect_to(address, server.port, until);
            if (socket_ >= 0) return;
        }
    } catch (const HostNotFound& error) {
        throw Broken(error.what());
    }
    if (Clock::now() < until) throw Broken(failure);
    throw Timeout(cat("the timeout expired: the store '", server_, "' has not taken the connection for ",
                      elapsed_since(begin)),
                  {}, {});
}

RedisConnection::~RedisConnection() { close(socket_); }

std::vector<RedisReply> RedisConnection::ask(const std::vector<Command>& commands, Instant until) {
    const auto begin = Clock::now();
    const auto out = bytes_of(commands);
    auto unsent = std::string_view(out);
    auto in = std::string{};
    auto replies = std::vector<RedisReply>{};
    for (auto wanted = short{POLLIN | POLLOUT}; replies.size() < commands.size();
         wanted = unsent.empty() ? POLLIN : POLLIN | POLLOUT) {
        // A server that sends without end is always ready.
        if (!ready(socket_, wanted, until) || Clock::now() >= until)
            throw Timeout(cat("the timeout expired: the store '", server_, "' has not answered ",
                              commands[replies.size()].front(), " for ", elapsed_since(begin)),
                          {}, {});
        if (!unsent.empty()) {
            const auto count = send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
            check(count);
            if (count > 0) unsent.remove_prefix(static_cast<std::size_t>(count));
        }
        auto buffer = std::array<char, 1 << 16>{};
        const auto count = recv(socket_, buffer.data(), buffer.size(), 0);
        check(count);
        if (count == 0) throw Broken("Server closed the connection");
        if (count > 0) in.append(buffer.data(), static_cast<std::size_t>(count));
        auto unread = std::string_view(in);
        try {
            while (auto reply = RedisReply::take(unread)) replies.push_back(*std::move(reply));
            if (unread.size() > longest_reply) throw RedisReply::Malformed{"its answer does not end"};
        } catch (const RedisReply::Malformed& malformed) {
            throw EngineFailure(
                cat("what answers at the store '", server_, "' is no Redis server: ", malformed.why));
        }
        in.erase(0, in.size() - unread.size());
    }
    return replies;
}

}  // namespace rankmesh::detail
