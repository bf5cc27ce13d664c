// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/diff.hpp>
#include <rankmesh/view/svg.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
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

/// WCAG's contrast of two colours, such as `#0072b2`.
double contrast(const std::string& one, const std::string& other) {
    const auto luminance = [](std::string color) {
        if (color.size() == 4) color = {'#', color[1], color[1], color[2], color[2], color[3], color[3]};
        auto sum = 0.0;
        for (auto [at, weight] : {std::pair(1U, 0.2126), {3U, 0.7152}, {5U, 0.0722}}) {
            const auto c = std::stoi(color.substr(at, 2), nullptr, 16) / 255.0;
            sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
        }
        return sum;
    };
    const auto [low, high] = std::minmax({luminance(one), luminance(other)});  // by value
    return (high + 0.05) / (low + 0.05);
}

/// The colours that the document gives to classes, on a light page or on a dark one.
std::map<std::string, std::string> colors_of_classes(const std::string& svg, bool dark) {
    const auto style = svg.substr(0, svg.find("</style>"));
    const auto media = style.find("@media");
    const auto part = dark ? style.substr(media) : style.substr(0, media);
    auto all = std::map<std::string, std::string>{};
    const auto rule = std::regex("(text|\\.[a-z0-9-]+)\\{[^}]*fill:(#[0-9a-f]+)");
    for (auto it = std::sregex_iterator(part.begin(), part.end(), rule); it != std::sregex_iterator(); ++it)
        all[(*it)[1]] = (*it)[2];
    return all;
}

TEST(Svg, TextHasAContrastOfAtLeastFourAndAHalf) {
    const auto svg = paint_svg(draw(Mesh::parse("a=2 b=2 c=2 d=2 e=2 f=2"), {}, Limits{}));
    for (auto dark : {false, true}) {
        const auto colors = colors_of_classes(svg, dark);
        const auto* page = dark ? "#0d1117" : "#ffffff";
        for (const auto* name : {"text", ".dim", ".axis0", ".axis1", ".axis2", ".axis3", ".axis4", ".axis5"})
            EXPECT_GE(contrast(colors.at(name), page), 4.5) << name << " on " << page;
        EXPECT_GE(contrast(colors.at("text"), colors.at(".cell")), 4.5) << page;
        EXPECT_GE(contrast(colors.at(".in-focus"), colors.at(".focus")), 4.5) << page;
        // Ranks on the colours of axes, and of few and of many indices.
        const auto on = std::regex("style=\"fill:(#[0-9a-f]+)\"/>\n<text [^>]*class=\"[^\"]*(on|on-light)\"");
        for (const auto& scene : {draw(Mesh::parse("a=2 b=2 c=2 d=2 e=2 f=2"), {}, Limits{}),
                                  draw(Mesh::parse("dp=8"), {.color_by = AxisId{0}}, Limits{}),
                                  draw(Mesh::parse("dp=512"), {.color_by = AxisId{0}}, Limits{})}) {
            const auto text = paint_svg(scene);
            auto count = 0;
            for (auto it = std::sregex_iterator(text.begin(), text.end(), on); it != std::sregex_iterator();
                 ++it, ++count)
                EXPECT_GE(contrast((*it)[1], colors.at("." + (*it)[2].str())), 4.5) << (*it)[1];
            EXPECT_GE(count, 6);
        }
    }
}

TEST(Svg, TheFocusHasTheColoursOfAllItsGroups) {
    for (const auto& mesh : tests::meshes()) {
        const auto svg = paint_svg(draw(mesh, {}, Limits{}));
        const auto rank = std::to_string(mesh.ranks().front());
        const auto begin = svg.find("class=\"rank in-focus\">" + rank + "<");
        ASSERT_NE(begin, std::string::npos) << mesh;
        EXPECT_EQ(svg.find("in-focus\">", begin + 20), std::string::npos) << mesh;
        // Below its number the colours of the axes, each as those of the cells of its group.
        const auto end = svg.find("class=\"cell", begin);
        const auto band = svg.substr(begin, end == std::string::npos ? end : svg.rfind("<rect", end) - begin);
        const auto in_band = found(band, "height=\"5\" style=\"fill:(#[0-9a-f]+)\"");
        auto wide = 0;
        for (int a = 0; a < mesh.axis_count(); ++a) wide += mesh.size(AxisId{a}) > 1 ? 1 : 0;
        EXPECT_EQ(in_band.size(), static_cast<std::size_t>(wide)) << mesh;
        for (const auto& [other, fill] : fills(svg))
            EXPECT_TRUE(fill.empty() || in_band.contains(fill)) << mesh << ' ' << other;
    }
}

TEST(Svg, ShowsTheRankThatIsAskedForAndSaysEveryFold) {
    auto random = std::mt19937(5);
    for (const auto* text :
         {"pp=2 dp=2 tp=2", "dp=1250 tp=8", "pp=16 dp=8192 tp=8", "dp=1048576", "a=2 b=524288"})
        for (int turn = 0; turn < 4; ++turn) {
            const auto mesh = Mesh::parse(text);
            const auto cluster =
                turn % 2 == 0 ? std::nullopt : std::optional(Cluster({{"node", 131072}, {"gpu", 8}}));
            const auto rank = std::uniform_int_distribution(0, mesh.size() - 1)(random);
            for (const auto& color_by : {std::optional<AxisId>(), std::optional(AxisId{0})}) {
                const auto scene =
                    draw_for_svg(mesh, {.cluster = cluster, .focus = rank, .color_by = color_by});
                const auto svg = paint_svg(scene);
                EXPECT_LT(svg.size(), 600U * 1024) << text;
                EXPECT_EQ(found(svg, "class=\"rank[^\"]*\">(" + std::to_string(rank) + ")<").size(), 1U)
                    << text << ' ' << rank;
                EXPECT_NE(svg.find("groups of rank " + std::to_string(rank) + "<"), std::string::npos)
                    << text;
                EXPECT_NE(svg.find(color_by ? "class=\"ring wide\"" : "class=\"cell focus\""),
                          std::string::npos);
                auto folds = scene.folded_columns;
                for (const auto& row : scene.rows)
                    folds.insert(folds.end(), row.folded_before.begin(), row.folded_before.end());
                for (const auto& fold : folds)
                    EXPECT_NE(svg.find(std::to_string(fold.count()) + " more of "), std::string::npos)
                        << text;
            }
        }
}

TEST(Svg, OfAThousandRanksShowsAllOfThemInTheShapeOfAScreen) {
    for (const auto* text : {"pp=4 dp=32 tp=8", "dp=1024", "pp=8 dp=8 cp=2 tp=8", "tp=8 dp=128",
                             "pp=7 dp=9 tp=8 @7", "pp=16 dp=32 tp=4"})
        for (const auto* machines : {"", "node:512 gpu:8", "rack:16 node:64 gpu:4"}) {
            const auto mesh = Mesh::parse(text);
            const auto cluster = *machines == 0 ? std::nullopt : std::optional(Cluster::parse(machines));
            const auto svg = paint_svg(draw_for_svg(mesh, {.cluster = cluster}));
            const auto size_of = [&](const std::string& name) {
                return std::stod(*found(svg.substr(0, svg.find('>')), ' ' + name + "=\"([0-9]+)\"").begin());
            };
            EXPECT_GE(size_of("width") / size_of("height"), 0.6) << text << " on " << machines;
            EXPECT_LE(size_of("width") / size_of("height"), 2.8) << text << " on " << machines;
            if (mesh.size() <= 1024) {
                auto shown = 0;
                const auto cell = std::string("class=\"rank");
                for (auto at = svg.find(cell); at != std::string::npos; at = svg.find(cell, at + 1)) ++shown;
                EXPECT_EQ(shown, mesh.size()) << text << " on " << machines;
            }
        }
}

TEST(Svg, OfALargeTableHasNotTheTableInItsTitle) {
    auto ranks = std::vector<int>(10000);
    std::iota(ranks.rbegin(), ranks.rend(), 0);
    EXPECT_LT(paint_svg(draw_for_svg(Placement(Mesh::parse("dp=1250 tp=8"), ranks), {})).size(), 100U * 1024);
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
    expect_picture("mesh.svg", paint_svg(draw_for_svg(mesh, {.cluster = cluster})));
    const auto [a, b] = draw({mesh, cluster}, {Mesh::parse("tp=4 dp=2 pp=2"), cluster}, Limits{});
    expect_picture("diff.svg", paint_svg(a, b));
    // A tp group is the ranks of one index on dp.
    const auto by_tp_group = [](const char* text) {
        const auto known = Mesh::parse(text);
        return draw_for_svg(known, {.cluster = Cluster::parse("node:4 gpu:4"), .color_by = known.axis("dp")});
    };
    expect_picture("placed.svg", paint_svg(by_tp_group("tp=4 dp=4"), by_tp_group("tp=4:1 dp=4:4")));
    // The meshes of docs/gallery.md.
    struct Shown {
        std::string name, mesh;
        std::optional<Cluster> cluster = {};
        int focus = 0;
    };
    const auto job = Cluster::parse("node[a01-a03]:8 node[b07]:4 gpu");
    for (const auto& [name, text, on, focus] :
         {Shown{"fsdp-tp", "dp=2 tp=2"}, Shown{"moe", "ep=4"}, Shown{"pipeline", "pp=4"},
          Shown{"ring", "cp=4"}, Shown{"elastic", "dp=4", {}, 2}, Shown{"halo", "x=2 y=2 z=2"},
          Shown{"slurm", "dp=7 tp=4", job}, Shown{"hang", "dp=2 tp=2", {}, 2}})
        expect_picture("gallery-" + name + ".svg",
                       paint_svg(draw_for_svg(Mesh::parse(text), {.cluster = on, .focus = focus})));
}

}  // namespace
}  // namespace rankmesh::view
