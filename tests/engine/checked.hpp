// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include <rankmesh/engine/world.hpp>

const auto checked = rankmesh::WorldOptions{.timeout = std::chrono::seconds(20), .checked = true};

template <class T>
std::vector<T> ones(std::size_t count) {
    return std::vector<T>(count, T{1});
}

/// Expects that the communicator works: a sum is right.
inline void expect_works(rankmesh::Communicator& on) {
    auto x = std::vector{on.rank(), 1};
    on.all_reduce(x);
    EXPECT_EQ(x, (std::vector{on.size() * (on.size() - 1) / 2, on.size()}));
}
