// SPDX-License-Identifier: Apache-2.0
// The MPI engine.
#pragma once

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::mpi {

/// Returns true if this build has the MPI engine.
RANKMESH_EXPORT bool is_built();

/// A world of the ranks of MPI_COMM_WORLD. Start the program with mpirun.
///
/// Initialises MPI unless the program did, and then finalises MPI after the last World, Member and
/// Communicator. Throws NotBuilt without MPI, and UsageError if MPI sees another number of ranks than the
/// innermost launcher announced.
class RANKMESH_EXPORT World : public rankmesh::World {
public:
    explicit World(const WorldOptions& options = {}) : World(0, nullptr, options) {}
    World(int argc, char** argv, const WorldOptions& options = {});
};

}  // namespace rankmesh::mpi
