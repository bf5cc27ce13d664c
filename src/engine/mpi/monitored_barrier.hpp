// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

// A barrier whose ranks learn who is missing: every rank sends a message to group rank 0, which tells all of
// them who did not. It uses messages only, so that an expired timeout is an exception and not the end of the
// job.

/// Sends this rank's arrival to group rank 0, or there receives the others'.
void post_arrival(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// True if `await_arrivals` would return at once.
bool all_arrived(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// Returns once all ranks have arrived; throws Timeout with those that have and have not.
void await_arrivals(MPI_Comm comm, std::vector<MPI_Request>& requests, const Label& label, Duration timeout);

}  // namespace rankmesh::detail
