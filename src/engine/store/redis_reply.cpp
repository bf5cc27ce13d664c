// SPDX-License-Identifier: Apache-2.0
#include "engine/store/redis_reply.hpp"

#include <hiredis/hiredis.h>

namespace rankmesh::detail {

RedisReply RedisReply::from(const redisReply& reply) {
    auto read = RedisReply{.is_error = reply.type == REDIS_REPLY_ERROR};
    if (reply.type == REDIS_REPLY_INTEGER)
        read.text = std::to_string(reply.integer);
    else if (reply.str)
        read.text = std::string(reply.str, reply.len);
    return read;
}

void refuse_lists(redisReader& reader) {
    static auto functions = [&] {
        auto made = *reader.fn;
        made.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };
        return made;
    }();
    reader.fn = &functions;
}

}  // namespace rankmesh::detail
