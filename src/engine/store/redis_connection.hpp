// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stdexcept>
#include <vector>

#include "engine/store/url.hpp"

namespace rankmesh::detail {

/// What a Redis server answers to one command.
struct RedisReply {
    bool is_error = false;
    std::optional<std::string> text = {};  // nothing for nil

    /// Thrown for bytes that begin no reply.
    struct Malformed {
        std::string why;
    };
    /// Takes the reply at the begin of the bytes; nothing, and no bytes, while it is incomplete. No command
    /// here is answered by a list, so a list is malformed.
    static std::optional<RedisReply> take(std::string_view& bytes);
    bool operator==(const RedisReply&) const = default;
};

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
    RedisConnection& operator=(RedisConnection&&) = delete;

    /// Sends commands together; returns their replies in order. Throws Broken, or Timeout at `until`.
    std::vector<RedisReply> ask(const std::vector<Command>& commands, Instant until);

private:
    const std::string server_;
    int socket_ = -1;
};

}  // namespace rankmesh::detail
