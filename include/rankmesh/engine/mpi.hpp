// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::mpi {

/// True if this build has the MPI engine.
RANKMESH_EXPORT bool is_built();

/// The ranks of MPI_COMM_WORLD: start the program with mpirun.
///
/// Initialises MPI unless that has happened, and then finalises it after the last World, Member and
/// Communicator. Throws NotBuilt without MPI, UsageError if MPI sees another number of ranks than the
/// innermost launcher announced.
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const WorldOptions& options = {}) : World(0, nullptr, options) {}
    World(int argc, char** argv, const WorldOptions& options = {});
};

}  // namespace rankmesh::mpi
