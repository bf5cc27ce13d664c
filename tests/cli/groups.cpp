// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <sstream>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

TEST(GroupsSubcommand, ListsThePartitionAlongEverySetOfOneOrTwoAxes) {
    for (const auto& mesh : meshes())
        for (int a = 0; a < mesh.axis_count(); ++a)
            for (int b = 0; b <= a; ++b) {
                auto axes = std::string(mesh.name(AxisId{a}));  // not in mesh order: a set is a set
                if (b != a) axes += "," + std::string(mesh.name(AxisId{b}));
                const auto partition = mesh.partition(AxisId{a}, AxisId{b});
                auto expected = nlohmann::json::array();
                for (const auto& group : partition)
                    expected.push_back(std::vector<int>(group.begin(), group.end()));
                const auto words = "groups " + quoted(mesh) + " " + axes;
                const auto json = json_of(words + " --json");
                EXPECT_EQ(json["groups"], expected) << mesh << " along " << axes;
                EXPECT_EQ(json["mesh"], to_string(mesh));
                EXPECT_EQ(json["axes"].size(), b == a ? 1U : 2U);
                EXPECT_EQ(json["axes"][0], mesh.name(AxisId{b}));

                auto lines = std::istringstream(rankmesh(words).output);
                auto line = std::string{};
                std::getline(lines, line);
                EXPECT_TRUE(line.starts_with("# " + std::to_string(partition.size()) + " group")) << line;
                for (const auto& group : partition) {
                    std::getline(lines, line);
                    EXPECT_EQ(parse_ranks(line), std::vector<int>(group.begin(), group.end()));
                }
                EXPECT_FALSE(std::getline(lines, line));
            }
}

TEST(GroupsSubcommand, StreamsAMillionGroups) {
    const auto last = rankmesh("groups 'dp=1000000 tp=2' tp | tail -n 1");
    EXPECT_EQ(last.output, "{1999998, 1999999}\n");
    const auto json = json_of("groups 'dp=1000000 tp=2' tp --json");
    ASSERT_EQ(json["groups"].size(), 1000000U);
    EXPECT_EQ(json["groups"][999999], nlohmann::json::parse("[1999998, 1999999]"));
    EXPECT_EQ(rankmesh("groups 'a=1024 b=1024 c=1024' a,b,c").output,
              "# 1 group of 1073741824 ranks along a,b,c of a=1024 b=1024 c=1024\n{0..1073741823}\n");
}

/// The most memory in KiB that a program started here has held so far.
long peak_of_children() {
    auto usage = rusage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_maxrss;
}

TEST(GroupsSubcommand, NeedsNoMoreMemoryForAMillionGroupsThanForOne) {
    EXPECT_EQ(rankmesh("groups 'dp=1 tp=2' tp --json").exit_code, 0);
    const auto one = peak_of_children();
    EXPECT_EQ(rankmesh("groups 'dp=1000000 tp=2' tp --json | tail -c 20").output, "[1999998,1999999]]}\n");
    EXPECT_LT(peak_of_children(), one + 8 * 1024);
}

TEST(GroupsSubcommand, ListsAPlacementInTheOrderOfItsMesh) {
    EXPECT_EQ(rankmesh("groups 'a=2 b=2 @[3,1,2,0]' b").output,
              "# 2 groups of 2 ranks along b of a=2 b=2 @[3,1,2,0]\n{3, 1}\n{2, 0}\n");
    EXPECT_EQ(json_of("groups 'a=2 b=2 @[3,1,2,0]' a --json")["groups"],
              nlohmann::json::parse("[[3, 2], [1, 0]]"));
}

}  // namespace
}  // namespace rankmesh::tests
