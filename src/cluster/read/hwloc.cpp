// SPDX-License-Identifier: Apache-2.0
// This machine from hwloc, through hwloc's XML export.
#include <hwloc.h>

#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

std::optional<Levels> see_hwloc() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) return std::nullopt;
    auto xml = std::string{};
    char* buffer = nullptr;
    auto length = 0;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) == 0 &&
        hwloc_topology_export_xmlbuffer(topology, &buffer, &length, 0) == 0) {
        xml = buffer;
        hwloc_free_xmlbuffer(topology, buffer);
    }
    hwloc_topology_destroy(topology);
    if (xml.empty()) return std::nullopt;
    return read_hwloc({xml, "hwloc"});
}

}  // namespace rankmesh::cluster_files
