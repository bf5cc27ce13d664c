// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {
namespace {

/// `which` is the rest of `member["`.
[[noreturn]] void throw_several(const MemberState& state, std::string_view which) {
    const auto names =
        joined(state.mesh_entries, ", ", [](const auto& each) { return cat("'", each.mesh.name, "'"); });
    throw UsageError(cat("the plan has ", state.mesh_entries.size(), " meshes (", names,
                         "); say which, as in member[\"", which));
}

/// True if a mesh has indices along `name`: its axis, or its local ranks.
bool has_index(const MeshEntry& mesh_entry, std::string_view name) {
    return mesh_entry.mesh.mesh.find(name) || local_group_entry(mesh_entry, name);
}

/// True if a mesh may have a communicator of that name: of an axis, a pick, a set with its own channel or
/// local ranks.
bool has_communicator(const MeshEntry& mesh_entry, std::string_view name) {
    const auto is_named = [&](const MeshEntry::GroupEntry& group_entry) {
        return group_entry.item.name == name;
    };
    return mesh_entry.mesh.mesh.find(name) ||
           (!name.empty() && std::ranges::any_of(mesh_entry.group_entries, is_named));
}

/// The mesh entry that a call with `names` is about; throws UsageError if it lacks what another mesh of the
/// plan `has`, with the call to make there, which `call` writes.
template <class Has, class Call>
MeshEntry& find_mesh(const std::shared_ptr<MemberState>& state, int mesh, Names names, Has has, Call call) {
    const auto has_all = [&](const MeshEntry& mesh_entry) {
        return std::ranges::all_of(names, [&](auto name) { return has(mesh_entry, name); });
    };
    if (state && mesh < 0)
        for (const auto& mesh_entry : state->mesh_entries)
            if (has_all(mesh_entry)) throw_several(*state, cat(mesh_entry.mesh.name, "\"].", call()));
    auto& mesh_entry = mesh_of(state, mesh);
    for (auto name : names) {
        if (has(mesh_entry, name)) continue;
        for (const auto& other : state->mesh_entries)
            if (has(other, name))
                throw UsageError(cat(
                    "mesh '", mesh_entry.mesh.name, "' (", mesh_entry.mesh.text, ") has no ",
                    other.mesh.mesh.find(name) ? "axis '"
                                               : "pick, separate communicator or set of local ranks named '",
                    name, "'; mesh '", other.mesh.name, "' has it",
                    has_all(other) ? cat(": member[\"", other.mesh.name, "\"].", call()) : ""));
        break;  // no mesh has it
    }
    return mesh_entry;
}

}  // namespace

MemberState& valid(const std::shared_ptr<MemberState>& state) {
    return state ? *state : throw UsageError("this member was moved from");
}

std::string quoted(Names names) {
    return joined(names, ", ", [](auto name) { return cat("\"", name, "\""); });
}

std::string there_is(std::string_view word, const std::vector<std::string_view>& known) {
    const auto near = did_you_mean(word, known);
    return near.empty() ? cat("; it has ", with_commas(known)) : near;
}

MeshEntry& mesh_of(const std::shared_ptr<MemberState>& state, int mesh) {
    if (mesh >= 0) return valid(state).mesh_entries[static_cast<std::size_t>(mesh)];
    throw_several(valid(state), cat(state->mesh_entries.front().mesh.name, "\"]"));
}

MeshEntry& mesh_along(const std::shared_ptr<MemberState>& state, int mesh, std::string_view axis,
                      std::string_view call, std::string_view more) {
    return find_mesh(state, mesh, Names(&axis, 1), has_index,
                     [&] { return cat(call, "(\"", axis, "\"", more, ")"); });
}

MeshEntry& mesh_with(const std::shared_ptr<MemberState>& state, int mesh, Names names,
                     std::string_view call) {
    return find_mesh(state, mesh, names, has_communicator,
                     [&] { return cat(call, "(", quoted(names), ")"); });
}

MeshEntry& mesh_at(const std::shared_ptr<MemberState>& state, int mesh, const Coordinate& coordinate) {
    auto names = std::vector<std::string_view>{};
    for (int i = 0; i < coordinate.size(); ++i) names.push_back(coordinate.name(i));
    const auto has_axis = [](const MeshEntry& mesh_entry, std::string_view name) {
        return mesh_entry.mesh.mesh.find(name).has_value();
    };
    return find_mesh(state, mesh, names, has_axis, [] { return "rank_at(...)"; });
}

int position_in(const MemberState& state, const MeshEntry& mesh_entry) {
    if (!mesh_entry.mesh_position)
        throw UsageError(cat("rank ", state.world->rank(), " is outside mesh ",
                             to_string(mesh_entry.mesh.mesh), "; ask inside() first"));
    return *mesh_entry.mesh_position;
}

const MeshEntry::GroupEntry* local_group_entry(const MeshEntry& mesh_entry, std::string_view name) {
    for (const auto& group_entry : mesh_entry.group_entries)
        if (group_entry.item.local && group_entry.item.name == name) return &group_entry;
    return nullptr;
}

MeshEntry::GroupEntry* group_entry_of(MeshEntry& mesh_entry, Names names) {
    const auto& mesh = mesh_entry.mesh.mesh;
    if (names.size() == 1 && !mesh.find(names[0])) {
        for (auto& group_entry : mesh_entry.group_entries)
            if (!names[0].empty() && group_entry.item.name == names[0]) return &group_entry;
        auto known = std::vector<std::string_view>{};
        for (int a = 0; a < mesh.axis_count(); ++a) known.push_back(mesh.name(AxisId{a}));
        for (const auto& group_entry : mesh_entry.group_entries)
            if (!group_entry.item.name.empty()) known.push_back(group_entry.item.name);
        throw UsageError(cat("mesh ", to_string(mesh),
                             " has no axis, pick, separate communicator or set of local ranks named '",
                             names[0], "'", there_is(names[0], known)));
    }
    auto axes = AxisSet{};
    for (auto name : names) axes.insert(mesh.axis(name));
    for (auto& group_entry : mesh_entry.group_entries)
        if (group_entry.item.axes == axes && group_entry.item.name.empty()) return &group_entry;
    return nullptr;
}

MeshEntry::GroupEntry& declared(MeshEntry& mesh_entry, Names names) {
    if (auto* group_entry = group_entry_of(mesh_entry, names)) return *group_entry;
    const auto& mesh = mesh_entry.mesh.mesh;
    if (names.empty())
        throw UsageError(cat("no axis is given; name at least one axis of mesh ", to_string(mesh),
                             ", such as \"", mesh.name(AxisId{0}), "\""));
    if (names.size() == 1) {
        const auto axes = in_python("axes", ".axes");
        throw UsageError(cat("axis '", names[0], "' of mesh ", to_string(mesh), " was left out of ", axes,
                             "; add it there, or leave ", axes, " away"));
    }
    throw UsageError(cat("'", joined(names, ","), "' of mesh ", to_string(mesh), " was not declared; add ",
                         in_python("over=[(", ".over = {{"), quoted(names), in_python(")]", "}}"),
                         " to the declaration"));
}

}  // namespace rankmesh::detail
