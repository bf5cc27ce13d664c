// SPDX-License-Identifier: Apache-2.0
// How benchmarks take times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace rankmesh::bench {

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Nanoseconds a call of `body`, over `calls` in a row.
template <class Body>
double time_of(int calls, Body&& body) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls;
}

}  // namespace rankmesh::bench
