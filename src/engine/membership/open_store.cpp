// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/open_store.hpp"

#include <algorithm>

#include "engine/store/file_store.hpp"
#include "engine/store/redis_store.hpp"
#include "engine/store/tcp_store.hpp"
#include "engine/store/url.hpp"

namespace rankmesh::detail {
std::shared_ptr<Store> open_store(const RendezvousConfig& config) {
    if (config.size == 1) return nullptr;
    if (!is_url(config.store)) return std::make_shared<FileStore>(config.store, config.job);
    if (!config.store.starts_with("tcp:")) return redis_store(RedisUrl::parse(config.store), config.job);
    // A process that enters a running job never serves, whatever place it asks for.
    const auto rank = config.size == 0 ? std::max(config.rank, 1) : config.rank;
    return tcp_store(TcpUrl::parse(config.store), config.job, rank, config.size, config.job_is_secret);
}

}  // namespace rankmesh::detail
