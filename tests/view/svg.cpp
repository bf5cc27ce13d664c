// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/diff.hpp>
#include <rankmesh/view/svg.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "cases.hpp"
#include "support/content.hpp"

namespace rankmesh::view {
namespace {

/// The texts of all elements that `pattern` finds, its first group.
std::multiset<std::string> found(const std::string& text, const std::string& pattern) {
    auto all = std::multiset<std::string>{};
    const auto expression = std::regex(pattern);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), expression); it != std::sregex_iterator();
         ++it)
        all.insert((*it)[1]);
    return all;
}

TEST(Svg, ShowsEveryRankOfTheSceneOnceAndNoOther) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto scene = draw(mesh, {.cluster = cluster}, Limits{});
            auto expected = std::multiset<std::string>{};
            for (const auto& row : scene.rows)
                for (std::size_t c = 0; c < row.cells.size(); ++c)
                    if (row.cells[c].rank >= 0 && !scene.columns[c].folded)
                        expected.insert(std::to_string(row.cells[c].rank));
            EXPECT_EQ(found(paint_svg(scene), "class=\"rank[^\"]*\">([0-9]+)<"), expected) << mesh;
        }
}

TEST(Svg, NamesEveryBoxShownOnceAndEveryAxis) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto scene = draw(mesh, {.cluster = cluster}, Limits{});
            const auto svg = paint_svg(scene);
            for (const auto& [box, label] : scene.labels)
                EXPECT_TRUE(svg.find(">" + label + "<") != std::string::npos ||
                            svg.find(">" + label.substr(label.rfind(' ') + 1) + "<") != std::string::npos)
                    << mesh << ' ' << label;
            for (const auto& entry : scene.axes)
                EXPECT_NE(svg.find(">" + entry.name + "<"), std::string::npos) << mesh << ' ' << entry.name;
        }
}

TEST(Svg, NoNameOfABoxRunsIntoAnother) {
    constexpr auto glyph = 8;  // the width of a character
    const auto named = std::regex("<text x=\"([0-9]+)\" y=\"([0-9]+)\" class=\"dim\">([^<]*)<");
    auto shortened = 0;
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto scene = draw(mesh, {.cluster = cluster}, Limits{});
            const auto svg = paint_svg(scene);
            auto free = std::map<int, int>{};  // by height, where the text before ends
            for (auto it = std::sregex_iterator(svg.begin(), svg.end(), named); it != std::sregex_iterator();
                 ++it) {
                const auto x = std::stoi((*it)[1]);
                const auto y = std::stoi((*it)[2]);
                EXPECT_GE(x, free[y]) << mesh << ' ' << (*it)[3];
                free[y] = x + glyph * static_cast<int>((*it)[3].length());
                shortened += (*it)[3] == "0";
            }
        }
    EXPECT_GT(shortened, 0) << "no box is too narrow for its name";
}

/// The documents' colours of the cells, by rank.
std::map<int, std::string> fills(const std::string& svg) {
    auto all = std::map<int, std::string>{};
    const auto cell = std::regex(
        "<rect [^>]*class=\"cell[^\"]*\"(?: style=\"fill:([^\"]*)\")?/>\\n(?:<path[^>]*/>\\n)?<text "
        "[^>]*class=\"rank[^>]*>([0-9]+)<");
    for (auto it = std::sregex_iterator(svg.begin(), svg.end(), cell); it != std::sregex_iterator(); ++it)
        all[std::stoi((*it)[2])] = (*it)[1];
    return all;
}

TEST(Svg, ColoursRanksAlikeExactlyIfTheirIndexOnTheAxisIsTheSame) {
    for (const auto& mesh : tests::meshes())
        for (int a = 0; a < mesh.axis_count(); ++a) {
            const auto axis = AxisId{a};
            const auto svg = paint_svg(draw(mesh, {.color_by = axis}, Limits{}));
            auto colors = std::map<int, std::string>{};
            for (const auto& [rank, fill] : fills(svg)) {
                EXPECT_FALSE(fill.empty()) << mesh << ' ' << rank;
                const auto [known, is_new] = colors.emplace(mesh.index(rank, axis), fill);
                EXPECT_EQ(known->second, fill) << mesh << ' ' << rank;
            }
            auto different = std::set<std::string>{};
            for (const auto& [index, fill] : colors) different.insert(fill);
            if (mesh.size(axis) <= 256) {
                EXPECT_EQ(different.size(), colors.size()) << mesh << " along " << a;
            }
            // The legend writes the first and the last index on their colours.
            for (auto index : {0, mesh.size(axis) - 1}) {
                if (!colors.contains(index)) continue;
                const auto swatch = "style=\"fill:" + colors[index] + "\"/>\n<text [^>]*class=\"on[^>]*>";
                EXPECT_TRUE(std::regex_search(svg, std::regex(swatch + std::to_string(index) + "<")))
                    << mesh << ' ' << index;
            }
        }
    EXPECT_THROW(draw(Mesh::parse("dp=2"), {.color_by = AxisId{1}}, Limits{}), UsageError);
}

TEST(Svg, TheIndexOfEachSwatchStandsInItsMiddleAndNoneOverlapsAnother) {
    const auto swatch = std::regex(
        "<rect x=\"([0-9]+)\" y=\"[0-9]+\" width=\"([0-9]+)\" height=\"19\"[^>]*/>\n<text x=\"([0-9]+)\"");
    for (const auto& mesh : tests::meshes())
        for (int a = 0; a < mesh.axis_count(); ++a) {
            const auto svg = paint_svg(draw(mesh, {.color_by = AxisId{a}}, Limits{}));
            auto free = 0;
            auto swatches = 0;
            for (auto it = std::sregex_iterator(svg.begin(), svg.end(), swatch); it != std::sregex_iterator();
                 ++it, ++swatches) {
                const auto x = std::stoi((*it)[1]);
                const auto width = std::stoi((*it)[2]);
                EXPECT_GT(x, free) << mesh << " along " << a;
                EXPECT_EQ(std::stoi((*it)[3]), x + width / 2) << mesh << " along " << a;
                free = x + width;
            }
            EXPECT_GT(swatches, 0) << mesh << " along " << a;
        }
}

TEST(Svg, PutsTwoScenesSideBySide) {
    const auto left = draw(Mesh::parse("dp=4"), {}, Limits{});
    const auto right = draw(Mesh::parse("tp=3"), {}, Limits{});
    const auto svg = paint_svg(left, right);
    EXPECT_EQ(found(svg, "class=\"rank[^\"]*\">([0-9]+)<"),
              (std::multiset<std::string>{"0", "0", "1", "1", "2", "2", "3"}));
    const auto size_of = [](const std::string& text, const std::string& name) {
        return std::stoi(*found(text, "<svg [^>]*" + name + "=\"([0-9]+)\"").begin());
    };
    EXPECT_EQ(size_of(svg, " width"),
              size_of(paint_svg(left), " width") + size_of(paint_svg(right), " width"));
    EXPECT_EQ(found(svg, "translate\\(([0-9]+) 0\\)"),
              std::multiset<std::string>{std::to_string(size_of(paint_svg(left), " width"))});
}

TEST(Svg, MarksTheCellsThatTheSceneMarksAndSaysWhatThatMeans) {
    auto scene = draw(Mesh::parse("dp=4 tp=4"), {}, Limits{});
    scene.mark = "3 ranks are <odd>";
    auto marked = std::set<int>{};
    for (auto& row : scene.rows)
        for (auto& cell : row.cells)
            if ((cell.marked = cell.rank % 5 == 1)) marked.insert(cell.rank);
    const auto svg = paint_svg(scene);
    for (const auto& [rank, fill] : fills(svg)) EXPECT_EQ(!fill.empty(), marked.contains(rank)) << rank;
    EXPECT_EQ(found(svg, "(<path class=\"mark\")").size(), marked.size() + 1);  // the legend's
    EXPECT_NE(svg.find(">3 ranks are &lt;odd><"), std::string::npos);
}

TEST(Svg, IsOneDocumentThatLoadsNothing) {
    // Many large texts: each is searched without regular expressions.
    const auto count = [](const std::string& text, const std::string& part) {
        auto found = 0;
        for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
        return found;
    };
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto svg = paint_svg(draw(mesh, {.cluster = cluster}, Limits{}));
            EXPECT_TRUE(svg.starts_with("<svg ")) << mesh;
            EXPECT_TRUE(svg.ends_with("</svg>\n")) << mesh;
            for (const auto* what : {"href", "url(", "<script", "@import"})
                EXPECT_EQ(svg.find(what), std::string::npos) << mesh << ' ' << what;
            for (const std::string element : {"text", "style", "title"})
                EXPECT_EQ(count(svg, "<" + element + " ") + count(svg, "<" + element + ">"),
                          count(svg, "</" + element + ">"))
                    << mesh << ' ' << element;
            // Nothing lies outside the picture.
            const auto width = std::stoi(*found(svg.substr(0, svg.find('>')), " width=\"([0-9]+)\"").begin());
            auto places = 0;
            for (const std::string name : {" x=\"", " x1=\"", " x2=\""})
                for (auto at = svg.find(name); at != std::string::npos; at = svg.find(name, at + 1)) {
                    const auto x = std::stoi(svg.substr(at + name.size(), 10));
                    EXPECT_GE(x, 0) << mesh;
                    EXPECT_LE(x, width) << mesh;
                    ++places;
                }
            EXPECT_GT(places, 0) << mesh;
        }
}

/// Holds a picture of the documents to what is drawn; it is written where RANKMESH_UPDATE is set.
void expect_picture(const std::string& name, const std::string& svg) {
    const auto file = RANKMESH_SOURCE "/docs/pictures/" + name;
    if (std::getenv("RANKMESH_UPDATE")) std::ofstream(file, std::ios::binary) << svg;
    EXPECT_EQ(support::content_of(file), svg)
        << "run this test with RANKMESH_UPDATE=1 and look at the picture";
}

TEST(Svg, ThePicturesOfTheDocumentsAreWhatIsDrawn) {
    const auto cluster = Cluster::parse("node:2 gpu:8");
    const auto mesh = Mesh::parse("pp=2 dp=2 tp=4");
    expect_picture("mesh.svg", paint_svg(draw(mesh, {.cluster = cluster}, Limits{})));
    const auto [a, b] = draw({mesh, cluster}, {Mesh::parse("tp=4 dp=2 pp=2"), cluster}, Limits{});
    expect_picture("diff.svg", paint_svg(a, b));
    const auto nodes = Cluster::parse("node:4 gpu:4");
    const auto [wrong, placed] =
        draw({Mesh::parse("tp=4 dp=4"), nodes}, {Mesh::parse("tp=4:1 dp=4:4"), nodes}, Limits{});
    expect_picture("placed.svg", paint_svg(wrong, placed));
}

}  // namespace
}  // namespace rankmesh::view
