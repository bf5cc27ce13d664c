// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace support {

/// Every third of the cases in a build with the address sanitizer, where each takes some ten times as long;
/// all of them elsewhere.
template <class Case>
std::vector<Case> fewer_if_sanitized(const std::vector<Case>& cases) {
    auto step = std::size_t{1};
#ifdef __SANITIZE_ADDRESS__
    step = 3;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    step = 3;
#endif
#endif
    auto taken = std::vector<Case>{};
    for (std::size_t i = 0; i < cases.size(); i += step) taken.push_back(cases[i]);
    return taken;
}

}  // namespace support
