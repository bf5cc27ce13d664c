// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/engine/gloo.hpp>

namespace rankmesh::detail {

/// How this process meets the others, and where each part of that was said.
struct Met {
    int rank = 0;
    int size = 1;
    std::string store;      // "" in a world of one
    std::string job;        // "" in a world of one
    std::string interface;  // "" where it is to be found

    std::string rank_from;
    std::string size_from;
    std::string store_from;
    std::string job_from;

    /// `rank 3 (RANK) of 8 (WORLD_SIZE), store '/shared/run' (RANKMESH_STORE), job '17' (RANKMESH_JOB)`.
    std::string text() const;
};

/// What `given` leaves out is taken from the environment; throws Misuse where something is unknown.
Met meet(const gloo::Meeting& given);

}  // namespace rankmesh::detail
