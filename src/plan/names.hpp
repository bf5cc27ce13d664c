// SPDX-License-Identifier: Apache-2.0
// Compares names of devices and frameworks, ignoring case.
#pragma once

#include <algorithm>
#include <string_view>

namespace rankmesh::plan {

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
