// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/rendezvous/store.hpp"
#include "engine/rendezvous/tcp_url.hpp"

namespace rankmesh::detail {

/// The store of `job` that rank 0 serves at `url`; on rank 0 it serves from now on. Throws UsageError where
/// rank 0 cannot serve there. A process that enters the job later gives size 0, and a rank that is not 0.
///
/// Who connects must know RANKMESH_SECRET, or the job id where that is not set. Nothing is encrypted.
std::unique_ptr<Store> tcp_store(const TcpUrl& url, const std::string& job, int rank, int size);

}  // namespace rankmesh::detail
