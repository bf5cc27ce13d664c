// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/terms.hpp>

#include <gtest/gtest.h>

#include "cases.hpp"

namespace rankmesh::view {
namespace {

std::string joined(const auto& ranks, std::ptrdiff_t run) {
    auto text = std::string("{");
    for_each_term(ranks, run, [&](const Term& term) {
        text += (text.size() > 1 ? ", " : "") + to_string(term);
        return true;
    });
    return text + "}";
}

TEST(Terms, JoinedAreTheNotationOfTheGroup) {
    auto meshes = tests::meshes();
    // Blocks whose ends happen to continue each other.
    for (const auto* text :
         {"a=(2,2,3):(7,4,1)", "a=2:7 b=2:4 c=3:1", "a=3:11 b=5:2", "a=4:5 b=4:1", "a=2:3 b=2:2"})
        meshes.push_back(Mesh::parse(text));
    for (const auto& mesh : meshes) {
        if (mesh.axis_count() > 6) continue;
        for (unsigned bits = 0; bits < 1U << mesh.axis_count(); ++bits) {
            auto axes = AxisSet{};
            for (int a = 0; a < mesh.axis_count(); ++a)
                if ((bits >> a & 1U) != 0) axes.insert(AxisId{a});
            const auto group = mesh.group(mesh.ranks().back(), axes);
            EXPECT_EQ(joined(group, run_along(mesh, axes)), ranks_to_string(group))
                << mesh << " axes " << bits;
            EXPECT_EQ(joined(group, 0), ranks_to_string(group)) << mesh << " axes " << bits;
        }
    }
}

/// 0, 1, 2, ... that counts how often it is asked.
struct Counted {
    int size() const { return 1 << 30; }
    int operator[](int i) const { return ++asked, i; }
    detail::IndexIterator<Counted, int> begin() const { return {this, 0}; }
    detail::IndexIterator<Counted, int> end() const { return {this, size()}; }
    mutable int asked = 0;
};

TEST(Terms, ALongRunIsWrittenWithoutLookingAtItsRanks) {
    const auto ranks = Counted{};
    EXPECT_EQ(joined(ranks, 1 << 30), "{0..1073741823}");
    EXPECT_LT(ranks.asked, 10);
    EXPECT_EQ(run_along(Mesh::parse("a=1024 b=1024 c=1024"), Mesh::parse("a=1 b=1 c=1").axes("a", "b", "c")),
              1 << 30);
}

TEST(Terms, TheVisitorEndsTheWalk) {
    auto visited = 0;
    for_each_term(Mesh::parse("a=1000:3 b=1").ranks() /* one step */, 0,
                  [&](const Term&) { return ++visited < 1; });
    for_each_term(Mesh::parse("a=100:4 b=2:1").ranks(), 0, [&](const Term&) { return ++visited < 5; });
    EXPECT_EQ(visited, 5);
}

}  // namespace
}  // namespace rankmesh::view
