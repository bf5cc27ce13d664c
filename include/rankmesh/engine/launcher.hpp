// SPDX-License-Identifier: Apache-2.0
// What launchers (mpirun, srun, torchrun) announce in the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// A number that a launcher sets in the environment, and the name of its variable.
struct Announced {
    int value = 0;
    std::string variable;
};

/// Returns the size of the world that the innermost launcher announces: RANKMESH_WORLD_SIZE, which overrides
/// all others, else OMPI_COMM_WORLD_SIZE, else PMI_SIZE, else SLURM_STEP_NUM_TASKS, else WORLD_SIZE. In a
/// process of torchrun (TORCHELASTIC_RUN_ID) WORLD_SIZE comes second. Returns nullopt without a launcher.
///
/// Ignores SLURM_NTASKS, because in a batch script it is the size of the allocation. Throws UsageError if the
/// variable is not a number.
RANKMESH_EXPORT std::optional<Announced> announced_size();

/// Returns this process's rank: OMPI_COMM_WORLD_RANK, else PMI_RANK, else SLURM_PROCID, else RANK; in a
/// process of torchrun RANK comes first. Returns nullopt without a launcher.
RANKMESH_EXPORT std::optional<Announced> announced_rank();

/// Returns true if a launcher started this process: an engine other than threads is chosen (by `engine`,
/// RANKMESH_ENGINE or the launcher's variables), or the size of the world is announced. Otherwise a program
/// may run its ranks as threads.
///
/// Throws UsageError if a variable is not a number.
RANKMESH_EXPORT bool is_launched(std::string_view engine = {});

/// Throws UsageError if `engine` sees another number of ranks than announced. Otherwise a program started by
/// the wrong launcher would silently run as many worlds of one rank.
RANKMESH_EXPORT void check_announced(const std::string& engine, int seen);

}  // namespace rankmesh
