// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/store/redis_reply.hpp"
#include "engine/store/redis_url.hpp"

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

    RedisConnection(const RedisUrl& server, Instant until);
    ~RedisConnection();
    RedisConnection(const RedisConnection&) = delete;
    RedisConnection& operator=(const RedisConnection&) = delete;

    /// Sends commands together; returns their replies in order. Throws Broken, or Timeout at `until`.
    std::vector<RedisReply> ask(const std::vector<Command>& commands, Instant until);

private:
    const std::string server_;
    int socket_ = -1;
};

}  // namespace rankmesh::detail
