// SPDX-License-Identifier: Apache-2.0
// How the benchmarks of engines take times: between two barriers, the time of the slowest rank.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "../measure.hpp"

namespace rankmesh::bench {

/// Nanoseconds of a call that all ranks begin together: on the slowest, told to all.
template <class Body>
double slowest(Body&& body) {
    MPI_Barrier(MPI_COMM_WORLD);
    auto time = time_of(1, body);
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return time;
}

/// What is compared: `run` is timed, `after` is not.
struct Way {
    std::function<void()> run;
    std::function<void()> after = [] {};
};

/// Nanoseconds of each way by round: all in turn, round after round, each round in another order, after one
/// that is not counted.
inline std::vector<std::vector<double>> times_of(const std::vector<Way>& ways, int rounds) {
    auto times = std::vector<std::vector<double>>(ways.size());
    for (int round = -1; round < rounds; ++round)
        for (std::size_t i = 0; i < ways.size(); ++i) {
            const auto which = (i + static_cast<std::size_t>(round + 1)) % ways.size();
            const auto time = slowest(ways[which].run);
            ways[which].after();
            if (round >= 0) times[which].push_back(time);
        }
    return times;
}

/// The median of each in milliseconds.
inline std::vector<double> medians(const std::vector<std::vector<double>>& times) {
    auto result = std::vector<double>{};
    for (const auto& each : times) result.push_back(median(each) * 1e-6);
    return result;
}
inline std::vector<double> medians(const std::vector<Way>& ways, int rounds) {
    return medians(times_of(ways, rounds));
}

}  // namespace rankmesh::bench
