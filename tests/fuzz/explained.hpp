// SPDX-License-Identifier: Apache-2.0
// What an answer of `explain` may hold, whatever it was given.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <rankmesh/explain/explain.hpp>

#include "../support/clean.hpp"

namespace rankmesh::fuzz {

inline void expect_clean(std::string_view text) {
    if (support::is_clean(text)) return;
    std::fprintf(stderr, "a text is long, or not printable: '%.*s'\n", static_cast<int>(text.size()),
                 text.data());
    std::abort();
}

inline void expect_clean(const Explanation& said) {
    for (const auto& finding : said.findings) {
        expect_clean(finding.text);
        for (const auto& detail : finding.details) expect_clean(detail);
    }
    for (const auto& note : said.notes) expect_clean(note);
    for (const auto& doubt : said.doubts) expect_clean(doubt);
}

}  // namespace rankmesh::fuzz
