// SPDX-License-Identifier: Apache-2.0
// The replies of Redis's protocol, RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec.
#include "engine/store/redis_reply.hpp"

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

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

}  // namespace rankmesh::detail
