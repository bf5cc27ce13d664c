// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

struct redisReader;
struct redisReply;

namespace rankmesh::detail {

/// What a Redis server answers to one command.
struct RedisReply {
    bool is_error = false;
    std::optional<std::string> text = {};  // nothing for nil

    static RedisReply from(const redisReply& reply);
    bool operator==(const RedisReply&) const = default;
};

/// No command here is answered by a list, for which hiredis would take as much memory as its length says.
void refuse_lists(redisReader& reader);

}  // namespace rankmesh::detail
