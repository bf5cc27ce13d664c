// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "cluster/read/formats.hpp"
#include "cluster/read/read.hpp"

#include <rankmesh/core/error.hpp>

#include "formats/file.hpp"

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;

namespace {

/// Returns the variables of a batch system as text, if they have hosts and tasks.
std::optional<std::string> variables(std::string_view prefix, std::string_view hosts,
                                     std::string_view tasks) {
    auto text = std::string{};
    auto has_hosts = false;
    auto has_tasks = false;
    for (auto** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const auto variable = std::string_view(*entry);
        if (!variable.starts_with(prefix) || variable.find('\n') != std::string_view::npos) continue;
        has_hosts = has_hosts || variable.find(hosts) != std::string_view::npos;
        has_tasks = has_tasks || variable.find(tasks) != std::string_view::npos;
        text.append(variable).append("\n");
    }
    return has_hosts && has_tasks ? std::optional(text) : std::nullopt;
}

}  // namespace

Seen see_here() {
    if (const auto of = variables("SLURM_", "_NODELIST=", "TASKS_PER_NODE="))
        return {read(*of, "the environment", "slurm-env"), "SLURM_JOB_NODELIST"};
    if (const auto of = variables("LSB_", "HOSTS=", ""))
        return {read(*of, "the environment", "lsf-env"), "LSB_MCPU_HOSTS"};
    if (const auto* path = std::getenv("PBS_NODEFILE"); path != nullptr && *path != '\0') {
        const auto hosts = formats::content_of(path, cat("the file ", in_quotes(path), " of PBS_NODEFILE"));
        if (lines_of(hosts).size() > 1) return {read(hosts, path, "hostfile"), "PBS_NODEFILE"};
    }
    if (auto levels = see_nvml()) return {Cluster(std::move(*levels)), "NVML"};
    if (auto levels = see_hwloc()) return {Cluster(std::move(*levels)), "hwloc"};
    throw UsageError(
        "the machines cannot be detected here: there is no job of Slurm, LSF or PBS and no NVIDIA driver, "
        "and this build has no hwloc; give CLUSTER, such as 'node:32 gpu:8'");
}

}  // namespace rankmesh::cluster_files
