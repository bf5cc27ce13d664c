// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/name.hpp>

namespace rankmesh::frameworks {

/// As Python prints a list: `[2, 4]`, `['pipe', 'data']`.
inline std::string list_of(const std::vector<int>& sizes) {
    return detail::cat("[", detail::with_commas(sizes), "]");
}
inline std::string list_of(std::vector<std::string> names) {
    for (auto& name : names) name = detail::cat("'", name, "'");
    return detail::cat("[", detail::with_commas(names), "]");
}

inline bool holds(const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

}  // namespace rankmesh::frameworks
