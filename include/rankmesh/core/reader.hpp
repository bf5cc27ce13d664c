// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {

/// Reads notation piece by piece, left to right; what it cannot read it reports with the place.
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
    /// Skips blanks and at most one comma: what stands between two entries.
    constexpr void separator() {
        blanks();
        if (peek() == ',') ++at_;
        blanks();
    }
    /// True if an entry ends here: at a blank, a comma or the end.
    constexpr bool at_separator() const {
        return done() || peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == ',';
    }
    /// Skips `token` if it comes next.
    constexpr bool accept(std::string_view token) {
        if (!text_.substr(at_).starts_with(token)) return false;
        at_ += token.size();
        return true;
    }
    /// Skips `token`, throws UsageError if something else comes next.
    constexpr void expect(std::string_view token) {
        if (!accept(token)) fail(token);
    }
    /// The name that comes next; throws UsageError if there is none or it is too long.
    constexpr std::string_view name() {
        const auto begin = at_;
        while (is_name_character(peek()) && at_ < text_.size()) ++at_;
        if (at_ == begin) fail("a name");
        return checked_name(text_.substr(begin, at_ - begin));
    }
    /// The whole number that comes next; throws UsageError if there is none, or it is 2^31 or more in size.
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
        throw UsageError(cat(
            "the ", what_, " ", in_quotes(text_), " cannot be read: at character ", at_ + 1, " comes ",
            done() ? std::string("the end") : in_quotes(first_character(text_.substr(at_))), ", expected ",
            is_name_character(expected[0]) ? std::string(expected) : cat("'", expected, "'")));
    }

private:
    std::string_view what_;
    std::string_view text_;
    std::size_t at_;
};

}  // namespace rankmesh::detail
