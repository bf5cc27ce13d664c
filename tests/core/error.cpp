// SPDX-License-Identifier: Apache-2.0
// What a wrong call is answered with, word for word: the texts are part of the interface.
#include <rankmesh/core/error.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh::tests {
namespace {

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}
std::string refusal_of(std::string_view mesh) {
    return refusal([&] { (void)Mesh::parse(mesh); });
}

const auto example = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};

TEST(Error, HasAKindThatProgramsCanCatch) {
    EXPECT_THROW(throw UsageError("x"), Error);
    try {
        throw Timeout("late", {0, 1}, {2});
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "late");
        const auto& timeout = dynamic_cast<const Timeout&>(error);
        EXPECT_EQ(timeout.arrived, (std::vector{0, 1}));
        EXPECT_EQ(timeout.missing, std::vector{2});
    }
    EXPECT_EQ(Disagreement("x", {3}).ranks, std::vector{3});
    EXPECT_EQ(PeerLost("x", {3}).ranks, std::vector{3});
}

TEST(Error, HasNoControlCharactersInItsText) {
    const auto given = std::string("a\x1b[31m\nb\xff");
    for (const auto& error :
         {Error(given), Error(UsageError(given)), Error(Timeout(given, {}, {})), Error(PeerLost(given, {})),
          Error(Disagreement(given, {})), Error(EngineFailure(given))})
        EXPECT_STREQ(error.what(), "a\\x1b[31m\nb\\xff");
}

TEST(UsageError, OfSizesSaysWhichAxisAndWhatSizesAre) {
    EXPECT_EQ(refusal_of(""), "a mesh without axes; name at least one, as in 'dp=8'");
    EXPECT_EQ(refusal_of("pp=0"), "axis 'pp' has size 0; sizes are 1 or more");
    EXPECT_EQ(refusal_of("pp=2 dp=-2"), "axis 'dp' has size -2; sizes are 1 or more");
    EXPECT_EQ(refusal_of("a=70000 b=70000"),
              "the axes up to 'b' make 4900000000 ranks; a world has at most 2147483647");
    EXPECT_EQ(refusal_of("a=2147483648"),
              "the number at character 3 of mesh 'a=2147483648' is larger than 2147483647");
    EXPECT_EQ(refusal([] {
                  Mesh{{"a", 1 << 20, 1 << 20}};
              }),
              "axis 'a' of size 1048576 and stride 1048576 reaches rank 1099510579200; ranks are "
              "0..2147483646");
    EXPECT_EQ(refusal_of("a=2:2147483646 b=2:1"),
              "with axis 'b' the mesh reaches 2147483648 ranks; a world has at most 2147483647");
    EXPECT_EQ(refusal_of("a=2 @2147483646"),
              "the mesh would cover ranks 2147483646..2147483647; ranks are 0..2147483646");
    EXPECT_EQ(refusal_of("a=2 @-1"), "the mesh would cover ranks -1..0; ranks are 0..2147483646");
}

TEST(UsageError, OfNamesSaysWhatNamesAre) {
    EXPECT_EQ(refusal_of("pp=2 pp=3"), "the axis 'pp' is listed twice; every name stands once");
    EXPECT_EQ(refusal([] {
                  Mesh{{"", 2}};
              }),
              "an axis has an empty name; names are 1 to 31 letters, digits, '_', '-' or '.'");
    EXPECT_EQ(refusal([] {
                  Mesh{{"p/p", 2}};
              }),
              "the name 'p/p' holds the character '/'; names are letters, digits, '_', '-' or '.'");
    EXPECT_EQ(refusal_of("abcdefghijklmnopqrstuvwxyzabcdef=2"),
              "the name 'abcdefghijklmnopqrstuvwxyzabcdef' has 32 characters; at most 31 fit");
    EXPECT_EQ(refusal_of("a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1"),
              "the axis 'q' is number 17; a mesh has at most 16");
    auto long_names = std::string{};
    for (char c = 'a'; c < 'h'; ++c) long_names += std::string(30, c) + "=1 ";
    EXPECT_EQ(refusal_of(long_names),
              "the names up to 'gggggggggggggggggggggggggggggg' have 210 characters together; a mesh has "
              "room for 192");
}

TEST(UsageError, OfTheRestSaysWhatWasKnown) {
    EXPECT_EQ(refusal_of("pp=* dp=*"), "axes 'pp' and 'dp' both have size '*'; at most one can be inferred");
    EXPECT_EQ(
        refusal_of("pp=2 dp=*"),
        "mesh pp=2 dp=* has size '*' and no world size is known; give a number, or the number of ranks");
    EXPECT_EQ(refusal([] {
                  Mesh{{"dp", rest}};
              }),
              "axis 'dp' has size '*' and no world size is known; give a number, or the number of ranks");
    EXPECT_EQ(refusal([] { (void)Mesh::parse("pp=3 dp=*", 8); }),
              "mesh pp=3 dp=* does not fit a world of 8: the known sizes make 3, which does not divide 8");
    EXPECT_EQ(refusal_of("dp=* tp=2:1"),
              "axis 'tp' has stride 1 beside a size '*'; give all sizes, or no strides");
    EXPECT_EQ(refusal([] {
                  MeshSpec{{"dp", rest, 4}};
              }),
              "axis 'dp' has stride 4 beside a size '*'; give all sizes, or no strides");
    EXPECT_EQ(
        refusal([] { (void)Mesh::parse("dp=* tp=2 @4", 9); }),
        "mesh dp=* tp=2 @4 does not fit a world of 9: the known sizes make 2, which does not divide the "
        "5 ranks from 4 on");
    EXPECT_EQ(refusal([] { (void)Mesh::parse("dp=* tp=2 @4", 4); }),
              "mesh dp=* tp=2 @4 does not fit a world of 4: no rank is left from 4 on");
    EXPECT_EQ(refusal_of("dp=* tp=2 @4"),
              "mesh dp=* tp=2 @4 has size '*' and no world size is known; give a number, or the number of "
              "ranks");
    EXPECT_EQ(refusal([] {
                  (void)MeshSpec{{"dp", rest}}.shifted(-1);
              }),
              refusal([] {
                  (void)Mesh{{"dp", 1}}.shifted(-1);
              }));
    EXPECT_EQ(refusal_of("dp=* m=(2,2):(8,1)"),
              "mesh dp=* m=(2,2):(8,1) gives strides beside a size '*'; give all sizes, or no strides");
}

TEST(UsageError, OfStridesSaysWhatTheyMustKeep) {
    EXPECT_EQ(refusal_of("a=2:0"), "axis 'a' has stride 0; strides are 1 or more");
    EXPECT_EQ(refusal([] { Mesh{{"a", 2, -1}}; }), "axis 'a' has stride -1; strides are 1 or more");
    EXPECT_EQ(refusal_of("a=2:4 b=2"), "axis 'b' has no stride, but others have; give all a stride or none");
    EXPECT_EQ(refusal_of("m=(2,2):(8,1) b=2"),
              "axis 'b' has no stride, but others have; give all a stride or none");
    EXPECT_EQ(refusal_of("a=2:1 b=2:1"),
              "the strides of (2,2):(1,1) overlap: a stride must be larger than all that smaller strides "
              "reach together; use a Placement for other orders");
    EXPECT_EQ(refusal([] { (void)parse_layout("(2,2):(1,1)"); }),
              "the strides of (2,2):(1,1) overlap: a stride must be larger than all that smaller strides "
              "reach together");
    EXPECT_EQ(refusal([] { (void)parse_layout("(0):(1)"); }), "a layout has size 0; sizes are 1 or more");
    EXPECT_EQ(refusal([] { (void)parse_layout("(2):(0)"); }), "a layout has stride 0; strides are 1 or more");
    EXPECT_EQ(refusal([] { (void)parse_layout("(65536,65536):(65536,1)"); }),
              "the sizes of a layout make 4294967296 ranks; a world has at most 2147483647");
    EXPECT_EQ(refusal([] { (void)parse_layout("(3):(1073741824)"); }),
              "a layout reaches offset 2147483648; a world has at most 2147483647 ranks");
}

TEST(UsageError, OfQuestionsNamesWhatWouldWork) {
    EXPECT_EQ(refusal([] { (void)example.coord(256); }),
              "rank 256 is outside mesh pp=4 dp=8 tp=8, which covers ranks 0..255");
    EXPECT_EQ(refusal([] { (void)example.index(-1, "tp"); }),
              "rank -1 is outside mesh pp=4 dp=8 tp=8, which covers ranks 0..255");
    EXPECT_EQ(refusal([] {
                  (void)example.slice({{"tp", 0}}).group(65, "pp");
              }),
              "rank 65 is outside mesh pp=4:64 dp=8:8, which covers 32 of ranks 0..248");
    EXPECT_EQ(refusal([] { (void)example.group(2, "tpp"); }),
              "mesh pp=4 dp=8 tp=8 has no axis 'tpp'; did you mean 'tp'?");
    EXPECT_EQ(refusal([] { (void)example.axis("model"); }), "mesh pp=4 dp=8 tp=8 has no axis 'model'");
    EXPECT_EQ(refusal([] { (void)example.size(AxisId{3}); }),
              "axis number 3 was asked of mesh pp=4 dp=8 tp=8; it has axes 0..2");
    EXPECT_EQ(refusal([] { (void)example.name({-1}); }),
              "axis number -1 was asked of mesh pp=4 dp=8 tp=8; it has axes 0..2");
    EXPECT_EQ(refusal([] {
                  (void)Mesh{{"a", 2}}.group(0, example.axes("pp", "tp"));
              }),
              "axis number 2 was asked of mesh a=2; it has axes 0..0");
    EXPECT_EQ(refusal([] { AxisSet{}.insert({16}); }),
              "axis number 16 was put into a set; a mesh has axes 0..15 at most");
    EXPECT_EQ(refusal([] { (void)example.partition_in_order("tp", "pp", "tp"); }),
              "axis 'tp' is named twice in one list of axes");
    EXPECT_EQ(refusal([] {
                  (void)example.rank({{"pp", 4}, {"dp", 0}, {"tp", 0}});
              }),
              "index 4 is outside axis 'pp' of mesh pp=4 dp=8 tp=8; it has 0..3");
    EXPECT_EQ(refusal([] {
                  (void)example.rank({{"pp", 1}, {"tp", 0}});
              }),
              "the coordinate 'pp=1 tp=0' says nothing of axis 'dp'; a rank of mesh pp=4 dp=8 tp=8 needs "
              "every axis");
    EXPECT_EQ(refusal([] {
                  (void)example.rank({{"pp", 1}, {"dq", 0}});
              }),
              "mesh pp=4 dp=8 tp=8 has no axis 'dq'; did you mean 'dp'?");
    EXPECT_EQ(refusal([] { (void)example.coord(0)["pt"]; }),
              "the coordinate has no axis 'pt'; did you mean 'pp'?");
    auto two = std::vector<int>(2);
    EXPECT_EQ(refusal([&] { example.indices(0, two); }), "the indices of 3 axes were asked for in 2 places");
    EXPECT_EQ(refusal([&] { (void)example.rank_at(two); }), "a position on 3 axes was given as 2 indices");
    EXPECT_EQ(refusal([&] { example.partition("tp").copy_to(two); }),
              "the ranks of 32 groups of 8 were asked for in a buffer of 2; it must hold 256");
    EXPECT_EQ(refusal([] { (void)example.group(0, "pp").pick({4}); }),
              "pick 4 of a group of 4; positions are -4..3");
    EXPECT_EQ(refusal([] { (void)example.group(0, "pp").pick({}); }),
              "a pick lists no position; name at least one");
    EXPECT_EQ(refusal([] {
                  auto all = std::vector<int>(17);
                  for (int i = 0; i < 17; ++i) all[static_cast<std::size_t>(i)] = i;
                  (void)Mesh{{"pp", 17}}.group(0, "pp").pick(all);
              }),
              "a pick lists more than 16 members");
}

TEST(UsageError, OfRearrangementsNamesWhatWouldWork) {
    EXPECT_EQ(refusal([] {
                  (void)example.slice({{"pp", 0}, {"dp", 0}, {"tp", 0}});
              }),
              "a slice fixes every axis of mesh pp=4 dp=8 tp=8; leave one, or ask for the rank");
    EXPECT_EQ(refusal([] {
                  (void)example.slice({{"dp", 8}});
              }),
              "index 8 is outside axis 'dp' of mesh pp=4 dp=8 tp=8; it has 0..7");
    EXPECT_EQ(refusal([] { (void)example.flatten({}, "m"); }), "flatten names no axis; name at least one");
    EXPECT_EQ(refusal([] {
                  (void)example.flatten({"pp", "dp"}, "tp");
              }),
              "the axis 'tp' is listed twice; every name stands once");
    EXPECT_EQ(refusal([] {
                  (void)example.split("dp", {{"a", 3}, {"b", rest}});
              }),
              "axis 'dp' of size 8 does not split into parts of 3 ranks times '*'");
    EXPECT_EQ(refusal([] {
                  (void)example.split("dp", {{"a", 2}, {"b", 3}});
              }),
              "axis 'dp' of size 8 does not split into parts of 6 ranks");
    EXPECT_EQ(refusal([] {
                  (void)example.split("dp", {{"a", rest}, {"b", rest}});
              }),
              "split of 'dp' has 2 sizes '*'; at most one can be inferred");
    EXPECT_EQ(refusal([] {
                  (void)example.split("dp", {{"a", 2, 4}, {"b", 4}});
              }),
              "split of 'dp' gives 'a' a stride; strides follow from the split");
    EXPECT_EQ(refusal([] {
                  (void)Mesh::parse("m=(4,3):(6,1) t=2:3").split("m", {{"a", 6}, {"b", 2}});
              }),
              "axis 'm' is laid out as (4,3):(6,1); a part of 6 does not end between its digits");
    EXPECT_EQ(refusal([] {
                  (void)example.permuted({"pp", "tp"});
              }),
              "a permutation lists 2 axes; mesh pp=4 dp=8 tp=8 has 3, list each once");
    EXPECT_EQ(
        refusal([] { (void)Mesh::parse("pp=2:4").concatenate(Mesh::parse("tp=4 @4")); }),
        "mesh pp=2:4 starts at rank 0 and mesh tp=4 @4 at rank 4; meshes that are concatenated start at "
        "the same rank");
    EXPECT_EQ(
        refusal([] { (void)Mesh::parse("pp=2:2").concatenate(Mesh::parse("tp=4")); }),
        "the strides of (2,4):(2,1) overlap: a stride must be larger than all that smaller strides reach "
        "together; use a Placement for other orders");
    EXPECT_EQ(refusal([] { (void)example.shifted(-1); }),
              "the mesh would cover ranks -1..254; ranks are 0..2147483646");
}

TEST(UsageError, OfPlacementsNamesTheRank) {
    const auto square = Mesh{{"a", 2}, {"b", 2}};
    EXPECT_EQ(refusal([&] {
                  Placement(square, {0, 1, 2});
              }),
              "a placement lists 3 ranks; mesh a=2 b=2 has 4 positions");
    EXPECT_EQ(refusal([&] {
                  Placement(square, {0, 1, 0, 2});
              }),
              "a placement lists rank 0 at positions 0 and 2; every rank has one place");
    EXPECT_EQ(refusal([&] {
                  Placement(square, {0, 1, -7, 2});
              }),
              "a placement lists rank -7; ranks are 0 or more");
    EXPECT_EQ(refusal([&] {
                  Placement(square.shifted(4), {0, 1, 2, 3});
              }),
              "a placement over mesh a=2 b=2 @4; the table gives the ranks, leave out strides and offset");
    EXPECT_EQ(refusal([&] {
                  (void)Placement(square, {4, 5, 6, 7}).coord(0);
              }),
              "rank 0 has no place in the placement of mesh a=2 b=2");
    EXPECT_EQ(refusal([&] { (void)Placement::parse("a=2 b=2"); }),
              "the placement 'a=2 b=2' cannot be read: expected '@[' after 'b=2', found the end");
}

TEST(UsageError, OfTextSaysWhereAndWhatWasExpected) {
    EXPECT_EQ(
        refusal_of("dp=2 tp"),
        "the mesh 'dp=2 tp' cannot be read: expected '=' and a size, as in tp=8, after 'tp', found the end");
    EXPECT_EQ(refusal_of("dp=2x"),
              "the mesh 'dp=2x' cannot be read: expected a blank or ',' between axes after "
              "'dp=2', found 'x' at character 5");
    EXPECT_EQ(refusal_of("dp="),
              "the mesh 'dp=' cannot be read: expected a whole number after 'dp=', found the end");
    EXPECT_EQ(refusal_of("p/=3"),
              "the mesh 'p/=3' cannot be read: expected '=' and a size, as in p=8, after 'p', found '/' at "
              "character 2");
    EXPECT_EQ(refusal_of("a=2 @4 b=3"),
              "the mesh 'a=2 @4 b=3' cannot be read: expected the end after '@4', found 'b' at character 8");
    EXPECT_EQ(refusal([] { (void)Coordinate::parse("pp=1dp=0"); }),
              "the coordinate 'pp=1dp=0' cannot be read: expected a blank or ',' between axes after "
              "'pp=1', found 'd' at character 5");
    const auto ranks = [](std::string_view text) { return refusal([&] { (void)parse_ranks(text); }); };
    EXPECT_EQ(ranks("0..7"), "the group '0..7' cannot be read: expected '{', found '0' at character 1");
    EXPECT_EQ(
        ranks("{0, ..., 8}"),
        "the group '{0, ..., 8}' has '...' after fewer than two ranks; their difference is the step, as in "
        "{0, 8, ..., 56}");
    EXPECT_EQ(ranks("{0, 8, ..., 50}"),
              "the group '{0, 8, ..., 50}' has a range from 16 to 50 that steps of 8 do not reach");
    EXPECT_EQ(ranks("{7..3}"), "the group '{7..3}' has a range from 7 to 3 that steps of 1 do not reach");
    EXPECT_EQ(ranks("{-1}"), "the group '{-1}' lists rank -1; ranks are 0 or more");
    EXPECT_EQ(ranks("{0..7, 3}"), "the group '{0..7, 3}' lists rank 3 twice");
    EXPECT_EQ(ranks("{0..1000000000}"), "the group '{0..1000000000}' lists more than 1048576 ranks");
    EXPECT_EQ(ranks("{0..600000, 1000000..2000000}"),
              "the group '{0..600000, 1000000..2000000}' lists more than 1048576 ranks");
    EXPECT_EQ(refusal([] { (void)parse_ranks("{0, 1, 2}", 2); }),
              "the group '{0, 1, 2}' lists more than 2 ranks");
    EXPECT_EQ(parse_ranks("{0..2, 4, 8, ..., 20}", 8).size(), 8U);
    EXPECT_EQ(refusal([] { (void)parse_ranks("{0..2, 4, 8, ..., 20}", 7); }),
              "the group '{0..2, 4, 8, ..., 20}' lists more than 7 ranks");
}

}  // namespace
}  // namespace rankmesh::tests
