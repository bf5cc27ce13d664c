// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <set>

#include "engine/fork.hpp"
#include "engine/store/tcp_protocol.hpp"

namespace rankmesh::detail {

/// A connection to the server of a store. Any number of threads may ask at a time.
class TcpConnection {
public:
    using Instant = std::chrono::steady_clock::time_point;
    struct Answer {
        tcp_protocol::Status status = tcp_protocol::Status::done;
        std::string body;
    };
    /// Thrown if the connection has broken, by this and every later call.
    struct Broken {
        std::string why;
    };
    /// Thrown if the server does nothing until the instant that a call gives.
    struct Silent {
        std::string what;  // `has not answered`
        std::chrono::steady_clock::time_point begin;
    };

    explicit TcpConnection(int socket) : socket_(socket) {}
    ~TcpConnection();
    TcpConnection& operator=(TcpConnection&&) = delete;

    /// Sends a request, to which it gives an id, and waits for the answer.
    Answer ask(tcp_protocol::Request request, Instant until);
    /// Sends a request that is not answered.
    void tell(const tcp_protocol::Request& request, Instant until) { send(request.bytes(), until); }

private:
    /// Why the connection has broken, "" while it has not.
    std::string broken() {
        const auto lock = std::lock_guard(mutex_);
        return broken_;
    }
    void send(std::string_view bytes, Instant until);
    Answer receive(std::uint32_t id, Instant until);
    std::string read_some(Instant until);
    void take_answers();
    void fail(const std::string& why) {
        const auto lock = std::lock_guard(mutex_);
        if (broken_.empty()) broken_ = why;
        changed_.notify_all();
    }

    int socket_;
    const ClosedOnFork closed_in_children_{socket_};

    std::mutex sending_;
    std::mutex mutex_;  // of what follows; `in_` belongs to the thread that reads
    std::condition_variable changed_;
    bool reading_ = false;
    std::string in_;
    std::string broken_;
    std::set<std::uint32_t> asked_;
    std::map<std::uint32_t, Answer> answers_;
    std::uint32_t next_id_ = 1;
};

}  // namespace rankmesh::detail
