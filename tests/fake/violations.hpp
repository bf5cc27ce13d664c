// SPDX-License-Identifier: Apache-2.0
// What programs that break a demand of the real library are made of.
#pragma once

#include <barrier>
#include <cstdlib>

#include "fake/ranks.hpp"

namespace ranks {

/// Runs a program on ranks that soon lose patience, once they have met.
inline void on_impatient_threads(int size, const Program& program) {
    auto all = std::barrier(size, []() noexcept { setenv("FAKE_PATIENCE", "800", 1); });
    as_threads(size, [&](Rank& rank) {
        all.arrive_and_wait();
        program(rank);
    });
}

/// What a program says that breaks a demand, and one that breaks it by letting others wait.
#define EXPECT_VIOLATION(size, program, sentence) \
    EXPECT_DEATH(as_threads(size, program), "fake nccl: violation: .*" sentence)
#define EXPECT_WAIT_IN_VAIN(size, program, sentence) \
    EXPECT_DEATH(on_impatient_threads(size, program), "fake nccl: violation: .*" sentence)

inline ncclResult_t sum(const Array<float>& array, ncclComm_t communicator, cudaStream_t stream) {
    return ncclAllReduce(*array, *array, array.size(), ncclFloat32, ncclSum, communicator, stream);
}

inline ncclComm_t split(const Rank& rank, int color, ncclConfig_t* config = nullptr) {
    auto part = ncclComm_t{};
    EXPECT_NCCL(ncclCommSplit(rank.world, color, rank.rank, &part, config));
    return part;
}

}  // namespace ranks
