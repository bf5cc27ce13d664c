// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <rankmesh/engine/gloo.hpp>

namespace rankmesh::detail {

class PmixClient;

/// Which rank this process is, which store it uses, and where each comes from: a variable or the program.
struct RendezvousConfig {
    int rank = 0;
    int size = 1;
    std::string store;      // "" in a world of one, and by PMIx
    std::string job;        // "" in a world of one, and by PMIx
    bool job_is_secret = false;
    std::string interface;  // "" if none was asked for

    std::shared_ptr<PmixClient> pmix;  // null if the rendezvous is not by PMIx

    std::string rank_from;
    std::string size_from;
    std::string store_from;
    std::string job_from;

    /// `rank 3 (RANK) of 8 (WORLD_SIZE), store '/shared/run' (RANKMESH_STORE), job '17' (RANKMESH_JOB)`, or
    /// `rank 3 of 8 by PMIx, namespace 'slurm.pmix.17.0'`.
    std::string text() const;
};

/// True if the environment names a store, or a PMIx launcher started this process; connects to nothing.
bool has_rendezvous();

/// Completes `given` from the environment. Throws UsageError if something is unknown, and Timeout if the
/// launcher's PMIx server does not answer in time.
RendezvousConfig resolve(const gloo::RendezvousOptions& given, std::chrono::nanoseconds timeout);

/// The same for a process that enters a running job. The size is 0; the rank comes from the program or RANK,
/// -1 for any.
RendezvousConfig resolve_entering(const gloo::RendezvousOptions& given);

}  // namespace rankmesh::detail
