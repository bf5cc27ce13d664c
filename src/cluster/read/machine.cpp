// SPDX-License-Identifier: Apache-2.0
// Descriptions of one machine in XML, from hwloc and NCCL.
#include <array>

#include "cluster/read/xml.hpp"

namespace rankmesh::cluster_files {

namespace of_machine {

/// The package and NUMA node of a device; -1: none.
struct Place {
    int package = -1;
    int numa = -1;
};

/// Finds cores and GPUs in hwloc's XML.
class Hwloc {
public:
    void visit(const Element& element, Place place) {
        if (element.name == "object") {
            if (element["type"] == "Package") place.package = packages_++;
            const auto memory = std::ranges::any_of(element.inside, [](const Element& inside) {
                return inside.name == "object" && inside["type"] == "NUMANode";
            });
            if (memory) place.numa = numas_++;
            if (element["type"] == "Core") cores.push_back(place);
            if (element["type"] == "PCIDev" && is_gpu(element)) gpus.push_back(place);
        }
        for (const auto& inside : element.inside) visit(inside, place);
    }

    std::vector<Place> cores;
    std::vector<Place> gpus;

private:
    /// Returns true for a device that CUDA, ROCm, Level Zero or OpenCL can use.
    static bool is_gpu(const Element& device) {
        return std::ranges::any_of(device.inside, [](const Element& inside) {
            constexpr auto names = std::array<std::string_view, 5>{"cuda", "nvml", "rsmi", "ze", "opencl"};
            return inside.name == "object" && inside["type"] == "OSDev" &&
                   std::ranges::any_of(names, [&](auto name) { return inside["name"].starts_with(name); });
        });
    }

    int packages_ = 0;
    int numas_ = 0;
};

/// Finds GPUs in NCCL's XML, each with its number and place.
struct Nccl {
    struct Gpu {
        int host = 0;
        int cpu = 0;
        int number = 0;
        int line = 0;
    };

    /// Files of clouds have the GPUs only as PCI devices of these classes, by their bus.
    static bool is_display(const Element& element) {
        return element.name == "pci" && element["class"].starts_with("0x03");
    }

    void visit(const Text& text, const Element& element, int host, int cpu) {
        if (element.name == "cpu") {
            cpu = cpus++;
            const auto hash = std::string(element["host_hash"]);
            host = hosts.emplace(hash, static_cast<int>(hosts.size())).first->second;
        }
        if (element.name == "gpu") {
            if (element["dev"].empty()) text.fail(element.line, "<gpu> has no dev=, its number");
            gpus.push_back(
                {host, cpu, number_of(text, element.line, element["dev"], "dev", 0), element.line});
        }
        if (is_display(element)) displays.emplace_back(element["busid"], Gpu{host, cpu, 0, element.line});
        for (const auto& inside : element.inside) visit(text, inside, host, cpu);
    }

    /// Numbers GPUs that have no <gpu> in the order of their buses, as CUDA does for equal GPUs.
    void count_displays() {
        std::ranges::stable_sort(displays, {}, [](const auto& display) { return display.first; });
        for (auto& [bus, gpu] : displays) {
            gpu.number = static_cast<int>(gpus.size());
            gpus.push_back(gpu);
        }
    }

    std::map<std::string, int> hosts = {};
    int cpus = 0;
    std::vector<Gpu> gpus = {};
    std::vector<std::pair<std::string, Gpu>> displays = {};
};

}  // namespace of_machine

Levels read_hwloc(const Text& text) {
    using namespace of_machine;
    const auto topology = parse_xml(text);
    if (topology.name != "topology")
        text.fail(topology.line,
                  cat("is XML of ", in_quotes(topology.name), ", but XML of hwloc begins with <topology"));
    if (!topology["version"].starts_with("2."))
        text.fail(topology.line,
                  "is XML of hwloc 1, which is not supported; write it with lstopo of hwloc 2");
    auto found = Hwloc{};
    found.visit(topology, {});
    const auto& devices = found.gpus.empty() ? found.cores : found.gpus;
    if (devices.empty()) text.fail(topology.line, "has no object of type Core, and no GPU");
    auto package = Division{"package", {}};
    auto numa = Division{"numa", {}};
    for (const auto& place : devices) {
        package.units.push_back(place.package);
        numa.units.push_back(place.numa);
    }
    return levels_of(text, {package, numa}, found.gpus.empty() ? "core" : "gpu",
                     static_cast<int>(devices.size()));
}

Levels read_nccl(const Text& text) {
    using namespace of_machine;
    const auto system = parse_xml(text);
    if (system.name != "system")
        text.fail(system.line,
                  cat("is XML of ", in_quotes(system.name), ", but XML of NCCL begins with <system"));
    auto found = Nccl{};
    found.visit(text, system, 0, 0);
    if (found.gpus.empty()) found.count_displays();
    if (found.gpus.empty()) text.fail(system.line, "has no <gpu>, and no <pci> of class 0x03");
    std::ranges::stable_sort(found.gpus, {}, [](const auto& gpu) { return std::pair(gpu.host, gpu.number); });
    auto node = Division{"node", {}};
    auto numa = Division{"numa", {}};
    for (std::size_t i = 0; i < found.gpus.size(); ++i) {
        const auto& gpu = found.gpus[i];
        if (i > 0 && found.gpus[i - 1].host == gpu.host && found.gpus[i - 1].number == gpu.number)
            text.fail(std::max(gpu.line, found.gpus[i - 1].line),
                      cat("<gpu> has dev ", gpu.number, ", as the one of line ",
                          std::min(gpu.line, found.gpus[i - 1].line), " has"));
        node.units.push_back(gpu.host);
        numa.units.push_back(gpu.cpu);
    }
    return levels_of(text, {node, numa}, "gpu", static_cast<int>(found.gpus.size()));
}

}  // namespace rankmesh::cluster_files
