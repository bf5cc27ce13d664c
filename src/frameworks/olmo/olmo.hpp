// SPDX-License-Identifier: Apache-2.0
// What the rows of OLMo-core and the answers about any mesh and pipeline share.
#pragma once

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_olmo {

using Names = std::vector<std::string>;

/// A dimension of a mesh: its name and size.
using Dimension = std::pair<const char*, int>;
DeviceMesh mesh_of(const std::vector<Dimension>& dimensions, int rank, int world_size);

/// The word that an option or a setting gives. Throws Error, with the word between these texts, if it is not
/// one of them.
const std::string& known(const Given& given, const char* name, std::initializer_list<std::string_view> words,
                         std::string_view before, std::string_view after = "'");

/// `num_nodes` or what `local_world_size` makes of the world, else what the environment says.
int num_nodes(const Given& given);
/// The replicas, and the shards of each: one replica a node if neither is given.
std::pair<int, int> replicas_and_shards(const Given& given, int dp_world_size);
[[noreturn]] void throw_no_data_parallel();

/// The world mesh of this rank, with its data-parallel dimensions flattened to `dp`.
const DeviceMesh& world_mesh(const State& state);
/// The mesh that the option `device_mesh` gives, else the world mesh.
DeviceMesh mesh_in(const State& state, const Given& options);

inline Setting optional(const char* name) { return {name, Type::maybe_number}; }

std::vector<AccessorRow> of_meshes();

}  // namespace rankmesh::frameworks::of_olmo
