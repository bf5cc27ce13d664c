// SPDX-License-Identifier: Apache-2.0
// Asks the framework whose rows docs/new-framework.md shows.
#include <gtest/gtest.h>

#include <rankmesh/frameworks/error.hpp>

#include "frameworks/rows.hpp"

using namespace rankmesh;

namespace rankmesh::frameworks {

Framework sample();

/// In place of the library's.
const std::vector<Framework>& all() {
    static const auto every = std::vector<Framework>{sample()};
    return every;
}

}  // namespace rankmesh::frameworks

TEST(Framework, OfTheDocumentAnswers) {
    const auto groups = frameworks::Groups("sample", {{"tensor_size", 2}, {"stages", 3}}, 12);
    EXPECT_EQ(to_string(groups.mesh()), "dp=2 pp=3 tp=2");
    const auto list = [](const auto& group) { return std::vector<int>(group.begin(), group.end()); };
    EXPECT_EQ(list(groups.group("stages", 1)), (std::vector{1, 3, 5}));
    EXPECT_EQ(list(groups.group("ends", 1)), (std::vector{1, 5}));
    const auto state = frameworks::State(groups, 9);
    EXPECT_EQ(state.ask("tensor_group"), frameworks::Value(std::vector{8, 9}));
    EXPECT_EQ(state.ask("stage"), frameworks::Value(1));
    EXPECT_EQ(state.ask("ends_size"), frameworks::Value(0));
    EXPECT_THROW(frameworks::Groups("sample", {{"tensor_size", 5}}, 12), frameworks::Error);
}
