// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/store/store.hpp"
#include "engine/store/tcp_url.hpp"

namespace rankmesh::detail {

/// The store of `job` that rank 0 serves at `url`; on rank 0 it serves from now on. Throws UsageError where
/// rank 0 cannot serve there. A process that enters the job later gives size 0, and a rank that is not 0.
///
/// Who connects must know RANKMESH_SECRET, or the job id where that is not set. Nothing is encrypted.
std::unique_ptr<Store> tcp_store(const TcpUrl& url, const std::string& job, int rank, int size);
/// The same with a successor, if a second is named: a rank other than 0 at whose host that is serves it from
/// now on, of several the first that can. The host's address is looked up until then.
std::unique_ptr<Store> tcp_store(const TcpUrls& urls, const std::string& job, int rank, int size,
                                 std::chrono::steady_clock::time_point until);
/// The store by which a process enters the job later: the first as long as it is served, else the second once
/// ranks have gone over to it; throws Timeout where there is none until then.
std::shared_ptr<Store> tcp_store_to_enter(const TcpUrls& urls, const std::string& job, int rank,
                                          std::chrono::steady_clock::time_point until);

}  // namespace rankmesh::detail
