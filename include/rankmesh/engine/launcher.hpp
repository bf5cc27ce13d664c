// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// A number that a launcher announces in the environment, and the variable that holds it.
struct Announced {
    int value = 0;
    std::string variable;
};

/// The size of the world as the innermost launcher announces it: RANKMESH_WORLD_SIZE, which overrides, else
/// OMPI_COMM_WORLD_SIZE, else PMI_SIZE, else SLURM_STEP_NUM_TASKS, else WORLD_SIZE; nothing without a
/// launcher.
///
/// Not SLURM_NTASKS: inside a batch script that is the allocation. Throws UsageError if the variable is not a
/// number.
RANKMESH_EXPORT std::optional<Announced> announced_size();

/// This process's rank in the same way: OMPI_COMM_WORLD_RANK, else PMI_RANK, else SLURM_PROCID, else RANK.
RANKMESH_EXPORT std::optional<Announced> announced_rank();

/// Throws UsageError if `engine` sees another number of ranks than was announced: otherwise a program started
/// by the wrong launcher would silently run as many worlds of one rank.
RANKMESH_EXPORT void check_announced(const std::string& engine, int seen);

}  // namespace rankmesh
