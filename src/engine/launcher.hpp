// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail {

/// What the launcher that started this process says of the world.
struct Announced {
    int size = 1;
    std::string variable;  // that said so
};

/// The size that the innermost launcher announced: RANKMESH_WORLD_SIZE, which overrides, else
/// OMPI_COMM_WORLD_SIZE, else PMI_SIZE, else SLURM_STEP_NUM_TASKS, else WORLD_SIZE. Throws Misuse if that is
/// no number of 1 or more.
///
/// Not SLURM_NTASKS: inside a batch script that is the allocation.
std::optional<Announced> announced_size();

/// True if a launcher that MPI programs are started with has started this process.
bool started_by_mpi_launcher();

/// Throws Misuse if `engine` sees another number of ranks than was announced: a program started by the wrong
/// launcher silently becomes many worlds of one rank.
void check_announced(const std::string& engine, int seen);

}  // namespace rankmesh::detail
