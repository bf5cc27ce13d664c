// SPDX-License-Identifier: Apache-2.0
// What this process sees of its machines: variables of batch systems, and the GPUs of NVIDIA's driver, whose
// library is loaded if it exists.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "cluster/read/formats.hpp"
#include "cluster/read/read.hpp"
#include "formats/file.hpp"

namespace rankmesh::cluster_files {

namespace of_nvml {

using Device = void*;

/// The library; initialised as long as this object lives.
class Nvml {
public:
    Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
        started_ = call<int()>("nvmlInit_v2").value_or(-1) == 0;
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml() {
        if (started_) call<int()>("nvmlShutdown");
        if (library_ != nullptr) dlclose(library_);
    }

    bool is_started() const { return started_; }

    /// Calls a function of the library and returns its result, 0 for success; nullopt if the function does
    /// not exist.
    template <class Function, class... Values>
    std::optional<int> call(const char* name, Values... values) const {
        if (library_ == nullptr) return std::nullopt;
        auto* found = dlsym(library_, name);
        if (found == nullptr) return std::nullopt;
        return reinterpret_cast<Function*>(found)(values...);
    }

private:
    void* library_;
    bool started_ = false;
};

}  // namespace of_nvml

std::optional<Levels> see_nvml() {
    using namespace of_nvml;
    constexpr auto most = 1024U;
    constexpr auto nvlink = 2;  // of nvmlGpuP2PCapsIndex_t
    const auto nvml = Nvml();
    if (!nvml.is_started()) return std::nullopt;
    auto count = 0U;
    if (nvml.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) != 0 || count == 0 || count > most)
        return std::nullopt;
    auto devices = std::vector<Device>(count);
    for (auto i = 0U; i < count; ++i)
        if (nvml.call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &devices[i]) != 0)
            return std::nullopt;
    auto distances = std::vector<std::vector<int>>(count, std::vector<int>(count));
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < i; ++j) {
            auto status = -1;
            auto ancestor =
                50;  // of nvmlGpuTopologyLevel_t: 10 a PCIe switch, 20, 30, 40, 50 between NUMA nodes
            const auto linked = nvml.call<int(Device, Device, int, int*)>(
                                    "nvmlDeviceGetP2PStatus", devices[i], devices[j], nvlink, &status) == 0 &&
                                status == 0;
            if (!linked && nvml.call<int(Device, Device, int*)>("nvmlDeviceGetTopologyCommonAncestor",
                                                                devices[i], devices[j], &ancestor) != 0)
                return std::nullopt;
            distances[i][j] = distances[j][i] = linked ? 0 : std::clamp(ancestor / 10, 1, 5);
        }
    return levels_of_gpus({{}, "NVML"}, distances);
}

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
