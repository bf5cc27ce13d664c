// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/mesh_spec.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <sstream>

namespace rankmesh::tests {
namespace {

static_assert(MeshSpec{{"dp", rest}, {"tp", 2}}.resolve(8) == Mesh{{"dp", 4}, {"tp", 2}});
static_assert(MeshSpec{{"dp", 4}}.resolve() == Mesh{{"dp", 4}});
static_assert(MeshSpec::parse("dp=* tp=2").has_rest() && !MeshSpec::parse("dp=4 tp=2").has_rest());
static_assert(MeshSpec::parse("dp=* tp=2 @4").resolve(8) == Mesh::parse("dp=2 tp=2 @4"));

RC_GTEST_PROP(MeshSpec, GivesTheRestWhateverTheWorldLeavesOver, ()) {
    const auto sizes = *rc::gen::container<std::vector<int>>(4, rc::gen::inRange(1, 9));
    const auto which = *rc::gen::inRange<std::size_t>(0, 4);
    const auto names = std::vector<std::string>{"pp", "cp", "dp", "tp"};
    auto open = std::vector<Axis>{};
    auto closed = std::vector<Axis>{};
    auto world = 1;
    for (std::size_t a = 0; a < 4; ++a) {
        closed.push_back({names[a], sizes[a]});
        open.push_back({names[a], a == which ? Extent(rest) : Extent(sizes[a])});
        world *= sizes[a];
    }
    const auto spec = MeshSpec(open);
    RC_ASSERT(spec.has_rest());
    RC_ASSERT(spec.resolve(world) == Mesh(closed));
    RC_ASSERT(MeshSpec::parse(to_string(spec)) == spec);
    const auto known = world / sizes[which];
    for (int other = world - known + 1; other < world; ++other)
        RC_ASSERT_THROWS_AS(spec.resolve(other), UsageError);
    RC_ASSERT_THROWS_AS(spec.resolve(0), UsageError);
    RC_ASSERT_THROWS_AS(spec.resolve(-world), UsageError);
    RC_ASSERT_THROWS_AS(spec.resolve(), UsageError);

    const auto offset = *rc::gen::inRange(0, 100);
    const auto later = spec.shifted(offset);
    RC_ASSERT(later.resolve(world + offset) == Mesh(closed).shifted(offset));
    RC_ASSERT(later.resolve(world + offset).extent() == world + offset);
    RC_ASSERT(MeshSpec::parse(to_string(later)) == later);
    RC_ASSERT((later == spec) == (offset == 0));
    for (int other = 0; other <= offset; ++other) RC_ASSERT_THROWS_AS(later.resolve(other), UsageError);
    for (int other = world - known + 1; other < world; ++other)
        RC_ASSERT_THROWS_AS(later.resolve(other + offset), UsageError);
}

TEST(MeshSpec, MadeOfAMeshIsThatMeshInEveryWorld) {
    for (auto text : {"dp=4", "pp=2:32 dp=4:8 @64", "a=(2,2):(8,1) b=2:2"}) {
        const auto mesh = Mesh::parse(text);
        const auto spec = MeshSpec(mesh);
        EXPECT_FALSE(spec.has_rest());
        EXPECT_EQ(spec.resolve(), mesh);
        for (auto world : {1, 7, 1 << 20}) EXPECT_EQ(spec.resolve(world), mesh);
        EXPECT_EQ(MeshSpec::parse(text), spec);
        EXPECT_EQ(to_string(spec), to_string(mesh));
    }
}

TEST(MeshSpec, NothingFollowsTheOffsetHoweverManyAxesThereAre) {
    auto text = std::string{};
    for (int axes = 1; axes <= max_axes; ++axes) {
        text += detail::cat(" a", axes, "=1");
        EXPECT_EQ(MeshSpec::parse(text + " @2").resolve().offset(), 2) << text;
        EXPECT_THROW(MeshSpec::parse(text + " @2 b=1"), UsageError) << text;
    }
}

TEST(MeshSpec, PrintsTheRestAsAStar) {
    auto out = std::ostringstream{};
    out << MeshSpec{{"pp", 2}, {"dp", rest}, {"tp", 1}};
    out << "; " << MeshSpec{{"dp", rest}}.shifted(4) << "; " << MeshSpec::parse("dp=*, @0");
    EXPECT_EQ(out.str(), "pp=2 dp=* tp=1; dp=* @4; dp=*");
}

}  // namespace
}  // namespace rankmesh::tests
