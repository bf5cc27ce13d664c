// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <rankmesh/engine/mpi.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/launcher.hpp"
#include "engine/threads/world.hpp"

namespace rankmesh {

namespace detail {

std::optional<Announced> announced_size() {
    for (const auto* name :
         {"RANKMESH_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"}) {
        const auto* given = std::getenv(name);
        if (!given) continue;
        const auto text = std::string_view(given);
        auto size = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
        if (error != std::errc{} || end != text.data() + text.size() || size < 1)
            throw Misuse(cat(name, "='", text,
                             "' is no size of a world; set it to the number of processes, or unset it"));
        return Announced{size, name};
    }
    return std::nullopt;
}

bool started_by_mpi_launcher() { return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"); }

void check_announced(const std::string& engine, int seen) {
    const auto announced = announced_size();
    if (!announced || announced->size == seen) return;
    throw Misuse(cat("the launcher announced ", announced->size,
                     announced->size == 1 ? " process (" : " processes (", announced->variable,
                     "), but the engine '", engine, "' sees a world of ", seen,
                     "; start with the launcher of that engine, choose another with RANKMESH_ENGINE, or set "
                     "RANKMESH_WORLD_SIZE=",
                     seen, " if a world of ", seen, " is meant"));
}

namespace {

class AloneWorld : public World {
public:
    explicit AloneWorld(const WorldOptions& options)
        : World(std::make_shared<ThreadsWorld>(std::make_shared<Job>(1), 0, options)) {
        check_announced("threads", 1);
    }
};

}  // namespace
}  // namespace detail

World World::from_environment(int argc, char** argv, const WorldOptions& options) {
    auto engine = options.engine;
    if (engine.empty())
        if (const auto* chosen = std::getenv("RANKMESH_ENGINE")) engine = chosen;
    if (engine.empty()) engine = mpi::is_built() && detail::started_by_mpi_launcher() ? "mpi" : "threads";

    if (engine == "mpi") return mpi::World(argc, argv, options);
    if (engine == "threads") return detail::AloneWorld(options);
    throw Misuse(detail::cat("no engine is named '", engine, "'", did_you_mean(engine, {"threads", "mpi"}),
                             "; there are 'threads' and 'mpi'"));
}

}  // namespace rankmesh
