// SPDX-License-Identifier: Apache-2.0
// Words of texts, and comparisons of names of devices and frameworks, ignoring case.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::plan {

using detail::cat;
using detail::counted;
using detail::in_quotes;

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

}  // namespace rankmesh::plan
