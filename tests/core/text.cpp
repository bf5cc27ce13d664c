// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/text.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <rankmesh/core/placement.hpp>
#include "laws.hpp"

namespace rankmesh::tests {
namespace {

/// What a parser does with text: an equal value back from its own notation, or UsageError, and nothing else.
template <class Parse, class Print>
void reads_or_refuses(const std::string& text, Parse parse, Print print) {
    try {
        const auto value = parse(text);
        RC_ASSERT(parse(print(value)) == value);
    } catch (const UsageError& error) {
        RC_ASSERT(std::string_view(error.what()) != "");
    }
}

void all_parsers_read_or_refuse(const std::string& text) {
    const auto print = [](const auto& value) { return to_string(value); };
    reads_or_refuses(
        text, [](const auto& t) { return MeshSpec::parse(t); }, print);
    reads_or_refuses(
        text, [](const auto& t) { return Mesh::parse(t); }, print);
    reads_or_refuses(
        text, [](const auto& t) { return Coordinate::parse(t); }, print);
    reads_or_refuses(
        text, [](const auto& t) { return Placement::parse(t); }, print);
    reads_or_refuses(
        text, [](const auto& t) { return parse_layout(t); }, print);
    reads_or_refuses(
        text, [](const auto& t) { return parse_ranks(t); },
        [](const auto& ranks) { return ranks_to_string(ranks); });
}

RC_GTEST_PROP(Parsers, ReadOrRefuseAnyText, (const std::string& text)) { all_parsers_read_or_refuse(text); }

/// Pieces of the notation in any order come closer to every branch than characters do.
RC_GTEST_PROP(Parsers, ReadOrRefuseAnyMixtureOfTheirOwnTokens, ()) {
    auto text = std::string{};
    for (int piece = *rc::gen::inRange(0, 24); piece > 0; --piece)
        text += *rc::gen::element<std::string>("pp", "dp", "tp", "=", "=", ":", "@", "@[", "(", ")", "[", "]",
                                               "{", "}", ",", " ", "..", "...", "*", "0", "1", "2", "3", "8",
                                               "64", "65536", "2147483647", "2147483648", "-1", "-", "\t",
                                               "/", "pp=2", "dp=4", "tp=8", ", ", "(2,2):(8,1)", "{0..7}");
    all_parsers_read_or_refuse(text);
}

RC_GTEST_PROP(Coordinate, ParsesBackWhateverItHolds, ()) {
    auto coordinate = Coordinate{};
    const auto count = *rc::gen::inRange(0, max_axes + 1);
    for (int i = 0; i < count; ++i)
        coordinate.push_back(detail::cat("a", i), *rc::gen::arbitrary<std::int16_t>());
    RC_ASSERT(Coordinate::parse(to_string(coordinate)) == coordinate);
}

TEST(Text, MayBeSpacedAndSeparatedFreely) {
    const auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
    for (auto text : {"pp=4 dp=8 tp=8", "pp=4,dp=8,tp=8", "  pp=4,  dp=8\t tp=8 ", "pp=4 , dp=8\ntp=8,"})
        EXPECT_EQ(Mesh::parse(text), mesh) << text;
    for (auto text : {"pp=1 dp=0 tp=3", "pp=1,dp=0,tp=3", " pp=1, dp=0, tp=3 "})
        EXPECT_EQ(Coordinate::parse(text), mesh.coord(67)) << text;
    for (auto text : {"{0..2, 8}", "{0,1,2,8}", " { 0..2 , 8 } "})
        EXPECT_EQ(parse_ranks(text), (std::vector{0, 1, 2, 8})) << text;
    EXPECT_EQ(parse_layout(" (2, 4):(32, 8) "), parse_layout("(2,4):(32,8)"));
}

TEST(Text, NamesEachMeshOneWay) {
    const auto printed = [](const char* text) { return to_string(Mesh::parse(text)); };
    EXPECT_EQ(printed("pp=4:64 dp=8:8 tp=8:1"), "pp=4 dp=8 tp=8");  // strides that are the plain ones
    EXPECT_EQ(printed("pp=2:32 dp=4:8 @64"), "pp=2:32 dp=4:8 @64");
    EXPECT_EQ(printed("pp=2 dp=4 @64"), "pp=2 dp=4 @64");
    EXPECT_EQ(printed("pp=2 dp=4 @0"), "pp=2 dp=4");
    EXPECT_EQ(printed("a=1:7 b=4:2"), "a=1 b=4:2");
    EXPECT_EQ(printed("m=(2,2):(4,2) b=2:1"), "m=4 b=2");  // digits that are one run
    EXPECT_EQ(printed("m=(2,2):(8,1) b=4:2"), "m=(2,2):(8,1) b=4:2");
    EXPECT_EQ(to_string(Layout{}), "(1):(1)");
}

}  // namespace
}  // namespace rankmesh::tests
