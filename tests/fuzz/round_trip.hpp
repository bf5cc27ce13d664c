// SPDX-License-Identifier: Apache-2.0
// The law of every parser: any text gives a value whose own text gives that value again, or UsageError with a
// clean text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <rankmesh/core/error.hpp>

#include "../support/clean.hpp"

namespace rankmesh::fuzz {

/// Returns 0, or aborts where the law does not hold; any other error ends the program by itself.
template <class Parse, class Print>
int round_trip(const std::uint8_t* data, std::size_t size, Parse parse, Print print) {
    const auto text = std::string_view(reinterpret_cast<const char*>(data), size);
    try {
        const auto value = parse(text);
        const auto printed = print(value);
        auto same = false;
        try {
            same = parse(printed) == value;
        } catch (const UsageError& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        if (!same) {
            std::fprintf(stderr, "read and printed as '%s', which reads otherwise\n", printed.c_str());
            std::abort();
        }
    } catch (const UsageError& error) {
        if (!support::is_clean(error.what())) {
            std::fprintf(stderr, "an error's text is long, or not printable: '%s'\n", error.what());
            std::abort();
        }
    }
    return 0;
}

}  // namespace rankmesh::fuzz
