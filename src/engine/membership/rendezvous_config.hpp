// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/gloo.hpp>

#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Which rank this process is, which store it uses, and where each comes from: a variable or the program.
struct RendezvousConfig {
    int rank = 0;
    int size = 1;
    std::string store;  // "" in a world of one
    std::string job;    // "" in a world of one
    bool job_is_secret = false;
    std::string interface;  // "" if none was asked for

    std::string rank_from;
    std::string size_from;
    std::string store_from;
    std::string job_from;

    /// `rank 3 (RANK) of 8 (WORLD_SIZE), store '/shared/run' (RANKMESH_STORE), job '17' (RANKMESH_JOB)`.
    std::string text() const;
};

/// True if the environment names a store, or the host and a port of rank 0.
bool has_rendezvous();

/// Completes `given` from the environment; throws UsageError if something is unknown.
RendezvousConfig resolve(const gloo::RendezvousOptions& given);

/// Completes `given` for a process that enters a running job. The size is 0; the rank comes from the program
/// or RANK, -1 for any.
RendezvousConfig resolve_entering(const gloo::RendezvousOptions& given);

/// Opens the store that the configuration names: a folder, a Redis server, or what rank 0 serves; null in a
/// world of one.
std::shared_ptr<Store> open_store(const RendezvousConfig& config);

}  // namespace rankmesh::detail
