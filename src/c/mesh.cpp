// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/handles.hpp"

using namespace rankmesh;
using c::guarded;

namespace {

/// Returns the set of axes in a text such as "dp,cp".
AxisSet axes_of(const Mesh& mesh, std::string_view text) {
    auto axes = AxisSet{};
    for (auto name : c::names_of(text)) axes.insert(mesh.axis(name));
    return axes;
}

[[noreturn]] void throw_outside(std::string_view what, int given, std::string_view of, int size) {
    throw UsageError(detail::cat(what, " ", given, " of ", of, " was asked for; there are 0..", size - 1));
}

}  // namespace

rankmesh_error rankmesh_mesh_parse(const char* text, int world, rankmesh_mesh** mesh) {
    return c::made(__func__, "mesh", mesh, [&] {
        const auto given = std::string_view(&RANKMESH_GIVEN(text));
        return new rankmesh_mesh{world == 0 ? Mesh::parse(given) : Mesh::parse(given, world)};
    });
}

void rankmesh_mesh_free(rankmesh_mesh* mesh) { delete mesh; }

rankmesh_error rankmesh_mesh_text(const rankmesh_mesh* mesh, char* text, size_t size, size_t* needed) {
    return guarded(__func__, [&] { c::write_text(to_string(RANKMESH_GIVEN(mesh).it), text, size, needed); });
}

rankmesh_error rankmesh_mesh_size(const rankmesh_mesh* mesh, int* size) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(size) = RANKMESH_GIVEN(mesh).it.size(); });
}

rankmesh_error rankmesh_mesh_offset(const rankmesh_mesh* mesh, int* offset) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(offset) = RANKMESH_GIVEN(mesh).it.offset(); });
}

rankmesh_error rankmesh_mesh_extent(const rankmesh_mesh* mesh, int* extent) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(extent) = RANKMESH_GIVEN(mesh).it.extent(); });
}

rankmesh_error rankmesh_mesh_axis_count(const rankmesh_mesh* mesh, size_t* count) {
    return guarded(
        __func__, [&] { RANKMESH_GIVEN(count) = static_cast<size_t>(RANKMESH_GIVEN(mesh).it.axis_count()); });
}

rankmesh_error rankmesh_mesh_axis_name(const rankmesh_mesh* mesh, size_t axis, char* name, size_t size,
                                       size_t* needed) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto number = static_cast<int>(std::min<size_t>(axis, Mesh::max_size));
        c::write_text(it.name(AxisId{number}), name, size, needed);
    });
}

rankmesh_error rankmesh_mesh_axis_number(const rankmesh_mesh* mesh, const char* axis, size_t* number) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        RANKMESH_GIVEN(number) = static_cast<size_t>(it.axis(&RANKMESH_GIVEN(axis)).index);
    });
}

rankmesh_error rankmesh_mesh_axis_size(const rankmesh_mesh* mesh, const char* axis, int* size) {
    return guarded(__func__,
                   [&] { RANKMESH_GIVEN(size) = RANKMESH_GIVEN(mesh).it.size(&RANKMESH_GIVEN(axis)); });
}

rankmesh_error rankmesh_mesh_contains(const rankmesh_mesh* mesh, int rank, int* contains) {
    return guarded(__func__,
                   [&] { RANKMESH_GIVEN(contains) = RANKMESH_GIVEN(mesh).it.contains(rank) ? 1 : 0; });
}

rankmesh_error rankmesh_mesh_coord(const rankmesh_mesh* mesh, int rank, int* indices, size_t size,
                                   size_t* needed) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        c::write_list(static_cast<size_t>(it.axis_count()), indices, size, needed,
                      [&](std::span<int> out) { it.indices(rank, out); });
    });
}

rankmesh_error rankmesh_mesh_rank(const rankmesh_mesh* mesh, const int* indices, size_t count, int* rank) {
    return guarded(__func__, [&] {
        RANKMESH_GIVEN(rank) = RANKMESH_GIVEN(mesh).it.rank_at(std::span(&RANKMESH_GIVEN(indices), count));
    });
}

rankmesh_error rankmesh_mesh_index(const rankmesh_mesh* mesh, int rank, const char* axis, int* index) {
    return guarded(__func__, [&] {
        RANKMESH_GIVEN(index) = RANKMESH_GIVEN(mesh).it.index(rank, &RANKMESH_GIVEN(axis));
    });
}

rankmesh_error rankmesh_mesh_neighbor(const rankmesh_mesh* mesh, int rank, const char* axis, int by,
                                      rankmesh_edge edge, int* neighbor) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        RANKMESH_GIVEN(neighbor) =
            it.neighbor(rank, &RANKMESH_GIVEN(axis), by, c::edge_of(edge)).value_or(RANKMESH_NO_RANK);
    });
}

rankmesh_error rankmesh_mesh_group(const rankmesh_mesh* mesh, int rank, const char* axes, int* ranks,
                                   size_t size, size_t* needed) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto group = it.group(rank, axes_of(it, &RANKMESH_GIVEN(axes)));
        c::write_list(static_cast<size_t>(group.size()), ranks, size, needed,
                      [&](std::span<int> out) { std::ranges::copy(group, out.begin()); });
    });
}

rankmesh_error rankmesh_mesh_group_size(const rankmesh_mesh* mesh, const char* axes, int* size) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        RANKMESH_GIVEN(size) = it.partition(axes_of(it, &RANKMESH_GIVEN(axes))).group_size();
    });
}

rankmesh_error rankmesh_mesh_group_member(const rankmesh_mesh* mesh, int rank, const char* axes,
                                          int group_rank, int* member) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto group = it.group(rank, axes_of(it, &RANKMESH_GIVEN(axes)));
        if (group_rank < 0 || group_rank >= group.size())
            throw_outside("group rank", group_rank, to_string(group), group.size());
        RANKMESH_GIVEN(member) = group[group_rank];
    });
}

rankmesh_error rankmesh_mesh_group_rank(const rankmesh_mesh* mesh, int rank, const char* axes, int member,
                                        int* group_rank) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto group = it.group(rank, axes_of(it, &RANKMESH_GIVEN(axes)));
        RANKMESH_GIVEN(group_rank) = group.group_rank(member).value_or(RANKMESH_NO_RANK);
    });
}

rankmesh_error rankmesh_mesh_partition(const rankmesh_mesh* mesh, const char* axes, int* ranks, size_t size,
                                       size_t* needed) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto partition = it.partition(axes_of(it, &RANKMESH_GIVEN(axes)));
        c::write_list(partition.rank_count(), ranks, size, needed,
                      [&](std::span<int> out) { partition.copy_to(out); });
    });
}

rankmesh_error rankmesh_mesh_partition_size(const rankmesh_mesh* mesh, const char* axes, int* size) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        RANKMESH_GIVEN(size) = it.partition(axes_of(it, &RANKMESH_GIVEN(axes))).size();
    });
}

rankmesh_error rankmesh_mesh_partition_first(const rankmesh_mesh* mesh, const char* axes, int group,
                                             int* rank) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(mesh).it;
        const auto partition = it.partition(axes_of(it, &RANKMESH_GIVEN(axes)));
        if (group < 0 || group >= partition.size())
            throw_outside("group", group, detail::cat("'", axes, "' of mesh ", to_string(it)),
                          partition.size());
        RANKMESH_GIVEN(rank) = partition[group].front();
    });
}
