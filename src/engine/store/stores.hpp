// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/store/store.hpp"
#include "engine/store/url.hpp"

namespace rankmesh::detail {

/// A store whose entries are files of a folder. Makes that of `job` under `folder`, and either if it is
/// missing, for this user only; refuses a folder that another user owns or can write to.
std::unique_ptr<Store> file_store(const std::string& folder, const std::string& job);

/// A store whose entries are the keys `rankmesh:{JOB}:NAME` of a Redis server, which expire after a day.
///
/// RANKMESH_REDIS_USER names the user. RANKMESH_REDIS_PASSWORD, or the file RANKMESH_REDIS_PASSWORD_FILE, has
/// the password. It connects at its first call, and reconnects once if the connection ends.
std::unique_ptr<Store> redis_store(const RedisUrl& server, const std::string& job);

/// The client of the store of `job` that rank 0 serves at `url`. Rank 0 serves it from this call on, and
/// throws UsageError if it cannot; it releases the server when it destroys this.
///
/// Whoever connects must know RANKMESH_SECRET, or the job id if no secret is set. Nothing is encrypted.
std::unique_ptr<Store> tcp_store(const TcpUrl& url, const std::string& job, int rank, int size,
                                 bool job_is_secret = false);

}  // namespace rankmesh::detail
