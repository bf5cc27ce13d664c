// SPDX-License-Identifier: Apache-2.0
#include "engine/environment.hpp"

#include <cstdlib>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/mpi.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/lone_world.hpp"
#include "engine/rendezvous/rendezvous_config.hpp"

namespace rankmesh {
namespace {

/// True if this process was started as MPI programs are.
bool started_by_mpi_launcher() { return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"); }

/// True if a launcher has started this process, and a rendezvous is known.
bool can_use_gloo() { return gloo::is_built() && detail::has_rendezvous() && announced_size(); }

/// The engine for a process that does not name one.
std::string chosen() {
    if (mpi::is_built() && started_by_mpi_launcher()) return "mpi";
    return can_use_gloo() ? "gloo" : "threads";
}

}  // namespace

std::string detail::engine_of(const WorldOptions& options) {
    if (!options.engine.empty()) return options.engine;
    const auto* named = std::getenv("RANKMESH_ENGINE");
    return named && *named ? named : chosen();
}

World World::from_environment(int argc, char** argv, const WorldOptions& options) {
    const auto engine = detail::engine_of(options);
    if (engine == "mpi") return mpi::World(argc, argv, options);
    if (engine == "gloo") return gloo::World(options);
    if (engine != "threads")
        throw UsageError(detail::cat("no engine is named ", detail::in_quotes(engine),
                                     did_you_mean(engine, {"threads", "mpi", "gloo"}),
                                     "; there are 'threads', 'mpi' and 'gloo'"));
    check_announced(engine, 1);
    return detail::lone_world(options);
}

}  // namespace rankmesh
