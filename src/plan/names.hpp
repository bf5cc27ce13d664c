// SPDX-License-Identifier: Apache-2.0
// Names of schedules, words of layouts, and comparisons of names of devices and frameworks, ignoring case.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// By `Schedule`.
constexpr auto schedule_names = std::array<std::string_view, 3>{"1f1b", "zb", "dualpipe"};
constexpr std::string_view name_of(Schedule schedule) {
    return schedule_names[static_cast<std::size_t>(schedule)];
}

/// Returns true if `text` begins with `name`, ignoring the case of ASCII letters.
inline bool begins_with(std::string_view text, std::string_view name) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return text.size() >= name.size() &&
           std::ranges::equal(text.substr(0, name.size()), name, {}, lower, lower);
}

inline bool same_name(std::string_view a, std::string_view b) {
    return a.size() == b.size() && begins_with(a, b);
}

/// Splits `tp=8`.
inline std::pair<std::string_view, std::string_view> name_and_value(std::string_view word) {
    const auto equals = std::min(word.find('='), word.size());
    return {word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))};
}

/// Calls `read` with each word of a text; blanks and commas separate words.
template <class Read>
void for_each_word(std::string_view text, const Read& read) {
    constexpr auto blanks = std::string_view(" \t\n\r,");
    for (auto at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
        const auto end = std::min(text.size(), text.find_first_of(blanks, at));
        read(text.substr(at, end - at));
        at = text.find_first_not_of(blanks, end);
    }
}

/// Calls `read` with each word of a layout, and returns their names. Throws UsageError if there is none, or a
/// name twice.
template <class Read>
std::vector<std::string_view> read_words(std::string_view text, std::string_view example, const Read& read) {
    auto seen = std::vector<std::string_view>{};
    for_each_word(text, [&](std::string_view word) {
        const auto name = name_and_value(word).first;
        if (std::ranges::find(seen, name) != seen.end())
            throw UsageError(detail::cat("the layout gives ", name, " twice; give it once"));
        read(word);
        seen.push_back(name);
    });
    if (seen.empty()) throw UsageError(detail::cat("the layout is empty; write one such as ", example));
    return seen;
}

}  // namespace rankmesh::plan
