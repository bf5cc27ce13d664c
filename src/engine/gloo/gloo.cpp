// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/gloo.hpp>

#include <gloo/config.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <rankmesh/engine/launcher.hpp>

#include "engine/fork.hpp"
#include "engine/gloo/world.hpp"
#include "engine/membership/failover.hpp"
#include "engine/membership/open_store.hpp"
#include "engine/membership/pmix_rendezvous.hpp"
#include "engine/membership/rendezvous_config.hpp"
#include "engine/membership/store_rendezvous.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::string gloo_library() {
    return cat("Gloo ", GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH);
}

}  // namespace rankmesh::detail

namespace rankmesh::gloo {
namespace {

using Clock = std::chrono::steady_clock;

/// How many worlds this process has made as that rank of the job before, which this call increments: all
/// ranks count the same.
int next_world(const detail::RendezvousConfig& config) {
    using Made = std::map<std::tuple<std::string, std::string, int>, int>;
    static auto* const made = new Made;  // never destroyed: threads may outlive what is
    const auto lock = std::lock_guard(detail::process_mutex());
    return (*made)[{config.store, config.job, config.rank}]++;
}

/// The rendezvous of all ranks, and what a user must know of it besides its configuration.
std::pair<std::unique_ptr<detail::Rendezvous>, std::string> rendezvous_of(
    const detail::RendezvousConfig& config, detail::Duration timeout) {
    if (config.pmix) return {std::make_unique<detail::PmixRendezvous>(config.pmix, timeout), ""};
    const auto world = config.size > 1 ? next_world(config) : 0;
    const auto store = detail::open_store(config, world == 0, detail::from_now(timeout));
    auto rendezvous =
        std::make_unique<detail::StoreRendezvous>(store, config.rank, config.size, timeout, world);
    const auto failover = detail::FailoverStore::of(store);
    auto second = failover ? failover->check(*rendezvous) : std::string{};
    return {std::move(rendezvous), std::move(second)};
}

std::shared_ptr<detail::WorldState> whole_world(const RendezvousOptions& rendezvous,
                                                const WorldOptions& given) {
    const auto options = detail::settled(given);
    const auto config = detail::resolve(rendezvous, options.timeout);
    if (!rendezvous.size) check_announced("gloo", config.size);
    auto [found, second] = rendezvous_of(config, options.timeout);
    auto state = std::make_shared<detail::GlooWorld>(std::move(found), config.interface, options);
    state->log(detail::cat("rank ", config.rank),
               detail::cat("rendezvous: ", config.text(), state->address().empty() ? "" : ", on ",
                           state->address(), second.empty() ? "" : "; ", second));
    return state;
}

/// True if no rank 0 has started in the store's job; false also where the store does not answer soon.
bool lacks_rank_zero(detail::Store& store) {
    try {
        const auto found =
            store.get({"claim.0", detail::failed_over}, detail::from_now(std::chrono::milliseconds(500)));
        return !found[0] && !found[1];
    } catch (const Error&) {
        return false;
    }
}

std::shared_ptr<detail::WorldState> entered_world(const RendezvousOptions& rendezvous,
                                                  const WorldOptions& given) {
    auto options = detail::settled(given);
    const auto config = detail::resolve_entering(rendezvous);
    const auto until = detail::from_now(options.timeout);
    auto store = detail::open_store_to_enter(config, until);
    auto left = options.timeout;
    auto grown = detail::Rendezvous::Grown{};
    while (!grown.rendezvous) {
        try {
            grown = detail::StoreRendezvous::rejoin(
                store, config.rank < 0 ? std::nullopt : std::optional(config.rank),
                detail::GlooWorld::about_this_process(config.interface), left);
        } catch (const detail::ServerLost&) {
            if (!detail::FailoverStore::of(store)) throw;
            left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
            if (left <= left.zero()) throw;
            store = detail::open_store_to_enter(config, until);  // the second, once the ranks are there
        } catch (const Timeout& timeout) {
            if (!lacks_rank_zero(*store)) throw;
            throw Timeout(detail::cat(timeout.what(),
                                      "; no rank 0 has started in that job: give this process the "
                                      "RANKMESH_STORE and RANKMESH_JOB of its ranks"),
                          {}, {});
        }
    }
    options.checked = grown.world.common == "1";  // as all others have it
    auto state = std::make_shared<detail::GlooWorld>(std::move(grown), config.interface, options);
    state->log(detail::cat("rank ", state->exchange().rank()),
               detail::cat("has entered the job '", config.job, "' in the store '", config.store, "', on ",
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
