// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/store/redis_url.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// A store whose entries are the keys `rankmesh:{JOB}:NAME` of a Redis server, which expire after a day.
///
/// RANKMESH_REDIS_USER names the user. RANKMESH_REDIS_PASSWORD, or the file RANKMESH_REDIS_PASSWORD_FILE, has
/// the password. It connects at its first call, and reconnects once if the connection ends.
std::unique_ptr<Store> redis_store(const RedisUrl& server, const std::string& job);

}  // namespace rankmesh::detail
