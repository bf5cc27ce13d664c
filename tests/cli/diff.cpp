// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "rankmesh.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

using support::content_of;

TEST(DiffSubcommand, EndsWithOneExactlyIfSomethingDiffers) {
    for (const auto& a : meshes())
        for (const auto& b : meshes()) {
            const auto words = "diff " + quoted(a) + " " + quoted(b);
            const auto text = rankmesh(words);
            auto same = a.size() == b.size();
            for (auto rank : a.ranks()) same = same && b.contains(rank);
            for (auto rank : a.ranks()) {
                if (!same) break;
                const auto coordinate = a.coord(rank);
                for (int i = 0; i < coordinate.size(); ++i) {
                    const auto axis = b.find(coordinate.name(i));
                    if ((axis ? b.index(rank, *axis) : 0) != coordinate[AxisId{i}]) same = false;
                }
            }
            EXPECT_EQ(text.exit_code, same ? 0 : 1) << words;
            EXPECT_EQ(text.output.find("nothing differs") != std::string::npos, same) << words;
            EXPECT_EQ(json_of(words + " --json")["same"], same) << words;
        }
}

TEST(DiffSubcommand, SaysOfEachRankInJsonWhatRankSays) {
    const auto place_of = [](const std::string& mesh, int rank, const std::string& on) {
        const auto told =
            json_of("rank '" + mesh + "' " + std::to_string(rank) + " --on '" + on + "' --json");
        return nlohmann::json{{"coord", told["coord"]}, {"host", told["host"]}};
    };
    const auto a = std::string("pp=2 dp=2 tp=4");
    const auto b = std::string("tp=4 pp=2 dp=2");
    const auto json =
        json_of("diff '" + a + "' '" + b + "' --on 'node:2 gpu:8' --on-b 'node:4 gpu:4' --json --first 100");
    EXPECT_EQ(json["first"].size(), 15U);  // all but rank 0
    for (const auto& one : json["first"]) {
        const auto rank = one["rank"].get<int>();
        EXPECT_EQ(one["a"], place_of(a, rank, "node:2 gpu:8"));
        EXPECT_EQ(one["b"], place_of(b, rank, "node:4 gpu:4"));
    }
    for (const auto& axis : json["axes"])
        for (const auto& group : axis["first"]) {
            const auto name = axis["axis"].get<std::string>();
            const auto rank = std::to_string(group["a"].front().get<int>());
            EXPECT_EQ(group["a"], json_of("rank '" + a + "' " + rank + " --json")["groups"][name]);
            EXPECT_EQ(group["b"], json_of("rank '" + b + "' " + rank + " --json")["groups"][name]);
        }
}

TEST(DiffSubcommand, ListsTheFirstAndCountsTheOthers) {
    const auto text = [](const std::string& words) { return rankmesh(words).output; };
    EXPECT_EQ(text("diff 'dp=4 tp=4' 'tp=4 dp=4' --first 2"), R"(a  dp=4 tp=4
b  tp=4 dp=4

12 of 16 ranks at another coordinate

  rank  a          b
  1     dp=0 tp=1  tp=0 dp=1
  2     dp=0 tp=2  tp=0 dp=2
  ... 10 more ranks

  axis  size  groups  same  other order  other ranks
  dp    4     4       0     0            4
  tp    4     4       0     0            4

  dp
    {0, 4, 8, 12}  ->  {0..3}
    {1, 5, 9, 13}  ->  {0..3}
  ... 2 more groups

  tp
    {0..3}  ->  {0, 4, 8, 12}
    {4..7}  ->  {0, 4, 8, 12}
  ... 2 more groups
)");
    // A group of a may be in one order or another, and be gone.
    EXPECT_EQ(text("diff 'a=2 b=2' 'a=2 b=2 @[1,0,2,3]' --first 1"), R"(a  a=2 b=2
b  a=2 b=2 @[1,0,2,3]

2 of 4 ranks at another coordinate

  rank  a        b
  0     a=0 b=0  a=0 b=1
  ... 1 more rank

  axis  size  groups  same  other order  other ranks
  a     2     2       0     0            2
  b     2     2       1     1            0

  a
    {0, 2}  ->  {0, 3}
  ... 1 more group

  b
    {0, 1}  ->  {1, 0}
)");
    EXPECT_EQ(text("diff 'dp=2' 'dp=3 cp=1' --first 0"), R"(a  dp=2
b  dp=3 cp=1

0 of 2 ranks at another coordinate
1 rank only in b

  axis  size    groups  same  other order  other ranks
  dp    2 -> 3  1       0     0            1
  cp    1       2 -> 3  2     0            0 -> 1

  dp
  ... 1 more group
)");
}

TEST(DiffSubcommand, CountsAMillionRanksAndListsEight) {
    const auto million = rankmesh("diff 'dp=131072 tp=8' 'tp=8 dp=131072'").output;
    EXPECT_LT(million.size(), 4000U);
    EXPECT_NE(million.find("  ... 1048566 more ranks\n"), std::string::npos) << million;
}

TEST(DiffSubcommand, ComparesOneMeshOnTwoClusters) {
    EXPECT_EQ(rankmesh("diff 'dp=2 tp=4' --on 'node:2 gpu:4' --on-b 'node:4 gpu:2' --first 1").output,
              R"(a  dp=2 tp=4 on node:2 gpu:4
b  dp=2 tp=4 on node:4 gpu:2

0 of 8 ranks at another coordinate
6 in another node

  rank  a                          b
  2     dp=0 tp=2 on node=0 gpu=2  dp=0 tp=2 on node=1 gpu=0
  ... 5 more ranks

  axis  size  groups  same  other order  other ranks  inside one node
  dp    2     4       4     0            0            0
  tp    4     2       2     0            0            2 -> 0
)");
    EXPECT_EQ(rankmesh("diff 'dp=2 tp=4' --on 'node:2 gpu:4' --on-b 'node:2(25GB/s) gpu:4'").exit_code, 0);
}

TEST(DiffSubcommand, DrawsBothSides) {
    const auto folder = support::Folder();
    const auto path = std::filesystem::path(folder.path()) / "diff.svg";
    const auto words = std::string("diff 'dp=2 tp=2' 'tp=2 dp=2' --out '") + path.string() + "'";
    const auto outcome = rankmesh(words);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.output, rankmesh("diff 'dp=2 tp=2' 'tp=2 dp=2'").output);
    const auto svg = content_of(path);
    EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
    EXPECT_NE(svg.find("<title>dp=2 tp=2 and tp=2 dp=2</title>"), std::string::npos);
    EXPECT_NE(svg.find("2 of 4 ranks at another coordinate"), std::string::npos);
}

TEST(DiffSubcommand, SaysWhatItCannotCompare) {
    const auto expect_misuse = [](const std::string& words, const std::string& text) {
        const auto outcome = rankmesh(words);
        EXPECT_EQ(outcome.exit_code, 2) << words;
        EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
    };
    expect_misuse("diff dp=8", "diff has only one mesh on one cluster; add a second mesh, or --on-b CLUSTER");
    expect_misuse("diff dp=8 --on 'node:1 gpu:8'",
                  "diff has only one mesh on one cluster; add a second mesh, or --on-b CLUSTER");
    expect_misuse("diff dp=8 tp=8 --on-b 'node:1 gpu:8'",
                  "--on-b gives the cluster of the second mesh, but the first has none; add --on CLUSTER");
    expect_misuse(
        "diff dp=8 tp=4 --on 'node:1 gpu:4'",
        "mesh dp=8 reaches rank 7, but cluster node:1 gpu:4 has 4 devices; it fits on node:2 gpu:4");
    expect_misuse("diff dp=8 tp=8 --out diff.html",
                  "--out 'diff.html' has no known file type; the name must end in .svg");
}

}  // namespace
}  // namespace rankmesh::tests
