// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;

}  // namespace

TcpConnection::~TcpConnection() { close(std::exchange(socket_, -1)); }

TcpConnection::Answer TcpConnection::ask(wire::Request request, Instant until) {
    {
        const auto lock = std::lock_guard(mutex_);
        request.id = next_id_++;
        asked_.insert(request.id);
    }
    send(request.bytes(), until);
    return receive(request.id, until);
}

void TcpConnection::send(std::string_view bytes, Instant until) {
    if (bytes.size() > wire::longest_message)
        throw EngineFailure(cat("a request of ", bytes.size(), " bytes; the store takes up to ",
                                wire::longest_message, " at once"));
    const auto lock = std::lock_guard(sending_);
    // The server would take it for the rest of a request that was cut off.
    if (const auto why = broken(); !why.empty()) throw Broken{why};
    const auto begin = Clock::now();
    while (!bytes.empty()) {
        const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN) {
            if (ready(socket_, POLLOUT, until)) continue;
            // What was sent cannot be taken back.
            fail(cat("it took no request for ", elapsed_since(begin)));
            throw Silent{"has taken no request", begin};
        } else if (errno != EINTR) {
            fail(std::strerror(errno));
            throw Broken{broken()};
        }
    }
}

/// Waits for the answer to a request. One of the threads that wait reads what comes, for all of them.
TcpConnection::Answer TcpConnection::receive(std::uint32_t id, Instant until) {
    const auto begin = Clock::now();
    auto lock = std::unique_lock(mutex_);
    for (;;) {
        if (const auto found = answers_.find(id); found != answers_.end()) {
            auto answer = std::move(found->second);
            answers_.erase(found);
            return answer;
        }
        if (!broken_.empty()) throw Broken{broken_};
        if (Clock::now() >= until) {
            asked_.erase(id);
            throw Silent{"has not answered", begin};
        }
        if (reading_) {
            changed_.wait_until(lock, until);
            continue;
        }
        reading_ = true;
        lock.unlock();
        const auto why = read_some(until);
        lock.lock();
        reading_ = false;
        if (broken_.empty()) broken_ = why;
        take_answers();
        changed_.notify_all();
    }
}

/// Reads what there is, or waits for something; returns why nothing comes any more, or "".
std::string TcpConnection::read_some(Instant until) {
    if (!ready(socket_, POLLIN, until)) return {};
    auto buffer = std::array<char, 1 << 16>{};
    const auto count = recv(socket_, buffer.data(), buffer.size(), 0);
    if (count == 0) return "it closed the connection";
    if (count < 0) return errno == EAGAIN || errno == EINTR ? std::string{} : std::strerror(errno);
    in_.append(buffer.data(), static_cast<std::size_t>(count));
    return {};
}

void TcpConnection::take_answers() {
    auto taken = std::size_t{0};
    try {
        while (const auto message = wire::message_in(std::string_view(in_).substr(taken))) {
            auto reader = wire::Unpacker(*message);
            const auto id = reader.number();
            const auto status = static_cast<wire::Status>(reader.part(1).front());
            if (asked_.erase(id) > 0) answers_[id] = {status, std::string(reader.rest())};
            taken += 4 + message->size();
        }
    } catch (const wire::Malformed&) {
        broken_ = "what answers is no store of this version of rankmesh";
    }
    in_.erase(0, taken);
}

}  // namespace rankmesh::detail
