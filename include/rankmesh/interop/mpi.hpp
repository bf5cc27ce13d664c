// SPDX-License-Identifier: Apache-2.0
// Converts between rankmesh's types and MPI's. Link rankmesh::mpi.
#pragma once

#include <mpi.h>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/mpi.hpp>

namespace rankmesh::mpi {

/// Returns a world of the ranks of an MPI communicator, in its order. Collective over `comm`.
///
/// MPI must be initialised. The caller still owns `comm` and may free it at once. Throws UsageError for
/// MPI_COMM_NULL, for an intercommunicator, and if MPI is not running.
///
///     void train(MPI_Comm comm) {
///         auto trainers = rankmesh::mpi::adopt(comm);
///         trainers.join({{"dp", rankmesh::rest}}).on("dp").barrier();
///     }
RANKMESH_EXPORT rankmesh::World adopt(MPI_Comm comm, const WorldOptions& options = {});

/// Returns the MPI communicator behind a communicator, for calls of MPI; MPI_COMM_SELF for a group of one.
///
/// rankmesh owns the MPI communicator, which lives as long as any handle of its group. All members must call
/// operations in the same order, including rankmesh's. Throws UsageError on another engine.
///
///     void synchronize(const rankmesh::Member& me) { MPI_Barrier(rankmesh::mpi::native(me.on("tp"))); }
RANKMESH_EXPORT MPI_Comm native(const Communicator& communicator);

}  // namespace rankmesh::mpi
