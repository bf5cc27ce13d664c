// SPDX-License-Identifier: Apache-2.0
// What every store does.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/store.hpp"

namespace support {

inline std::chrono::steady_clock::time_point soon() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

inline void expect_to_keep_entries(rankmesh::detail::Store& store) {
    using Texts = std::vector<std::optional<std::string>>;
    EXPECT_EQ(store.get({"a", "b"}, soon()), (Texts{std::nullopt, std::nullopt}));
    EXPECT_TRUE(store.set("a", "first", soon()));
    EXPECT_FALSE(store.set("a", "second", soon())) << "an entry is written once";
    EXPECT_EQ(store.get({"b", "a"}, soon()), (Texts{std::nullopt, "first"}));
    const auto binary = std::string("\0\r\n$-1\r\n\xff", 9);
    EXPECT_TRUE(store.set("b c/d", binary, soon()));
    EXPECT_TRUE(store.set("empty", "", soon()));
    const auto long_text = std::string(3'000'000, 'x');
    EXPECT_TRUE(store.set("long", long_text, soon()));
    EXPECT_EQ(store.get({"b c/d", "empty", "long", "a"}, soon()), (Texts{binary, "", long_text, "first"}));
    store.remove({"a", "was never there"}, soon());
    EXPECT_EQ(store.get({"a", "empty"}, soon()), (Texts{std::nullopt, ""}));
    EXPECT_TRUE(store.set("a", "again", soon()));
    EXPECT_EQ(store.get({}, soon()), Texts{});
}

}  // namespace support
