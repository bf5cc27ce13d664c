// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

TEST(RankSubcommand, AnswersInJsonWhatTheMeshAnswers) {
    for (const auto& mesh : meshes())
        for (auto rank : {mesh.ranks().front(), mesh.ranks()[mesh.size() / 2], mesh.ranks().back()}) {
            const auto json = json_of("rank " + quoted(mesh) + " " + std::to_string(rank) + " --json");
            EXPECT_EQ(json["rank"], rank);
            EXPECT_EQ(json["mesh"], to_string(mesh));
            EXPECT_EQ(json["coord"].size(), static_cast<std::size_t>(mesh.axis_count()));
            for (int a = 0; a < mesh.axis_count(); ++a) {
                const auto axis = AxisId{a};
                const auto name = std::string(mesh.name(axis));
                const auto group = mesh.group(rank, axis);
                EXPECT_EQ(json["coord"][name], mesh.index(rank, axis)) << mesh;
                EXPECT_EQ(json["groups"][name], std::vector<int>(group.begin(), group.end())) << mesh;
                const auto step = [&](const char* key, int by) {
                    const auto to = mesh.neighbor(rank, axis, by);
                    EXPECT_EQ(json["neighbors"][name][key], to ? nlohmann::json(*to) : nlohmann::json())
                        << mesh;
                };
                step("prev", -1);
                step("next", +1);
            }
            // A coordinate names the same rank.
            auto coordinate = to_string(mesh.coord(rank));
            for (auto& c : coordinate)
                if (c == ' ') c = ',';
            EXPECT_EQ(json_of("rank " + quoted(mesh) + " " + coordinate + " --json"), json) << mesh;
        }
}

TEST(RankSubcommand, PrintsATable) {
    EXPECT_EQ(rankmesh("rank 'pp=4 dp=8 tp=8' 67 --on 'node:32 gpu:8'").output,
              "rank 67 of pp=4 dp=8 tp=8\n"
              "\n"
              "  at    pp=1 dp=0 tp=3\n"
              "  host  node=8 gpu=3\n"
              "\n"
              "  axis   index  prev  next  group\n"
              "  pp    1 of 4     3   131  {3, 67, 131, 195}\n"
              "  dp    0 of 8     -    75  {67, 75, ..., 123}  first\n"
              "  tp    3 of 8    66    68  {64..71}\n");
}

TEST(RankSubcommand, KnowsAPlacement) {
    const auto json = json_of("rank 'a=2 b=2 @[3,1,2,0]' 1 --json --on 'node:2 gpu:2'");
    EXPECT_EQ(json["coord"], nlohmann::json::parse(R"({"a": 0, "b": 1})"));
    EXPECT_EQ(json["groups"], nlohmann::json::parse(R"({"a": [1, 0], "b": [3, 1]})"));
    EXPECT_EQ(json["neighbors"]["b"], nlohmann::json::parse(R"({"prev": 3, "next": null})"));
    EXPECT_EQ(json["host"], nlohmann::json::parse(R"({"node": 0, "gpu": 1})"));
}

TEST(RankSubcommand, TakesTheWorldForTheSizeThatIsLeft) {
    EXPECT_EQ(json_of("rank 'pp=2 dp=* tp=2' 0 --world 24 --json")["mesh"], "pp=2 dp=6 tp=2");
    EXPECT_EQ(json_of("rank 'pp=2 dp=* tp=2' 0 --json", "export WORLD_SIZE=8;")["mesh"], "pp=2 dp=2 tp=2");
    EXPECT_EQ(json_of("rank 'dp=*' 0 --world 3 --json", "export WORLD_SIZE=8;")["mesh"], "dp=3");
}

}  // namespace
}  // namespace rankmesh::tests
