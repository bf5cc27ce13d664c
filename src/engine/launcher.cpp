// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/launcher.hpp>

#include <cstdlib>
#include <initializer_list>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "engine/environment.hpp"

namespace rankmesh {

using detail::cat;

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
