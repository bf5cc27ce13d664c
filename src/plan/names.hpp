// SPDX-License-Identifier: Apache-2.0
// Names of schedules, and comparisons of names of devices and frameworks, ignoring case.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

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

}  // namespace rankmesh::plan
