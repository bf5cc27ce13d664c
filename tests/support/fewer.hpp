// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace support {

/// Of how many cases one is taken: of three in a build with the address sanitizer, where each takes some ten
/// times as long, and each elsewhere.
#ifdef __SANITIZE_ADDRESS__
constexpr auto one_in = 3;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr auto one_in = 3;
#else
constexpr auto one_in = 1;
#endif
#else
constexpr auto one_in = 1;
#endif

template <class Case>
std::vector<Case> fewer_if_sanitized(const std::vector<Case>& cases) {
    auto taken = std::vector<Case>{};
    for (std::size_t i = 0; i < cases.size(); i += one_in) taken.push_back(cases[i]);
    return taken;
}

/// The same of a number of random cases.
constexpr int fewer_if_sanitized(int cases) { return cases / one_in; }

}  // namespace support
