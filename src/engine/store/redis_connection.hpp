// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/store/redis_reply.hpp"
#include "engine/store/redis_url.hpp"

struct redisContext;

namespace rankmesh::detail {

/// A connection to a Redis server. Each call ends at a given instant.
///
/// After an exception it cannot be used any more, because a reply may still arrive.
class RedisConnection {
public:
    using Instant = std::chrono::steady_clock::time_point;
    using Command = std::vector<std::string>;

    /// Thrown if the connection cannot be made, or is gone.
    struct Broken : std::runtime_error {
        using std::runtime_error::runtime_error;
    };
    using Reply = RedisReply;

    RedisConnection(const RedisUrl& server, Instant until);
    ~RedisConnection();
    RedisConnection(const RedisConnection&) = delete;
    RedisConnection& operator=(const RedisConnection&) = delete;

    /// Sends commands together; returns their replies in order. Throws Broken, or Timeout at `until`.
    std::vector<RedisReply> ask(const std::vector<Command>& commands, Instant until);

private:
    [[noreturn]] void throw_no_server(const std::string& why) const;

    struct Free {
        void operator()(redisContext* context) const;
    };
    const std::string server_;
    std::unique_ptr<redisContext, Free> context_;
};

}  // namespace rankmesh::detail
