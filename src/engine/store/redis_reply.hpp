// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace rankmesh::detail
