// SPDX-License-Identifier: Apache-2.0
// What a Redis server answers: the same replies in whatever pieces it comes, and no memory for what has not
// come.
#include "engine/store/redis_reply.hpp"

#include <hiredis/hiredis.h>

#include <memory>
#include <vector>

#include "law.hpp"

namespace {

using rankmesh::detail::RedisReply;

struct Answers {
    std::vector<RedisReply> replies;
    bool refused = false;
    bool operator==(const Answers&) const = default;
};

Answers read(std::string_view bytes, std::size_t piece) {
    const auto reader =
        std::unique_ptr<redisReader, decltype(&redisReaderFree)>(redisReaderCreate(), redisReaderFree);
    rankmesh::detail::refuse_lists(*reader);
    auto answers = Answers{};
    while (!bytes.empty() && !answers.refused) {
        const auto part = bytes.substr(0, piece);
        bytes.remove_prefix(part.size());
        redisReaderFeed(reader.get(), part.data(), part.size());
        for (void* given = nullptr; !answers.refused;) {
            answers.refused = redisReaderGetReply(reader.get(), &given) != REDIS_OK;
            if (answers.refused || !given) break;
            answers.replies.push_back(RedisReply::from(*static_cast<redisReply*>(given)));
            freeReplyObject(given);
        }
    }
    return answers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    if (size < 2) return 0;
    const auto bytes = fuzz::bytes_of(data, size).substr(1);
    fuzz::require(read(bytes, bytes.size()) == read(bytes, std::size_t{data[0]} % 16 + 1),
                  "replies do not depend on the pieces in which they come");
    return 0;
}
