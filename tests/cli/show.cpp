// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

/// The columns that a line of UTF-8 takes.
int width_of(const std::string& line) {
    auto width = 0;
    for (auto c : line) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
    return width;
}

int widest(const std::string& text) {
    auto lines = std::istringstream(text);
    auto most = 0;
    for (auto line = std::string{}; std::getline(lines, line);) most = std::max(most, width_of(line));
    return most;
}

TEST(ShowSubcommand, FitsEveryWidth) {
    for (const auto& mesh :
         {Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}}, Mesh{{"dp", 1000}}, Mesh{{"dp", 64}, {"tp", 64}}})
        for (auto width : {40, 80, 120, 200}) {
            const auto on = " --on 'node:600 gpu:8'";
            EXPECT_LE(
                widest(rankmesh("show " + quoted(mesh) + on + " --width " + std::to_string(width)).output),
                width);
            EXPECT_LE(
                widest(
                    rankmesh("show " + quoted(mesh), "export COLUMNS=" + std::to_string(width) + ";").output),
                width);
        }
    EXPECT_GT(widest(rankmesh("show 'pp=4 dp=8 tp=8' --width 200").output), 120);
}

TEST(ShowSubcommand, ShowsInJsonEveryRankOfASmallMeshInItsBox) {
    for (const auto& mesh : meshes()) {
        const auto json = json_of("show " + quoted(mesh) + " --on 'node:50 gpu:3' --width 100 --json");
        auto shown = std::set<int>{};
        for (const auto& row : json["rows"])
            for (std::size_t c = 0; c < row["ranks"].size(); ++c) {
                if (row["ranks"][c].is_null()) continue;
                const auto rank = row["ranks"][c].get<int>();
                EXPECT_TRUE(shown.insert(rank).second);
                EXPECT_EQ(row["boxes"][c], rank / 3);
                EXPECT_EQ(json["boxes"][std::to_string(rank / 3)], "node " + std::to_string(rank / 3));
            }
        EXPECT_EQ(shown, std::set<int>(mesh.ranks().begin(), mesh.ranks().end())) << mesh;
        EXPECT_EQ(json["size"], mesh.size());
        EXPECT_EQ(json["mesh"], to_string(mesh));
        EXPECT_EQ(json["axes"].size(), static_cast<std::size_t>(mesh.axis_count()));
        EXPECT_EQ(json["on"], "node:50 gpu:3");
    }
}

TEST(ShowSubcommand, SaysInJsonWhatIsFolded) {
    const auto json = json_of("show 'dp=1048576 tp=8' --width 80 --json");
    auto folded = 0;
    for (const auto& row : json["rows"])
        for (const auto& fold : row["folded_before"]) {
            EXPECT_EQ(fold["axis"], "dp");
            folded += fold["last"].get<int>() - fold["first"].get<int>() + 1;
        }
    EXPECT_EQ(folded + static_cast<int>(json["rows"].size()), 1048576);
}

TEST(ShowSubcommand, ShowsTheRankThatIsAskedForInAMeshOfAnySize) {
    for (const auto* words : {"'pp=2 dp=2 tp=2' --rank 5", "'pp=10 dp=125 tp=8' --rank 4444",
                              "'pp=16 dp=8192 tp=8' --rank pp=7,dp=5156,tp=3 --on 'node:131072 gpu:8'",
                              "dp=1048576 --rank 765432"}) {
        const auto json = json_of("show " + std::string(words) + " --width 80 --json");
        const auto focus = json["focus"].get<int>();
        auto shown = 0;
        for (const auto& row : json["rows"])
            for (const auto& rank : row["ranks"]) shown += rank == focus ? 1 : 0;
        EXPECT_EQ(shown, 1) << words;
        const auto mark = "[" + std::to_string(focus) + "]";
        for (const auto* picture : {"show ", "draw --format txt "}) {
            const auto text = rankmesh(picture + std::string(words) + " --width 80").output;
            EXPECT_NE(text.find(mark), std::string::npos) << text;
            EXPECT_LT(text.size(), 20000U) << words;
        }
        const auto svg = rankmesh("draw --format svg " + std::string(words)).output;
        EXPECT_NE(svg.find("in-focus\">" + std::to_string(focus) + "<"), std::string::npos) << words;
    }
}

TEST(ShowSubcommand, ColoursOnlyATerminalUnlessToldOtherwise) {
    const auto escapes = [](const support::Outcome& outcome) {
        EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
        return outcome.output.find('\033') != std::string::npos;
    };
    EXPECT_FALSE(escapes(rankmesh("show dp=8")));
    EXPECT_FALSE(escapes(rankmesh("show dp=8 --color never")));
    EXPECT_TRUE(escapes(rankmesh("show dp=8 --color always")));
    EXPECT_TRUE(escapes(rankmesh("show dp=8 --color=always", "export NO_COLOR=1;")));
    // script(1) gives the command a terminal.
    const auto terminal = [&](const std::string& environment) {
        return escapes(support::run(clean + environment + "script -qec \"" + command +
                                    "show dp=8\" /dev/null </dev/null"));
    };
    EXPECT_TRUE(terminal(""));
    EXPECT_FALSE(terminal("export NO_COLOR=1;"));
    EXPECT_TRUE(terminal("export NO_COLOR=;"));
    EXPECT_FALSE(terminal("export TERM=dumb;"));
}

TEST(ShowSubcommand, DrawsTheLargestWorld) {
    const auto outcome =
        rankmesh("show 'pp=1024 dp=1024 tp=1024' --on 'rack:1024 node:131072 gpu:8' --width 80");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_LT(outcome.output.size(), 20000U);
    EXPECT_NE(outcome.output.find("1073741823"), std::string::npos);
}

TEST(ShowSubcommand, OnMachinesTheRanksOfANodeStandSideBySide) {
    const auto rows = [](const std::string& mesh) {
        return json_of("show '" + mesh + "' --on 'node:8 gpu:4' --json")["rows"];
    };
    EXPECT_EQ(rows("tp=4:1 pp=2:16 dp=4:4"), rows("pp=2:16 dp=4:4 tp=4:1"));
    EXPECT_NE(rows("tp=4 pp=2 dp=4"), rows("pp=2 dp=4 tp=4"));
}

}  // namespace
}  // namespace rankmesh::tests
