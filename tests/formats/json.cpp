// SPDX-License-Identifier: Apache-2.0
// Our own JSON values beside those of nlohmann-json, on the same texts and of the same parts.
#include "formats/json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rankmesh::formats {
namespace {

using Library = nlohmann::ordered_json;

const auto texts = std::vector<std::string>{"null",
                                            "true",
                                            "false",
                                            "0",
                                            "-1",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "9223372036854775808",
                                            "18446744073709551615",
                                            "18446744073709551616",
                                            "0.1",
                                            "1e300",
                                            "-2.50",
                                            "1.0",
                                            R"("")",
                                            R"("a\"b\\\n\u0001")",
                                            R"("\u00fc\ud83d\ude00")",
                                            "[]",
                                            "{}",
                                            "[[]]",
                                            "[{}, [], null]",
                                            R"({"z": 1, "a": {"b": [1, 2, {"c": null}]}})",
                                            R"({"a": 1, "b": 2, "a": 3})",
                                            "/* a comment */ [1, // another\n 2]"};

TEST(Json, IsReadAndPrintedAsTheLibraryDoes) {
    for (const auto& text : texts) {
        const auto library = Library::parse(text, nullptr, true, true);
        const auto own = Json::parse(text);
        EXPECT_EQ(own.dump(), library.dump()) << text;
        EXPECT_EQ(own.dump(2), library.dump(2)) << text;
        EXPECT_EQ(Json::parse(own.dump()), own) << text;
        EXPECT_EQ(own.is_null(), library.is_null()) << text;
        EXPECT_EQ(own.is_boolean(), library.is_boolean()) << text;
        EXPECT_EQ(own.is_number(), library.is_number()) << text;
        EXPECT_EQ(own.is_number_integer(), library.is_number_integer()) << text;
        EXPECT_EQ(own.is_number_float(), library.is_number_float()) << text;
        EXPECT_EQ(own.is_string(), library.is_string()) << text;
        EXPECT_EQ(own.is_array(), library.is_array()) << text;
        EXPECT_EQ(own.is_object(), library.is_object()) << text;
    }
}

TEST(Json, SaysWhereATextEndsToBeJson) {
    for (const std::string text :
         {"", "{", "[1,", "tru", "1 2", "{\"a\" 1}", "\"\xff\"", "{\"\\ud800\": 1}"}) {
        auto at = std::size_t{0};
        try {
            [[maybe_unused]] const auto read = Library::parse(text, nullptr, true, true);
        } catch (const Library::parse_error& error) {
            at = error.byte;
        }
        try {
            static_cast<void>(Json::parse(text));
            ADD_FAILURE() << text << " was read";
        } catch (const Json::SyntaxError& error) {
            EXPECT_EQ(error.byte, at) << text;
        }
    }
}

TEST(Json, OfPartsIsWhatTheLibraryMakesOfThem) {
    const auto check = [](const auto& make) {
        const auto expected = make.template operator()<Library>();
        EXPECT_EQ(make.template operator()<Json>().dump(), expected.dump());
    };
    check([]<class J>() {
        return J{{"a", 1}, {"b", "text"}, {"c", nullptr}, {"d", {1, 2}}, {"e", {{"f", true}}}};
    });
    check([]<class J>() { return J{{"a", 1}, {2, "b"}}; });
    check([]<class J>() { return J(std::vector<std::pair<int, int>>{{1, 2}, {3, 4}}); });
    check([]<class J>() { return J(std::array{0.5, 2.0}); });
    check([]<class J>() { return J{{"most", ~std::size_t{0}}, {"least", std::int64_t{-1}}}; });
    check([]<class J>() {
        auto all = J();
        all["z"]["y"].push_back({{"x", 1}});
        all["z"]["y"].push_back("w");
        all["a"] = J::array();
        all["z"] = {{"again", all["z"]}};
        all.update(J{{"a", 1}, {"last", 2}});
        return all;
    });
}

TEST(Json, GrowsByKeysThatItLacksInTheirOrder) {
    auto grown = Json::object();
    auto text = std::string("{");
    for (int i = 99; i >= 0; --i) {
        grown.add("k" + std::to_string(i), i);
        text += (i < 99 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
    }
    EXPECT_EQ(grown.dump(), text + "}");
    EXPECT_EQ(grown["k7"], 7);
}

TEST(Json, ComparesWholeNumbersAndNothingElse) {
    const auto most = std::numeric_limits<std::int64_t>::max();
    for (const auto& text : texts) {
        const auto value = Json::parse(text);
        EXPECT_EQ(value < 0 || value > 0 || value <= 0, value.is_number_integer()) << text;
    }
    EXPECT_TRUE(Json(3) > 2);
    EXPECT_TRUE(Json(-3) < -2);
    EXPECT_TRUE(Json(~std::uint64_t{0}) > most);  // which the library takes for -1
}

}  // namespace
}  // namespace rankmesh::formats
