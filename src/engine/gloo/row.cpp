// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/launcher.hpp>

#include "engine/engines.hpp"
#include "engine/gloo/descriptors.hpp"
#include "engine/membership/rendezvous_config.hpp"

namespace rankmesh::detail {

/// The Gloo that this build was compiled with; gloo.cpp has it, or absent/gloo.cpp.
std::string gloo_library();

Descriptors descriptors_of(std::span<const Connected> groups) {
    constexpr auto spare = 16;  // for files that are opened during join
    auto error = std::error_code{};
    const auto open = std::filesystem::directory_iterator("/proc/self/fd", error);
    auto found = Descriptors{.others = std::distance(open, {}) + spare};
    for (const auto& group : groups) found.connections += group.size - 1;
    auto limit = rlimit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        found.limit = static_cast<std::int64_t>(limit.rlim_cur);
    const auto need = found.others + found.connections;
    if (groups.empty() || !found.limit || need <= *found.limit) return found;
    const auto& largest = *std::ranges::max_element(groups, {}, &Connected::size);
    found.shortage = cat("the groups of a rank need ", found.connections, " connections, most of them ",
                         largest.label, " with ", largest.size - 1, "; with ", found.others,
                         " other descriptors that is beyond the limit of ", *found.limit, "; raise it to ",
                         need, " (ulimit -n), or declare fewer or smaller groups");
    return found;
}

namespace {

/// True if this process was started as one of several, or alone beside a store: also where something that
/// Gloo then asks for was forgotten, so that no process runs alone that was meant to be one of several.
bool started_for_gloo() {
    if (!gloo::is_built()) return false;
    const auto size = announced_size();
    if (size && (size->value > 1 || has_rendezvous())) return true;
    if (size && size->variable != "WORLD_SIZE") return false;  // RANKMESH_WORLD_SIZE=1 says that it is alone
    const auto* variable = std::getenv("RANK");
    const auto rank = number_in(variable ? variable : "");
    return rank && (*rank > 0 || !size || has_rendezvous());
}

EngineNeed need_of_gloo(const JoinCost& cost) {
    auto groups = std::vector<Connected>{};
    for (const auto& set : cost.sets)
        if (set.communicator == static_cast<int>(groups.size()))
            groups.push_back({set.label, set.group_size});
    const auto found = descriptors_of(groups);
    const auto limit = found.limit ? cat("; the limit on this host is ", *found.limit) : "";
    return {.engine = "gloo",
            .text = found.shortage.empty()
                        ? cat(counted(found.connections, "connection"), ", each a file descriptor", limit)
                        : found.shortage,
            .amounts = {{.of = "connections", .count = found.connections},
                        {.of = "other_descriptors", .count = found.others},
                        {.of = "descriptor_limit", .count = found.limit}},
            .fits = found.shortage.empty(),
            .by = JoinBy::store};
}

}  // namespace

Engine gloo_engine() {
    return {.name = "gloo",
            .library = gloo_library,
            .started = started_for_gloo,
            .create = [](int, char**, const WorldOptions& options) -> World { return gloo::World(options); },
            .rejoin = [](const WorldOptions& options) -> World { return gloo::World::rejoin({}, options); },
            .need = need_of_gloo};
}

}  // namespace rankmesh::detail
