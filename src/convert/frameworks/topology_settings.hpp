// SPDX-License-Identifier: Apache-2.0
// The settings of a ProcessTopology, DeepSpeed's and AReaL's.
#pragma once

#include "convert/frameworks.hpp"

namespace rankmesh::conversion {

struct TopologySettings {
    std::vector<std::string> axes;
    std::vector<int> dims;
};

/// `axes=[...] dims=[...]`, or `pipe=2 data=2` in their order; throws UsageError for sizes that make another
/// world.
TopologySettings topology_of(Settings& settings, std::optional<int> world, std::string_view tensor);
/// The topology of that mesh; throws UsageError where the world has another size.
Arrangement of_topology(const Mesh& mesh, Settings& settings, std::optional<int> world);
/// `ProcessTopology(axes=[...], dims=[...])` of these axes; `tensor` is what the axis tp is called.
Document topology_document(const Mesh& mesh, const std::vector<std::string>& order, std::string_view tensor);

}  // namespace rankmesh::conversion
