// SPDX-License-Identifier: Apache-2.0
#include "engine/environment.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/launcher.hpp>

#include "engine/diagnosis/failure.hpp"
#include "engine/engines.hpp"

namespace rankmesh {

using detail::cat;
namespace {

/// The engine for a process that does not name one.
std::string_view chosen() {
    const auto all = detail::engines();
    const auto found =
        std::ranges::find_if(all, [](const auto& engine) { return engine.started && engine.started(); });
    return found == all.end() ? all.front().name : found->name;
}

}  // namespace

std::string detail::engine_of(const WorldOptions& options) {
    if (!options.engine.empty()) return options.engine;
    const auto* named = std::getenv("RANKMESH_ENGINE");
    return named && *named ? named : std::string(chosen());
}

void detail::tell_unused(std::string_view engine) {
    static auto told = std::atomic<bool>{false};
    const auto has_store = [&](const Engine& each) { return each.name == engine && each.rejoin; };
    if (std::ranges::any_of(engines(), has_store) || told.exchange(true)) return;
    auto found = std::vector<std::string>{};
    for (const auto* name :
         {"RANKMESH_STORE", "RANKMESH_JOB", "RANKMESH_SECRET", "RANKMESH_SECRET_FILE", "RANKMESH_REDIS_USER",
          "RANKMESH_REDIS_PASSWORD", "RANKMESH_REDIS_PASSWORD_FILE", "RANKMESH_INTERFACE"})
        if (std::getenv(name)) found.emplace_back(name);
    if (found.empty()) return;
    const auto line = cat("rankmesh: ", listed(found), found.size() > 1 ? " have" : " has",
                          " no effect on the engine '", engine, "'\n");
    std::fputs(line.c_str(), stderr);
}

bool is_launched(std::string_view engine) {
    return detail::engine_of({.engine = std::string(engine)}) != "threads" || announced_size();
}

World World::from_environment(int argc, char** argv, const WorldOptions& options) {
    const auto asked = detail::engine_of(options);
    auto names = std::vector<std::string_view>{};
    auto quoted = std::vector<std::string>{};
    for (const auto& engine : detail::engines()) {
        if (!engine.create) continue;
        if (engine.name == asked) return engine.create(argc, argv, options);
        names.push_back(engine.name);
        quoted.push_back(cat("'", engine.name, "'"));
    }
    throw UsageError(cat("no engine is named ", detail::in_quotes(asked), did_you_mean(asked, names),
                         "; there are ", detail::listed(quoted)));
}

World World::rejoin(const WorldOptions& options) {
    const auto* named = std::getenv("RANKMESH_ENGINE");
    const auto asked = !options.engine.empty() ? options.engine : named ? std::string(named) : "";
    for (const auto& engine : detail::engines())
        if (engine.rejoin && (asked.empty() || engine.name == asked)) return engine.rejoin(options);
    throw UsageError(cat("no process enters a running world on the engine ", detail::in_quotes(asked), "; ",
                         detail::what_grows));
}

std::optional<Announced> detail::number_in_environment(std::initializer_list<const char*> variables,
                                                       int least) {
    for (const auto* variable : variables) {
        const auto* given = std::getenv(variable);
        if (!given) continue;
        const auto text = std::string_view(given);
        const auto value = number_in(text);
        if (!value || *value < least)
            throw UsageError(cat(variable, "=", detail::in_quotes(text), " is not a whole number of ", least,
                                 " or more; set it to one, or unset it"));
        return Announced{*value, variable};
    }
    return std::nullopt;
}

bool detail::is_of_torchrun() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr; }

std::optional<Announced> announced_size() {
    if (detail::is_of_torchrun())
        if (auto size = detail::number_in_environment({"RANKMESH_WORLD_SIZE", "WORLD_SIZE"}, 1)) return size;
    return detail::number_in_environment(
        {"RANKMESH_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"}, 1);
}

std::optional<Announced> announced_rank() {
    if (detail::is_of_torchrun())
        if (auto rank = detail::number_in_environment({"RANK"}, 0)) return rank;
    return detail::number_in_environment({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}, 0);
}

void check_announced(const std::string& engine, int seen) {
    const auto announced = announced_size();
    if (!announced || announced->value == seen) return;
    throw UsageError(cat(
        "the launcher announced ", announced->value, announced->value == 1 ? " process (" : " processes (",
        announced->variable, "), but the engine '", engine, "' sees a world of ", seen,
        "; start with the launcher of that engine, choose another with RANKMESH_ENGINE, or set "
        "RANKMESH_WORLD_SIZE=",
        seen, " if a world of ", seen, " is meant"));
}

}  // namespace rankmesh
