// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/text.hpp>

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "cases.hpp"

namespace rankmesh::view {
namespace {

std::string painted(const Mesh& mesh, const Subject& subject, const TextStyle& style) {
    return paint_text(draw_for_text(mesh, subject, style), style);
}

/// The characters of UTF-8 text, line by line.
std::vector<std::u32string> lines_of(const std::string& text) {
    auto lines = std::vector<std::u32string>(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte == '\n') {
            lines.emplace_back();
            continue;
        }
        const auto length = byte < 0x80 ? 1U : byte < 0xE0 ? 2U : 3U;
        auto c = static_cast<char32_t>(length == 1 ? byte : byte & (0xFFU >> (length + 1)));
        for (auto k = 1U; k < length; ++k) c = c << 6 | (static_cast<unsigned char>(text[++i]) & 0x3FU);
        lines.back() += c;
    }
    return lines;
}

/// The arms of a box drawing character: up 8, down 4, left 2, right 1.
unsigned arms_of(char32_t c) {
    static const auto arms =
        std::map<char32_t, unsigned>{{U'─', 3},  {U'│', 12}, {U'┌', 5}, {U'┐', 6},  {U'└', 9}, {U'┘', 10},
                                     {U'├', 13}, {U'┤', 14}, {U'┬', 7}, {U'┴', 11}, {U'┼', 15}};
    const auto found = arms.find(c);
    return found == arms.end() ? 0 : found->second;
}

TEST(Text, NeverIsWiderThanTheTerminal) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh))
            for (auto width : {40, 41, 57, 80, 120, 200})
                for (const auto& line : lines_of(painted(mesh, {.cluster = cluster}, {.width = width})))
                    ASSERT_LE(line.size(), static_cast<std::size_t>(width)) << mesh;
}

TEST(Text, HasBoxesWhoseLinesMeet) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh))
            for (auto width : {40, 80, 200}) {
                const auto text = painted(mesh, {.cluster = cluster}, {.width = width});
                const auto lines = lines_of(text);
                const auto arms = [&](std::size_t y, std::size_t x) {
                    return y < lines.size() && x < lines[y].size() ? arms_of(lines[y][x]) : 0U;
                };
                for (std::size_t y = 0; y < lines.size(); ++y)
                    for (std::size_t x = 0; x < lines[y].size(); ++x) {
                        const auto below = arms(y + 1, x);
                        ASSERT_EQ((arms(y, x) & 4U) != 0, (below & 8U) != 0) << y << ':' << x << '\n' << text;
                        // To the right stands the next piece of the line, or a label.
                        const auto label = x + 1 < lines[y].size() && arms(y, x + 1) == 0 &&
                                           lines[y].find_first_of(U"─┐┤┘┬┼┴", x + 1) != std::u32string::npos;
                        const auto met = (arms(y, x) & 1U) == 0 || (arms(y, x + 1) & 2U) != 0 || label;
                        ASSERT_TRUE(met) << y << ':' << x << '\n' << text;
                    }
                ASSERT_NE(text.find("┌"), std::string::npos);
                ASSERT_NE(text.find("┘"), std::string::npos);
            }
}

TEST(Text, SaysEveryRankThatTheSceneShowsAndEveryFold) {
    for (const auto& mesh : tests::meshes())
        for (auto width : {40, 80, 200}) {
            const auto style = TextStyle{.width = width};
            const auto scene = draw_for_text(mesh, {}, style);
            const auto text = paint_text(scene, style);
            static const auto number = std::regex("[0-9]+");
            auto words = std::set<std::string>{};
            for (auto it = std::sregex_iterator(text.begin(), text.end(), number);
                 it != std::sregex_iterator{}; ++it)
                words.insert(it->str());
            auto folds = scene.folded_columns;
            for (const auto& row : scene.rows) {
                folds.insert(folds.end(), row.folded_before.begin(), row.folded_before.end());
                for (const auto& cell : row.cells)
                    ASSERT_TRUE(cell.rank < 0 || words.contains(std::to_string(cell.rank))) << text;
            }
            for (const auto& fold : folds) {
                ASSERT_TRUE(words.contains(std::to_string(fold.count()))) << text;
                ASSERT_TRUE(words.contains(std::to_string(fold.last))) << text;
            }
            const auto whole = folds.empty() && scene.folded_after.empty();
            ASSERT_EQ(text.find("folded") == std::string::npos, whole);
        }
}

TEST(Text, MarksTheRankThatIsAskedForAndNoOther) {
    static const auto marked = std::regex("\\[([0-9]+)\\]");
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : {std::optional<Cluster>(), tests::clusters(mesh)[3]})
            for (auto i : {mesh.size() / 3, mesh.size() - 1}) {
                const auto rank = mesh.ranks()[i];
                const auto style = TextStyle{.width = 60};
                auto scene = draw_for_text(mesh, {.cluster = cluster, .focus = rank}, style);
                auto text = paint_text(scene, style);
                const auto all = std::vector(std::sregex_iterator(text.begin(), text.end(), marked), {});
                ASSERT_EQ(all.size(), 1U) << text;
                ASSERT_EQ(all[0][1], std::to_string(rank)) << text;
                // The mark stands where blanks are without it.
                text[static_cast<std::size_t>(all[0].position())] = ' ';
                text[static_cast<std::size_t>(all[0].position() + all[0].length()) - 1] = ' ';
                scene.selects = false;
                ASSERT_EQ(text, paint_text(scene, style));
            }
}

TEST(Text, WithoutColourIsTheColouredTextWithoutItsEscapes) {
    const auto escape = std::regex("\033\\[[0-9;]*m");
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto subject = Subject{.cluster = cluster};
            const auto plain = painted(mesh, subject, {.width = 100, .color = false});
            const auto colored = painted(mesh, subject, {.width = 100, .color = true});
            ASSERT_EQ(plain.find('\033'), std::string::npos);
            ASSERT_NE(colored.find('\033'), std::string::npos);
            ASSERT_EQ(std::regex_replace(colored, escape, ""), plain);
        }
}

TEST(Text, OfTheLargestWorldIsShort) {
    for (const auto* text : {"dp=2147483647", "pp=1024 dp=1024 tp=1024", "a=1073741823 b=2"})
        for (auto width : {40, 80, 200}) {
            const auto picture = painted(Mesh::parse(text), {}, {.width = width});
            EXPECT_LT(picture.size(), 20000U);
            EXPECT_LT(lines_of(picture).size(), 60U) << picture;
        }
}

TEST(Text, DrawsABoxAroundEachNode) {
    EXPECT_EQ(painted(Mesh{{"pp", 2}, {"dp", 2}, {"tp", 2}}, {.cluster = Cluster::parse("node:2 gpu:4")}, {}),
              "pp=2 dp=2 tp=2 · 8 ranks on node:2 gpu:4\n"
              "\n"
              "        tp=   0  1\n"
              "           ┌ node 0 ┐\n"
              " pp=0 dp=0 │  0  1  │\n"
              "      dp=1 │  2  3  │\n"
              "           ├ node 1 ┤\n"
              " pp=1 dp=0 │  4  5  │\n"
              "      dp=1 │  6  7  │\n"
              "           └────────┘\n"
              "\n"
              " axis  size  stride  group of rank 0\n"
              " pp       2       4  {0, 4}\n"
              " dp       2       2  {0, 2}\n"
              " tp       2       1  {0, 1}\n"
              " each box is one node (gpu:4)\n");
}

TEST(Text, FoldsInTheMiddleAndSaysWhatIsGone) {
    const auto text = painted(Mesh{{"dp", 32}, {"tp", 64}}, {}, {.width = 40});
    EXPECT_NE(text.find(" … 60 more of tp (tp=3..62) folded\n"), std::string::npos) << text;
    const auto tall = painted(Mesh{{"pp", 2}, {"dp", 1000}, {"tp", 4}}, {}, {});
    EXPECT_NE(tall.find("⋮ 992 more of dp (dp=6..997) folded\n"), std::string::npos) << tall;
    EXPECT_NE(tall.find(" dp=998 "), std::string::npos) << tall;
}

}  // namespace
}  // namespace rankmesh::view
