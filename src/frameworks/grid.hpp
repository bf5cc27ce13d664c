// SPDX-License-Identifier: Apache-2.0
// What the grids of DeepSpeed and AReaL have in common: settings `axes` and `dims`, and answers over pipe and
// data.
#pragma once

#include <rankmesh/frameworks/topology.hpp>

#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_grid {

/// The kind of the groups that the original calls `NAME_proc_group`; a plan of several has short names.
KindRow kind(const std::string& name, const std::string& groups);
/// The groups over pipe, data and `slice`, the axis of tensor slices; those `on_host` are there twice.
std::vector<KindRow> kinds(const std::string& slice, bool on_host);
std::vector<AccessorRow> accessors();
/// Adds the groups of a replica, of data, of a pipeline and of slices, with their getters.
void add_groups(std::vector<AccessorRow>& rows, bool may_lack, const char* slice_getter);
/// Adds a method that answers what another accessor does.
void also(std::vector<AccessorRow>& rows, const std::string& name, std::string_view of);

/// Derives the sizes of a topology, whose number of ranks is the answer of `world_size`.
void derive(Given& given, const ProcessTopology& topology, std::string_view slice);
/// Lists ranks and groups in the order of the topology's axes.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds);
/// The number of ranks of `dims`.
std::optional<std::int64_t> ranks(const Given& given);
/// What `--as` shows besides.
std::vector<Call> calls(const Given& given);

inline const std::vector<std::string>& axes(const Given& given) {
    return std::get<std::vector<std::string>>(given.value("axes"));
}

}  // namespace rankmesh::frameworks::of_grid
