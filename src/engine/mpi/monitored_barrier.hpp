// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

// A barrier whose members hear who is missing: everyone tells group rank 0, which tells everyone who did not.
// Messages only, so that an expired timeout is an exception and not the end of the job.

/// Tells group rank 0 that this member is here, or listens for the others there.
void post_arrival(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// True if `await_arrivals` would return at once.
bool all_arrived(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// Returns once all members have arrived; throws Timeout that says who has and who has not.
void await_arrivals(MPI_Comm comm, std::vector<MPI_Request>& requests, const Label& label, Duration timeout);

}  // namespace rankmesh::detail
