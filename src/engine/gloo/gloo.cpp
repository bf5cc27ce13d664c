// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include <gloo/config.h>

#include <tuple>

#include <rankmesh/engine/launcher.hpp>

#include "engine/fork.hpp"
#include "engine/gloo/world.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/membership/rendezvous_config.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::string gloo_library() {
    return cat("Gloo ", GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH);
}

}  // namespace rankmesh::detail

namespace rankmesh::gloo {
namespace {

/// How many worlds this process has made as that rank of the job before, which this call increments: all
/// ranks count the same.
int next_world(const detail::RendezvousConfig& config) {
    using Made = std::map<std::tuple<std::string, std::string, int>, int>;
    static auto* const made = new Made;  // never destroyed: threads may outlive what is
    const auto lock = std::lock_guard(detail::process_mutex());
    return (*made)[{config.store, config.job, config.rank}]++;
}

std::shared_ptr<detail::WorldState> whole_world(const RendezvousOptions& where, const WorldOptions& given) {
    const auto options = detail::settled(given);
    const auto config = detail::resolve(where);
    if (!where.size) check_announced("gloo", config.size);
    auto rendezvous =
        std::make_unique<detail::Rendezvous>(detail::open_store(config), config.rank, config.size,
                                             options.timeout, config.size > 1 ? next_world(config) : 0);
    auto state = std::make_shared<detail::GlooWorld>(std::move(rendezvous), config.interface, options);
    state->log(detail::cat("rendezvous: ", config.text(), state->address().empty() ? "" : ", on ",
                           state->address()));
    return state;
}

/// True if no rank 0 has started in the store's job; false also where the store does not answer soon.
bool lacks_rank_zero(detail::Store& store) {
    try {
        return !store.get({"claim.0"}, detail::from_now(std::chrono::milliseconds(500))).front();
    } catch (const Error&) {
        return false;
    }
}

std::shared_ptr<detail::WorldState> entered_world(const RendezvousOptions& rendezvous,
                                                  const WorldOptions& given) {
    auto options = detail::settled(given);
    const auto config = detail::resolve_entering(rendezvous);
    const auto store = detail::open_store(config);
    auto grown = detail::Rendezvous::Grown{};
    try {
        grown = detail::Rendezvous::rejoin(store, config.rank < 0 ? std::nullopt : std::optional(config.rank),
                                           detail::GlooWorld::about_this_process(config.interface),
                                           options.timeout);
    } catch (const Timeout& timeout) {
        if (!lacks_rank_zero(*store)) throw;
        throw Timeout(detail::cat(timeout.what(),
                                  "; no rank 0 has started in that job: give this process the "
                                  "RANKMESH_STORE and RANKMESH_JOB of its ranks"),
                      {}, {});
    }
    options.checked = grown.world.common == "1";  // as all others have it
    auto state = std::make_shared<detail::GlooWorld>(std::move(grown), config.interface, options);
    state->log(detail::cat("has entered the job '", config.job, "' in the store '", config.store, "', on ",
                           state->address()));
    return state;
}

}  // namespace

bool is_built() { return true; }

World::World(const RendezvousOptions& rendezvous, const WorldOptions& options)
    : World(whole_world(rendezvous, options)) {}

World World::rejoin(const RendezvousOptions& rendezvous, const WorldOptions& options) {
    return World(entered_world(rendezvous, options));
}

}  // namespace rankmesh::gloo
