// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>

/// Which rank of a job kills itself in a cycle, and where: before a call, in a short or a long one, in grow.
struct GrowFate {
    int victim;
    int where;
};

inline GrowFate fate_of(int seed, int cycle, int size) {
    auto random = std::mt19937(static_cast<unsigned>(seed * 100'000 + cycle));
    const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const auto victim = upto(size);
    return {victim, upto(4)};
}
