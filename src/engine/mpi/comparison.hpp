// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <optional>

#include "engine/diagnosis/failure.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

/// Finds out that the ranks of a communicator call different collectives: the first are compared each, later
/// ones one in `interval`, with all before it.
///
/// A comparison is a small all_reduce on the same communicator in front of the collective's own, so it is at
/// most one call in `interval`, and none of them waits for it but a blocking one.
class Comparison {
public:
    static constexpr std::uint64_t first_calls = 128;
    static constexpr std::uint64_t interval = 256;

    /// The ranks that have made one call, of those that were compared.
    struct Side {
        std::uint64_t hash = 0;   // of the call, and of those before it since the last comparison
        std::uint64_t ranks = 0;  // a bit for each of the first 64 group ranks
        std::uint64_t count = 1;
        std::int32_t rank = 0;  // the first of them, as group rank
        std::uint32_t started = 0;
        Agreed call = {};
        std::uint64_t unit = 1;
        std::uint64_t first = 0;  // the number of the first call in the hash
    };
    /// One comparison: those with the least hash, and those with the greatest.
    struct Sides {
        Side own = {};
        std::array<Side, 2> extremes = {};

        bool differ() const { return extremes[0].hash != extremes[1].hash; }
    };

    /// Notes a collective, the `number`-th, as one that starts or blocks; what is to be compared, or nothing.
    std::optional<Side> note(const Call& call, std::uint64_t number, bool started, int group_rank);
    /// Posts the comparison of what `note` has returned; `sides` is in use until it is complete.
    static void post(const Side& own, MPI_Comm comm, Sides& sides, MPI_Request* request);
    /// Throws Disagreement if a comparison that is complete has found a difference.
    static void check(const Sides& sides, std::uint64_t number, const Label& label);

private:
    std::uint64_t hash_ = 0;
    std::uint64_t compared_ = 0;  // the last call that was compared
};

/// Called before MPI is finalised.
void free_comparison();

}  // namespace rankmesh::detail
