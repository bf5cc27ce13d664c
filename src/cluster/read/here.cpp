// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <optional>

#include "cluster/read/formats.hpp"
#include "cluster/read/read.hpp"

#include <rankmesh/core/error.hpp>

namespace rankmesh::cluster_files {

namespace {

/// Returns Slurm's variables for the tasks of each node as text; nullopt if they are not set.
std::optional<std::string> slurm_variables() {
    auto text = std::string{};
    auto nodes = false;
    auto tasks = false;
    for (auto** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const auto variable = std::string_view(*entry);
        if (!variable.starts_with("SLURM_") || variable.find('\n') != std::string_view::npos) continue;
        nodes = nodes || variable.find("_NODELIST=") != std::string_view::npos;
        tasks = tasks || variable.find("TASKS_PER_NODE=") != std::string_view::npos;
        text.append(variable).append("\n");
    }
    return nodes && tasks ? std::optional(text) : std::nullopt;
}

}  // namespace

Seen see_here() {
    if (const auto variables = slurm_variables())
        return {read(*variables, "the environment", "slurm-env"), "SLURM_JOB_NODELIST"};
    if (auto levels = see_nvml()) return {Cluster(std::move(*levels)), "NVML"};
    if (auto levels = see_hwloc()) return {Cluster(std::move(*levels)), "hwloc"};
    throw UsageError(
        "the machines cannot be detected here: there is no Slurm job and no NVIDIA driver, and this build "
        "has no hwloc; give CLUSTER, such as 'node:32 gpu:8'");
}

}  // namespace rankmesh::cluster_files
