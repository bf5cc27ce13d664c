// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace rankmesh::detail {

/// FNV-1a with a different offset basis, mixed so that every bit of the text reaches every bit of the hash.
inline std::uint64_t hash(std::string_view text, std::uint64_t start = 0xcbf29ce484222325U) {
    auto value = start;
    for (auto c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

}  // namespace rankmesh::detail
