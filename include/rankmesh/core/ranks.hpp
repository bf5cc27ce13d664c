// SPDX-License-Identifier: Apache-2.0
// Writes and reads lists of ranks: {0..7, 64..71}, {0, 8, ..., 56}.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <vector>

#include <rankmesh/core/detail/reader.hpp>

namespace rankmesh {

/// Returns the ranks as text, in their order: three or more in a row as `0..7`, five or more of one step as
/// `0, 8, ..., 56`, others one by one.
///
/// 0 1 2 3 8 16 24 32 40 | ranks_to_string -> {0..3, 8, 16, ..., 40}
inline std::string ranks_to_string(std::ranges::random_access_range auto const& ranks) {
    auto out = std::string("{");
    const auto count = static_cast<std::ptrdiff_t>(std::ranges::size(ranks));
    const auto begin = std::ranges::begin(ranks);
    for (std::ptrdiff_t i = 0; i < count;) {
        if (i > 0) out += ", ";
        auto end = i + 1;  // one past the last term of the step that starts here
        const auto step = end < count ? std::int64_t{begin[end]} - begin[i] : 0;
        while (end < count && std::int64_t{begin[end]} - begin[end - 1] == step) ++end;
        if (step == 1 && end - i >= 3) {
            detail::append(out, detail::cat(begin[i], "..", begin[end - 1]));
        } else if (step != 0 && step != 1 && end - i >= 5) {
            detail::append(out, detail::cat(begin[i], ", ", begin[i + 1], ", ..., ", begin[end - 1]));
        } else {
            end = i + 1;
            detail::append(out, begin[i]);
        }
        i = end;
    }
    return out + "}";
}

/// The default limit of `parse_ranks`, because a text of 20 characters can stand for 2^31 ranks.
inline constexpr std::size_t max_parsed_ranks = std::size_t{1} << 20;

/// Reads `{0..7, 64..71}` or `{0, 8, ..., 56}`. Throws UsageError for any other text, for negative or
/// repeated ranks, and for more than `most` ranks.
///
/// Law: `parse_ranks(ranks_to_string(ranks)) == ranks` if the ranks are distinct and not negative.
///
///     parse_ranks("{0..2, 9, 7, ..., 3}") == std::vector{0, 1, 2, 9, 7, 5, 3}
inline std::vector<int> parse_ranks(std::string_view text, std::size_t most = max_parsed_ranks) {
    auto reader = detail::Reader("group", text);
    auto ranks = std::vector<int>{};
    auto fresh = 0;  // terms since the last `..` or `...`: two of them give the step of a `...`
    const auto rank = [&] {
        const auto number = reader.number();
        if (number < 0)
            throw UsageError(detail::cat("the group ", detail::in_quotes(text), " lists rank ", number,
                                         "; ranks are 0 or more"));
        return number;
    };
    const auto check_room = [&](std::int64_t more) {
        if (ranks.size() + static_cast<std::size_t>(more) > most)
            throw UsageError(
                detail::cat("the group ", detail::in_quotes(text), " lists more than ", most, " ranks"));
    };
    const auto fill = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
        const auto steps = step == 0 ? 0 : (to - from) / step;
        if (steps < 1 || from + steps * step != to)
            throw UsageError(detail::cat("the group ", detail::in_quotes(text), " has a range from ", from,
                                         " to ", to, " that steps of ", step, " do not reach"));
        check_room(steps + 1);
        for (auto next = from; next != to + step; next += step) ranks.push_back(static_cast<int>(next));
        fresh = 0;
    };
    reader.blanks();
    reader.expect("{");
    reader.blanks();
    if (!reader.accept("}")) {
        do {
            reader.blanks();
            if (reader.accept("...")) {
                if (fresh < 2)
                    throw UsageError(detail::cat("the group ", detail::in_quotes(text),
                                                 " has '...' after fewer than two ranks; their difference is "
                                                 "the step, as in {0, 8, ..., 56}"));
                reader.blanks();
                reader.expect(",");
                reader.blanks();
                const auto last = std::int64_t{ranks.back()};
                const auto step = last - ranks[ranks.size() - 2];
                fill(last + step, rank(), step);
            } else {
                const auto first = rank();
                if (reader.accept(".."))
                    fill(first, rank(), 1);
                else
                    check_room(1), ranks.push_back(first), ++fresh;
            }
            reader.blanks();
        } while (reader.accept(","));
        reader.expect("}");
    }
    reader.end();
    auto sorted = ranks;
    std::ranges::sort(sorted);
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
        throw UsageError(
            detail::cat("the group ", detail::in_quotes(text), " lists rank ", *twice, " twice"));
    return ranks;
}

}  // namespace rankmesh
