// SPDX-License-Identifier: Apache-2.0
// The settings of a ProcessTopology, DeepSpeed's and AReaL's.
#pragma once

#include <rankmesh/frameworks/topology.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

/// The sizes of a topology's function by the axes that they make, outermost first: {"pipe", "num_pp"}.
using SizesOfAxes = std::vector<std::pair<std::string, std::string_view>>;

/// True if one of these sizes is given.
bool has_sizes(Settings& settings, const SizesOfAxes& sizes);
/// The topology of these sizes; throws UsageError where the world has another size.
Arrangement topology_of_sizes(Settings& settings, const SizesOfAxes& sizes, std::optional<int> world);
using AxesAndDims = std::pair<std::vector<std::string>, std::vector<int>>;
/// The topology of `axes=[...] dims=[...]`, or of `pipe=2 data=2` in their order; `tensor` is what the axis
/// tp is called. Throws UsageError for sizes that make another world.
AxesAndDims topology_of(Settings& settings, std::optional<int> world, std::string_view tensor);

/// The dense axes of an arrangement. All data-parallel axes are joined into `dp`.
Mesh dense_of(const Arrangement& arrangement);
/// `ProcessTopology(axes=[...], dims=[...])` of these axes.
Document topology_document(const Mesh& mesh, const std::vector<std::string>& order, std::string_view tensor);

}  // namespace rankmesh::conversion
