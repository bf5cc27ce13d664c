// SPDX-License-Identifier: Apache-2.0
// Between rankmesh and MPI's own types: link rankmesh::mpi.
#pragma once

#include <mpi.h>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/mpi.hpp>

namespace rankmesh::mpi {

/// The members of a communicator of the user's as a world, in its order; all of them call it.
///
/// MPI must be initialised; the user still owns `comm` and may free it at once. Throws UsageError for
/// MPI_COMM_NULL, an intercommunicator, or an MPI that does not run.
///
///     void train(MPI_Comm comm) {
///         auto trainers = rankmesh::mpi::adopt(comm);
///         trainers.join({{"dp", rankmesh::rest}}).on("dp").barrier();
///     }
RANKMESH_EXPORT rankmesh::World adopt(MPI_Comm comm, const WorldOptions& options = {});

/// The MPI communicator behind a communicator, to call MPI on; MPI_COMM_SELF for a group of one.
///
/// rankmesh owns it, and it lives as long as any handle of its group; operations on it must come in the same
/// order on all members, those of rankmesh among them. Throws UsageError on another engine.
///
///     void synchronize(const rankmesh::Member& me) { MPI_Barrier(rankmesh::mpi::native(me.on("tp"))); }
RANKMESH_EXPORT MPI_Comm native(const Communicator& communicator);

}  // namespace rankmesh::mpi
