// SPDX-License-Identifier: Apache-2.0
// What programs of several processes need around the suite.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "support/processes.hpp"

/// Starts `size` processes of a program, whose store is `store`; the worst way in which one ended.
inline int launch(const std::string& program, int size, const std::string& store,
                  const std::vector<std::string>& options) {
    auto words = std::vector{program};
    words.insert(words.end(), options.begin(), options.end());
    auto worst = 0;
    for (auto process : support::start_ranks(words, size, store, "conformance"))
        worst = std::max(worst, support::end_of(process));
    return worst;
}

/// One rank prints the passing tests, all print what fails.
inline void print_as(int rank) {
    if (rank == 0) return;
    class Failures : public testing::EmptyTestEventListener {
    public:
        explicit Failures(int rank) : rank_(rank) {}

    private:
        void OnTestPartResult(const testing::TestPartResult& result) override {
            if (result.failed())
                std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                             result.message());
        }
        const int rank_;
    };
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures(rank));
}
