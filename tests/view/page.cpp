// SPDX-License-Identifier: Apache-2.0
// The page as text; tests/view/page looks at it in a browser.
#include <rankmesh/view/page.hpp>

#include <gtest/gtest.h>

#include <filesystem>

#include "cases.hpp"
#include "support/content.hpp"

namespace rankmesh::view {
namespace {

using support::content_of;

template <class Call>
std::string refusal_of(const Call& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Page, HoldsEveryFileOfItAsItIs) {
    const auto page = draw_page(Mesh::parse("pp=2 dp=2 tp=2"), {});
    auto count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(RANKMESH_SOURCE "/src/view/page")) {
        ++count;
        auto rest = std::string_view(page);
        const auto text = content_of(entry.path());
        // The page itself has places for the others.
        for (auto begin = std::size_t{0}; begin < text.size();) {
            const auto places = {text.find("@title@", begin), text.find("@style@", begin),
                                 text.find("@data@", begin), text.find("@script@", begin), text.size()};
            const auto end = entry.path().extension() == ".html" ? std::min(places) : text.size();
            const auto at = rest.find(text.substr(begin, end - begin));
            ASSERT_NE(at, std::string_view::npos) << entry.path();
            rest.remove_prefix(at + end - begin);
            begin = end < text.size() ? text.find('@', end + 1) + 1 : end;
        }
    }
    EXPECT_EQ(count, 7);
}

TEST(Page, IsOneDocumentThatLoadsNothing) {
    for (const auto& mesh : tests::meshes())
        for (const auto& cluster : tests::clusters(mesh)) {
            const auto page = draw_page(mesh, {.cluster = cluster});
            EXPECT_TRUE(page.starts_with("<!doctype html>")) << mesh;
            EXPECT_TRUE(page.ends_with("</html>\n")) << mesh;
            for (const auto* word : {"http:", "https:", "src=", "href=", "url(", "@import", "import(",
                                     "fetch(", "@title@", "@style@", "@data@", "@script@"})
                EXPECT_EQ(page.find(word), std::string::npos) << mesh << ' ' << word;
            EXPECT_NE(page.find("<title>" + to_string(mesh) + "</title>"), std::string::npos) << mesh;
        }
}

TEST(Page, IsAsSmallForAMillionRanksAsForEight) {
    const auto few = draw_page(Mesh::parse("pp=2 dp=2 tp=2"), {.cluster = Cluster::parse("node:1 gpu:8")});
    const auto many =
        draw_page(Mesh::parse("pp=16 dp=8192 tp=8"), {.cluster = Cluster::parse("node:131072 gpu:8")});
    EXPECT_LT(many.size(), few.size() + 100);
    EXPECT_LT(many.size(), 64U * 1024);
}

TEST(Page, RefusesWhatItCannotShow) {
    const auto mesh = Mesh::parse("dp=8");
    EXPECT_EQ(
        refusal_of([] { draw_page(Mesh::parse("dp=1048577"), {}); }),
        "a page shows at most 1048576 ranks, not 1048577; the text and the SVG document fold what is large");
    EXPECT_EQ(refusal_of([&] { draw_page(mesh, {.cluster = Cluster::parse("node:131073 gpu:8")}); }),
              "a page shows at most 1048576 devices, not 1048584; the text and the SVG document fold what is "
              "large");
    EXPECT_EQ(refusal_of([&] { draw_page(mesh, {.cluster = Cluster::parse("node:1 gpu:4")}); }),
              "mesh dp=8 reaches rank 7, but cluster node:1 gpu:4 has 4 devices; it fits on node:2 gpu:4");
    EXPECT_EQ(refusal_of([&] { draw_page(mesh, {.focus = 8}); }),
              "rank 8 is outside mesh dp=8, which covers ranks 0..7");
    EXPECT_NE(refusal_of([&] { draw_page(mesh, {.color_by = AxisId{1}}); }), "");
    EXPECT_EQ(
        refusal_of([] { draw_page(Placement::parse("a=2 @[3,1]"), {.cluster = Cluster::parse("gpu:3")}); }),
        "mesh a=2 @[3,1] reaches rank 3, but cluster gpu:3 has 3 devices; it fits on gpu:4");
}

}  // namespace
}  // namespace rankmesh::view
