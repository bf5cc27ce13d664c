// SPDX-License-Identifier: Apache-2.0
// Splits lists of ranks into terms such as 0..7, without making a text of all of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh::view {

/// One term of the notation of ranks: `7`, `0..7` or `0, 8, ..., 56`.
struct Term {
    std::int64_t first = 0;
    std::int64_t step = 0;
    std::ptrdiff_t count = 1;  ///< number of ranks in the term
};

inline std::string to_string(const Term& term) {
    const auto last = term.first + (term.count - 1) * term.step;
    if (term.count == 1) return std::to_string(term.first);
    if (term.step == 1) return detail::cat(term.first, "..", last);
    return detail::cat(term.first, ", ", term.first + term.step, ", ..., ", last);
}

/// Calls `visit(term)` for each term of `ranks_to_string` until `visit` returns false. This writes, or
/// shortens, a group of millions without its whole text in memory.
///
/// If `run` is not 0, every `run` ranks make one term; then the cost of a term does not depend on its number
/// of ranks.
///
/// Law: `{` + the terms joined by `, ` + `}` is `ranks_to_string(ranks)`.
template <std::ranges::random_access_range Ranks>
void for_each_term(const Ranks& ranks, std::ptrdiff_t run, std::predicate<Term> auto&& visit) {
    const auto count = static_cast<std::ptrdiff_t>(std::ranges::size(ranks));
    const auto begin = std::ranges::begin(ranks);
    for (std::ptrdiff_t i = 0; i < count;) {
        auto end = i + 1;
        const auto step = end < count ? std::int64_t{begin[end]} - begin[i] : 0;
        if (run > 0 && i % run == 0) end = i + run;
        while (end < count && std::int64_t{begin[end]} - begin[end - 1] == step) ++end;
        if (end - i < (step == 1 ? 3 : 5)) end = i + 1;
        if (!visit(Term{begin[i], step, end - i})) return;
        i = end;
    }
}

/// Returns at most `most` terms, the first ones.
template <std::ranges::random_access_range Ranks>
std::vector<Term> first_terms(const Ranks& ranks, std::ptrdiff_t run, std::size_t most) {
    auto terms = std::vector<Term>{};
    for_each_term(ranks, run, [&](const Term& term) {
        terms.push_back(term);
        return terms.size() < most;
    });
    return terms;
}

/// Returns `{0..7, … 56 more}`: as many of the first terms of `size` ranks as `room` columns have room for.
inline std::string brief(std::span<const Term> terms, std::ptrdiff_t size, std::size_t room = 1024) {
    for (;; terms = terms.first(terms.size() - 1)) {
        auto text = std::string("{");
        auto left = size;
        for (const auto& term : terms) {
            text += (text.size() > 1 ? ", " : "") + to_string(term);
            left -= term.count;
        }
        if (left > 0) text += detail::cat(text.size() > 1 ? ", " : "", "… ", left, " more");
        text += '}';
        const auto columns = text.size() - (left > 0 ? 2U : 0U);  // … has three bytes
        if (terms.empty() || columns <= room) return text;
    }
}

/// Returns the `run` of groups along these axes: the size of their innermost digit, or 0 if it is too short
/// for a term, or if there is a table.
inline std::ptrdiff_t run_along(const Placement& placement, AxisSet axes) {
    if (!placement.table().empty()) return 0;
    const auto& mesh = placement.mesh();
    auto along = Layout{};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto digits = mesh.layout(AxisId{a});
        for (int k = 0; axes.contains({a}) && k < digits.digit_count(); ++k) along.append(digits.digit(k));
    }
    if (along.digit_count() == 0) return 0;
    const auto inner = along.digit(along.digit_count() - 1);
    return inner.size >= (inner.stride == 1 ? 3 : 5) ? inner.size : 0;
}

}  // namespace rankmesh::view
