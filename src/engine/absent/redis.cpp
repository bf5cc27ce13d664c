// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/error.hpp>

#include "engine/store/redis_store.hpp"

namespace rankmesh::detail {

std::unique_ptr<Store> redis_store(const RedisUrl& server, const std::string&) {
    throw NotBuilt(cat("this build of rankmesh cannot use the store '", server.text(),
                       "'; configure with -DRANKMESH_REDIS=ON where libhiredis-dev is installed, or name a "
                       "folder that all processes see"));
}

std::string redis_library() { return {}; }

}  // namespace rankmesh::detail
