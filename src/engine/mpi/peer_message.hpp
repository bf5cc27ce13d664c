// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// A datagram between the watchdogs of one host; an answer is followed by its text, a question by the name of
/// the record_key that it is about, if it is about one.
struct PeerMessage {
    enum class Kind : std::uint32_t { question = 0x726d7133, answer = 0x726d6133, end = 0x726d6533 };
    struct Head {
        Kind kind;
        std::int32_t rank;
        std::uint64_t key = 0;
        std::uint64_t number = 0;
        std::uint64_t flags = 0;  // of an answer; of a question: 1 for a report
        // Of an answer: the channel and the number of the call that the rank waits in, if it is in one.
        std::uint64_t in_key = 0;
        std::uint64_t in_number = 0;
    };
    static constexpr std::size_t longest_text = 400;
    static constexpr std::size_t longest = sizeof(Head) + longest_text;

    Head head;
    std::string text = {};

    std::string bytes() const {
        auto bytes = std::string(reinterpret_cast<const char*>(&head), sizeof head);
        return bytes.append(text, 0, longest_text);
    }
    /// Nothing for what is no message of a rank.
    static std::optional<PeerMessage> from(std::string_view bytes) {
        auto read = PeerMessage{};
        if (bytes.size() < sizeof read.head || bytes.size() > longest) return std::nullopt;
        std::memcpy(&read.head, bytes.data(), sizeof read.head);
        const auto kind = read.head.kind;
        if (kind != Kind::question && kind != Kind::answer && kind != Kind::end) return std::nullopt;
        if (read.head.rank < 0) return std::nullopt;
        read.text = bytes.substr(sizeof read.head);
        return read;
    }
};

}  // namespace rankmesh::detail
