// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/open_store.hpp"

#include <algorithm>

#include "engine/store/file_store.hpp"
#include "engine/store/redis_store.hpp"
#include "engine/store/tcp_store.hpp"
#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

bool is_served_by_rank_0(const RendezvousConfig& config) { return config.store.starts_with("tcp:"); }

}  // namespace

std::shared_ptr<Store> open_store(const RendezvousConfig& config) {
    if (config.size == 1) return nullptr;
    if (is_served_by_rank_0(config))
        return tcp_store(TcpUrl::parse(config.store), config.job, config.rank, config.size,
                         config.job_is_secret);
    if (is_url(config.store)) return redis_store(RedisUrl::parse(config.store), config.job);
    return std::make_shared<FileStore>(config.store, config.job);
}

std::shared_ptr<Store> open_store_to_enter(const RendezvousConfig& config) {
    if (!is_served_by_rank_0(config)) return open_store(config);
    // It never serves, whatever place it asks for.
    return tcp_store(TcpUrl::parse(config.store), config.job, std::max(config.rank, 1), config.size);
}

}  // namespace rankmesh::detail
