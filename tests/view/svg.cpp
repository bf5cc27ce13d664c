// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/svg.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "cases.hpp"

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
                EXPECT_NE(svg.find(">" + label + "<"), std::string::npos) << mesh << ' ' << label;
            for (const auto& entry : scene.axes)
                EXPECT_NE(svg.find(">" + entry.name + "<"), std::string::npos) << mesh << ' ' << entry.name;
        }
}

TEST(Svg, IsOneDocumentThatLoadsNothing) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto svg = paint_svg(draw(mesh, {.cluster = cluster}, Limits{}));
            EXPECT_TRUE(svg.starts_with("<svg ")) << mesh;
            EXPECT_TRUE(svg.ends_with("</svg>\n")) << mesh;
            EXPECT_TRUE(found(svg, "(href|url\\(|<script|@import)").empty()) << mesh;
            for (const auto* element : {"text", "style", "title"}) {
                const auto name = std::string(element);
                EXPECT_EQ(found(svg, "(<" + name + "[ >])").size(), found(svg, "(</" + name + ">)").size())
                    << mesh;
            }
            // Nothing lies outside the picture.
            const auto width = std::stoi(*found(svg, "<svg [^>]*width=\"([0-9]+)\"").begin());
            for (const auto& x : found(svg, " x[12]?=\"(-?[0-9]+)\"")) {
                EXPECT_GE(std::stoi(x), 0) << mesh;
                EXPECT_LE(std::stoi(x), width) << mesh;
            }
        }
}

/// Written by this test where RANKMESH_UPDATE is set.
TEST(Svg, TheReadmesPictureIsWhatShowDraws) {
    const auto file = std::string(RANKMESH_SOURCE "/docs/pictures/mesh.svg");
    const auto mesh = Mesh::parse("pp=2 dp=2 tp=4");
    const auto svg = paint_svg(draw(mesh, {.cluster = Cluster::parse("node:2 gpu:8")}, Limits{}));
    if (std::getenv("RANKMESH_UPDATE")) std::ofstream(file, std::ios::binary) << svg;
    auto in = std::ifstream(file, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), svg)
        << "run this test with RANKMESH_UPDATE=1 and look at the picture";
}

}  // namespace
}  // namespace rankmesh::view
