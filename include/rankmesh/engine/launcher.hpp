// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// True if this process is one of those that a launcher started: its world is of another engine than threads,
/// be it that `engine` names it, RANKMESH_ENGINE or what a launcher left in the environment, or the size of
/// its world is announced. A program may run its ranks as threads otherwise.
///
/// Throws UsageError if a variable that should be a number is none.
RANKMESH_EXPORT bool is_launched(std::string_view engine = {});

/// Throws UsageError if `engine` sees another number of ranks than was announced: otherwise a program started
/// by the wrong launcher would silently run as many worlds of one rank.
RANKMESH_EXPORT void check_announced(const std::string& engine, int seen);

}  // namespace rankmesh
