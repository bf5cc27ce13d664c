// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/detail/quote.hpp>

#include <gtest/gtest.h>

#include <rankmesh/core/layout_text.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>

#include "support/clean.hpp"

namespace rankmesh::tests {
namespace {

TEST(Quote, KnowsTheCharactersOfUtf8) {
    EXPECT_EQ(detail::character_size(""), 0U);
    // All first and second bytes, with the third and fourth at the ends of what they may be.
    for (unsigned first = 0; first < 256; ++first)
        for (unsigned second = 0; second < 256; ++second)
            for (const auto later : {0x7f, 0x80, 0xbf, 0xc0}) {
                const auto text = std::string{static_cast<char>(first), static_cast<char>(second),
                                              static_cast<char>(later), static_cast<char>(later)};
                auto expected = std::size_t{1};
                while (expected <= 4 && !support::is_utf8(std::string_view(text).substr(0, expected)))
                    ++expected;
                if (expected > 4) expected = 0;
                ASSERT_EQ(detail::character_size(text), expected) << first << ' ' << second << ' ' << later;
            }
}

TEST(Quote, EscapesWhatIsNoPrintableTextAndNothingElse) {
    EXPECT_EQ(detail::escaped("tp=2\n\x1b[31m\x7f"), "tp=2\\n\\x1b[31m\\x7f");
    EXPECT_EQ(detail::escaped("größe \u2192"), "größe \u2192");
    EXPECT_EQ(detail::escaped("\xc2\x9b|\xff|\xe2\x86"), "\\xc2\\x9b|\\xff|\\xe2\\x86");
    EXPECT_EQ(detail::escaped("a\nb\t", "\n"), "a\nb\\t");
    for (unsigned n = 0; n < 2000; ++n) {
        const auto text = support::hostile(n, "größe=2");
        const auto once = detail::escaped(text);
        EXPECT_TRUE(support::is_printable(once)) << n;
        EXPECT_EQ(once.find('\n'), std::string::npos) << n;
        EXPECT_EQ(detail::escaped(once), once) << n;
        EXPECT_EQ(once == text, support::is_printable(text) && text.find('\n') == std::string::npos) << n;
    }
}

TEST(Quote, KeepsTheHeadAndTheTailOfALongText) {
    EXPECT_EQ(detail::in_quotes(std::string(100, 'x')), "'" + std::string(100, 'x') + "'");
    EXPECT_EQ(detail::in_quotes(std::string(101, 'x')),
              "'" + std::string(40, 'x') + " [41 bytes left out] " + std::string(20, 'x') + "'");
    for (unsigned n = 0; n < 2000; ++n) {
        auto text = std::string{};
        while (text.size() < n) text += n % 3 == 0 ? "x" : n % 3 == 1 ? "ö" : "\u2192";
        for (const auto most : {std::size_t{50}, std::size_t{100}, std::size_t{2000}}) {
            const auto brief = detail::shortened(text, most);
            EXPECT_LE(brief.size(), most);
            EXPECT_TRUE(support::is_printable(brief)) << n;
            const auto note = brief.find(" [");
            EXPECT_EQ(note == std::string::npos, text.size() <= most);
            if (note == std::string::npos) continue;
            const auto end = brief.find("] ") + 2;
            EXPECT_TRUE(text.starts_with(brief.substr(0, note)));
            EXPECT_TRUE(text.ends_with(brief.substr(end)));
            EXPECT_EQ(std::stoul(brief.substr(note + 2)), text.size() - note - (brief.size() - end));
        }
    }
}

/// Law: whatever is parsed, what is wrong with it is said in a clean text.
void expect_clean(std::string_view valid, const auto& parse) {
    parse(valid);
    auto errors = 0;
    for (unsigned n = 0; n < 4000; ++n) try {
            parse(support::hostile(n, valid));
        } catch (const UsageError& error) {
            ++errors;
            ASSERT_TRUE(support::is_clean(error.what())) << n << ": " << error.what();
            ASSERT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << n;
        }
    EXPECT_GT(errors, 1000);
}

TEST(Quote, KeepsTheErrorsOfEveryParserClean) {
    expect_clean("pp=2:4 dp=(2,2):(1,2) @8", [](std::string_view text) { (void)Mesh::parse(text); });
    expect_clean("pp=2 dp=* tp=2", [](std::string_view text) { (void)MeshSpec::parse(text); });
    expect_clean("a=2 b=2 @[3,1,2,0]", [](std::string_view text) { (void)Placement::parse(text); });
    expect_clean("pp=1 dp=0", [](std::string_view text) { (void)Coordinate::parse(text); });
    expect_clean("(4,8):(8,1)", [](std::string_view text) { (void)parse_layout(text); });
    expect_clean("{0..7, 64..71}", [](std::string_view text) { (void)parse_ranks(text); });
    const auto mesh = Mesh{{"pp", 2}, {"dp", 4}};
    expect_clean("dp", [&](std::string_view text) { (void)mesh.axis(text); });
    expect_clean("dp", [](std::string_view text) { (void)Mesh({{text, 2}}); });
    expect_clean("dp=1 pp=0", [&](std::string_view text) {
        (void)Coordinate::parse("pp=0 dp=0")[text == "dp=1 pp=0" ? std::string_view("dp") : text];
    });
}

TEST(Quote, KeepsTheHeadAndTheTailOfALongUsageError) {
    const auto text = std::string(UsageError("head " + std::string(5000, '\x1b') + " tail").what());
    EXPECT_TRUE(support::is_clean(text)) << text;
    EXPECT_TRUE(text.starts_with("head \\x1b") && text.ends_with("\\x1b tail")) << text;
    EXPECT_STREQ(UsageError("two\nlines").what(), "two\nlines");
}

}  // namespace
}  // namespace rankmesh::tests
