// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {

/// A parser of notation that reads token by token, left to right; its errors say what was expected, after
/// what, and what was found.
class Reader {
public:
    constexpr Reader(std::string_view what, std::string_view text, std::size_t from = 0)
        : what_(what), text_(text), at_(from) {}

    constexpr bool done() const { return at_ == text_.size(); }
    constexpr char peek() const { return done() ? '\0' : text_[at_]; }

    /// Skips blanks.
    constexpr void blanks() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at_;
    }
    /// Skips the separator of two entries: blanks and at most one comma.
    constexpr void separator() {
        blanks();
        if (peek() == ',') ++at_;
        blanks();
    }
    /// True if an entry ends here: at a blank, a comma or the end.
    constexpr bool at_separator() const {
        return done() || peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == ',';
    }
    /// Skips `token` if it follows; true if it did.
    constexpr bool accept(std::string_view token) {
        if (!text_.substr(at_).starts_with(token)) return false;
        at_ += token.size();
        return true;
    }
    /// Skips `token`; throws UsageError if something else follows.
    constexpr void expect(std::string_view token) {
        if (!accept(token)) fail(cat("'", token, "'"));
    }
    /// Reads a name; throws UsageError if none follows or it is too long.
    constexpr std::string_view name() {
        const auto begin = at_;
        while (is_name_character(peek()) && at_ < text_.size()) ++at_;
        if (at_ == begin) fail("a name");
        return checked_name(text_.substr(begin, at_ - begin));
    }
    /// Reads a whole number; throws UsageError if none follows, or it is 2^31 or more in size.
    constexpr int number() {
        const auto begin = at_;
        const auto negative = accept("-");
        if (peek() < '0' || peek() > '9') {
            at_ = begin;
            fail("a whole number");
        }
        auto value = std::int64_t{0};
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
            value = value * 10 + (peek() - '0');
            if (value > std::numeric_limits<int>::max())
                throw UsageError(cat("the number at character ", begin + 1, " of ", what_, " ",
                                     in_quotes(text_), " is larger than ", std::numeric_limits<int>::max()));
        }
        return static_cast<int>(negative ? -value : value);
    }
    /// Throws UsageError unless everything was read.
    constexpr void end() {
        blanks();
        if (!done()) fail("the end");
    }

    [[noreturn]] void fail(std::string_view expected) const {
        const auto before = entry_before();
        const auto found =
            done() ? std::string("the end")
                   : cat(in_quotes(first_character(text_.substr(at_))), " at character ", at_ + 1);
        throw UsageError(cat("the ", what_, " ", in_quotes(text_), " cannot be read: expected ", expected,
                             before.empty() ? "" : cat(" after ", in_quotes(before)), ", found ", found));
    }

private:
    /// The last entry that was read, or the part of it that was: what stands between two blanks or commas.
    std::string_view entry_before() const {
        constexpr auto separators = std::string_view(" \t\n,");
        const auto end = text_.substr(0, at_).find_last_not_of(separators);
        if (end == std::string_view::npos) return {};
        const auto before = text_.substr(0, end + 1);
        return before.substr(before.find_last_of(separators) + 1);  // npos + 1 is 0
    }

    std::string_view what_;
    std::string_view text_;
    std::size_t at_;
};

}  // namespace rankmesh::detail
