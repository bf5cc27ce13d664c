// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <gtest/gtest.h>

#include <rankmesh/frameworks/groups.hpp>

#include "rankmesh.hpp"

namespace rankmesh::tests {

TEST(FrameworksCommand, ListsEachWithItsVersion) {
    const auto listed = rankmesh("frameworks --json");
    EXPECT_EQ(listed.exit_code, 0);
    const auto all = nlohmann::json::parse(listed.output);
    const auto text = rankmesh("frameworks").output;
    auto names = std::set<std::string>{};
    for (const auto& one : all) {
        names.insert(one["name"]);
        EXPECT_NE(text.find(one["settings"]), std::string::npos) << one;
    }
    for (const auto& name : frameworks::names()) EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_TRUE(names.contains("megatron"));
}

}  // namespace rankmesh::tests
