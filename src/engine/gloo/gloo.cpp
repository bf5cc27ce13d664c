// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include <rankmesh/engine/launcher.hpp>

#include "engine/gloo/file_store.hpp"
#include "engine/gloo/meeting.hpp"
#include "engine/gloo/pmix_rendezvous.hpp"
#include "engine/gloo/redis_store.hpp"
#include "engine/gloo/store_rendezvous.hpp"
#include "engine/gloo/world.hpp"

namespace rankmesh::gloo {
namespace {

std::shared_ptr<detail::Store> store_of(const detail::Met& met) {
    if (met.size == 1) return nullptr;
    if (detail::is_url(met.store)) return detail::redis_store(detail::RedisUrl::parse(met.store), met.job);
    return std::make_shared<detail::FileStore>(met.store, met.job);
}

std::unique_ptr<detail::Rendezvous> rendezvous_of(const detail::Met& met, detail::Duration deadline) {
    if (met.pmix) return std::make_unique<detail::PmixRendezvous>(met.pmix, deadline);
    return std::make_unique<detail::StoreRendezvous>(store_of(met), met.rank, met.size, deadline);
}

std::shared_ptr<detail::WorldState> whole_world(const Meeting& meeting, const WorldOptions& given) {
    const auto options = detail::settled(given);
    const auto met = detail::meet(meeting);
    if (!meeting.size) check_announced("gloo", met.size);
    auto state =
        std::make_shared<detail::GlooWorld>(rendezvous_of(met, options.deadline), met.interface, options);
    state->log(
        detail::cat("rank ", met.rank),
        detail::cat("meets by ", met.text(), state->address().empty() ? "" : ", on ", state->address()));
    return state;
}

}  // namespace

bool is_built() { return true; }

World::World(const Meeting& meeting, const WorldOptions& options)
    : rankmesh::World(whole_world(meeting, options)) {}

}  // namespace rankmesh::gloo
