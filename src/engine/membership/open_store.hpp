// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/membership/failover.hpp"
#include "engine/membership/rendezvous_config.hpp"
#include "engine/store/store.hpp"
#include "engine/store/tcp_url.hpp"

namespace rankmesh::detail {

/// Opens the store that the configuration names: a folder, a Redis server, or what ranks serve; null in a
/// world of one. The addresses of hosts are looked up until then. Only the `first` world of a job has a
/// second store.
std::shared_ptr<Store> open_store(const RendezvousConfig& config, bool first, Store::Instant until);
/// The same in a process that enters a running job.
std::shared_ptr<Store> open_store_to_enter(const RendezvousConfig& config, Store::Instant until);

/// The stores of a job at two hosts. Of the ranks but 0 that run at the second host, the first that can
/// serves the second store from now on.
std::shared_ptr<FailoverStore> failover_store(const TcpUrls& urls, const std::string& job, int rank, int size,
                                              Store::Instant until);
/// The store by which a process enters a running job that has stores at two hosts: the first while it is
/// served, the second once ranks have failed over to it. Throws Timeout if neither is there until then.
std::shared_ptr<Store> failover_store_to_enter(const TcpUrls& urls, const std::string& job, int rank,
                                               Store::Instant until);

}  // namespace rankmesh::detail
