// SPDX-License-Identifier: Apache-2.0
// What a target states about what it was given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <rankmesh/core/error.hpp>

#include "../support/clean.hpp"

namespace rankmesh::fuzz {

inline std::string_view bytes_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool holds, const char* law) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", law);
    std::abort();
}

/// Runs `read`, which may refuse what it reads by an error of `Refusal` with a clean text; any other error
/// ends the program by itself.
template <class Refusal, class Read>
void read_or_refuse(Read&& read) {
    try {
        read();
    } catch (const Refusal& error) {
        require(support::is_clean(error.what()), "an error's text is short and printable");
    }
}

}  // namespace rankmesh::fuzz
