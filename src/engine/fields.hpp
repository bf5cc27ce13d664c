// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

namespace rankmesh::detail {

/// Reads a text that ranks send each other: numbers with a space after each, and parts whose lengths are
/// known.
///
/// Throws EngineFailure, which says of `what` that it cannot be read, where the text is another.
class Fields {
public:
    Fields(std::string_view text, const char* what) : text_(text), what_(what) {}

    bool at_end() const { return text_.empty(); }
    std::size_t number() {
        auto value = std::size_t{};
        const auto* end = text_.data() + text_.size();
        const auto [after, error] = std::from_chars(text_.data(), end, value);
        if (error != std::errc{} || after == end || *after != ' ') throw_unreadable();
        text_.remove_prefix(static_cast<std::size_t>(after - text_.data()) + 1);
        return value;
    }
    std::string part(std::size_t bytes) {
        if (bytes > text_.size()) throw_unreadable();
        const auto part = text_.substr(0, bytes);
        text_.remove_prefix(bytes);
        return std::string(part);
    }
    /// What comes before the next `end`, which is left out.
    std::string until(char end) {
        const auto at = text_.find(end);
        if (at == text_.npos) throw_unreadable();
        auto text = part(at);
        text_.remove_prefix(1);
        return text;
    }
    std::string line() { return until('\n'); }
    /// The ranks that a part of the text lists, at most `most`: a short text can stand for 2^31 of them.
    std::vector<int> ranks(std::string_view part, std::size_t most) const {
        try {
            return parse_ranks(part, most);
        } catch (const UsageError&) {
            throw_unreadable();
        }
    }
    std::string rest() { return part(text_.size()); }
    [[noreturn]] void throw_unreadable() const {
        throw EngineFailure(
            cat(what_, " cannot be read; start all ranks with the same rankmesh, in a job of its own"));
    }

private:
    std::string_view text_;
    const char* what_;
};

/// Texts as one, each with its length before it.
inline std::string pack_texts(const std::vector<std::string>& texts) {
    auto bytes = std::string{};
    for (const auto& each : texts) append(bytes, cat(each.size(), " ", each));
    return bytes;
}

/// Reads what `pack_texts` has written; throws EngineFailure for anything else.
inline std::vector<std::string> unpack_texts(std::string_view bytes) {
    auto texts = std::vector<std::string>{};
    for (auto fields = Fields(bytes, "what another rank says"); !fields.at_end();)
        texts.push_back(fields.part(fields.number()));
    return texts;
}

}  // namespace rankmesh::detail
