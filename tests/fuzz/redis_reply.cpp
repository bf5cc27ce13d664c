// SPDX-License-Identifier: Apache-2.0
// What a Redis server answers: the same replies in whatever pieces it comes, and no memory for what has not
// come.
#include "engine/store/redis_connection.hpp"

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
    auto answers = Answers{};
    auto come = std::string{};
    while (!bytes.empty() && !answers.refused) {
        const auto part = bytes.substr(0, piece);
        bytes.remove_prefix(part.size());
        come += part;
        auto unread = std::string_view(come);
        try {
            while (auto reply = RedisReply::take(unread)) answers.replies.push_back(*std::move(reply));
        } catch (const RedisReply::Malformed&) {
            answers.refused = true;
        }
        come.erase(0, come.size() - unread.size());
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
