// SPDX-License-Identifier: Apache-2.0
// Groups as the originals list them, and what is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

namespace rankmesh::tests {

using Lists = std::vector<std::vector<int>>;

inline Lists lists(const frameworks::Groups& groups, std::string_view kind) {
    auto all = Lists{};
    for (int i = 0; i < groups.count(kind); ++i) {
        const auto group = groups.group(kind, i);
        all.emplace_back(group.begin(), group.end());
    }
    return all;
}

inline std::string refusal(const char* framework, const frameworks::Values& settings, int world) {
    try {
        frameworks::Groups(framework, settings, world);
    } catch (const frameworks::Error& error) {
        return error.what();
    }
    return "nothing is refused";
}

}  // namespace rankmesh::tests
