// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/handles.hpp"

using namespace rankmesh;
using c::guarded;

namespace {

/// Returns a list argument. Throws Wrong if it is NULL but has elements.
template <class T>
std::span<const T> listed(const T* list, std::size_t count, std::string_view name) {
    if (count > 0) c::given(list, name);
    return {list, count};
}

std::vector<std::string> strings_of(std::string_view text) {
    const auto names = c::names_of(text);
    return {names.begin(), names.end()};
}

Axes axes_of(const rankmesh_axes& given) {
    auto axes = Axes(std::span<const std::string>(strings_of(&c::given(given.axes, "over.axes"))));
    if (given.separate) axes = axes.separate(given.separate);
    if (given.timeout_seconds != 0) axes = axes.within(c::duration_of(given.timeout_seconds));
    return axes;
}

Pick pick_of(const rankmesh_pick& given) {
    const auto at = listed(given.at, given.at_count, "picks.at");
    return {.of = &c::given(given.of, "picks.of"),
            .at = {at.begin(), at.end()},
            .as = &c::given(given.as, "picks.as")};
}

Declaration declaration_of(const rankmesh_declaration& given) {
    auto declaration = Declaration{.mesh = MeshSpec::parse(&c::given(given.mesh, "plan.mesh"))};
    if (given.name) declaration.name = given.name;
    for (const auto& axes : listed(given.over, given.over_count, "plan.over"))
        declaration.over.push_back(axes_of(axes));
    for (const auto& pick : listed(given.picks, given.pick_count, "plan.picks"))
        declaration.picks.push_back(pick_of(pick));
    if (given.local) declaration.local = given.local;
    if (given.axes) declaration.axes = strings_of(given.axes);
    const auto placed = listed(given.placed, given.placed_count, "plan.placed");
    declaration.placed.assign(placed.begin(), placed.end());
    declaration.partial = given.partial != 0;
    declaration.lazy = given.lazy != 0;
    if (given.timeout_seconds != 0) declaration.timeout = c::duration_of(given.timeout_seconds);
    return declaration;
}

GroupOptions options_of(const rankmesh_group_options* given) {
    auto options = GroupOptions{};
    if (!given) return options;
    if (given->name) options.name = given->name;
    if (given->timeout_seconds != 0) options.timeout = c::duration_of(given->timeout_seconds);
    return options;
}

rankmesh_usage sums_of(const Usage& usage) {
    const auto& each = usage.communicators;
    return {.communicators = static_cast<int>(each.size()),
            .suspended = static_cast<int>(std::ranges::count(each, true, &Usage::Communicator::suspended)),
            .connections = usage.connections(),
            .descriptors = usage.descriptors()};
}

/// Returns the rank at these indices of the member's mesh.
int rank_at(const Member& member, std::span<const int> indices) {
    const auto& mesh = member.mesh();
    return member.rank_at(mesh.coord(mesh.rank_at(indices)));
}

}  // namespace

rankmesh_error rankmesh_world_join(rankmesh_world* world, const rankmesh_declaration* plan, size_t count,
                                   rankmesh_member** member) {
    return c::made(__func__, "member", member, [&] {
        auto& it = RANKMESH_GIVEN(world).it;
        auto declarations = Plan{};
        for (const auto& each : listed(plan, count, "plan")) declarations.push_back(declaration_of(each));
        return new rankmesh_member{it.join(declarations)};
    });
}

void rankmesh_member_free(rankmesh_member* member) { delete member; }

rankmesh_error rankmesh_member_in(const rankmesh_member* member, const char* mesh, rankmesh_member** place) {
    return c::made(__func__, "place", place,
                   [&] { return new rankmesh_member{RANKMESH_GIVEN(member).it[&RANKMESH_GIVEN(mesh)]}; });
}

rankmesh_error rankmesh_member_mesh(const rankmesh_member* member, rankmesh_mesh** mesh) {
    return c::made(__func__, "mesh", mesh,
                   [&] { return new rankmesh_mesh{RANKMESH_GIVEN(member).it.mesh()}; });
}

rankmesh_error rankmesh_member_inside(const rankmesh_member* member, int* inside) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(inside) = RANKMESH_GIVEN(member).it.inside() ? 1 : 0; });
}

rankmesh_error rankmesh_member_coord(const rankmesh_member* member, int* indices, size_t size,
                                     size_t* needed) {
    return guarded(__func__, [&] {
        const auto coord = RANKMESH_GIVEN(member).it.coord();
        c::write_list(static_cast<size_t>(coord.size()), indices, size, needed, [&](std::span<int> out) {
            for (auto& index : out) index = coord[AxisId{static_cast<int>(&index - out.data())}];
        });
    });
}

rankmesh_error rankmesh_member_at(const rankmesh_member* member, const char* axis, int* index) {
    return guarded(__func__,
                   [&] { RANKMESH_GIVEN(index) = RANKMESH_GIVEN(member).it.at(&RANKMESH_GIVEN(axis)); });
}

rankmesh_error rankmesh_member_neighbor(const rankmesh_member* member, const char* axis, int by,
                                        rankmesh_edge edge, int* neighbor) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        RANKMESH_GIVEN(neighbor) =
            it.neighbor(&RANKMESH_GIVEN(axis), by, c::edge_of(edge)).value_or(RANKMESH_NO_RANK);
    });
}

rankmesh_error rankmesh_member_rank_at(const rankmesh_member* member, const int* indices, size_t count,
                                       int* rank) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        RANKMESH_GIVEN(rank) = rank_at(it, std::span(&RANKMESH_GIVEN(indices), count));
    });
}

rankmesh_error rankmesh_member_prefix(const rankmesh_member* member, char* prefix, size_t size,
                                      size_t* needed) {
    return guarded(__func__,
                   [&] { c::write_text(RANKMESH_GIVEN(member).it.prefix(), prefix, size, needed); });
}

rankmesh_error rankmesh_member_on(const rankmesh_member* member, const char* axes,
                                  rankmesh_communicator** communicator) {
    return c::made(__func__, "communicator", communicator, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        return new rankmesh_communicator{it.on(c::names_of(&RANKMESH_GIVEN(axes)))};
    });
}

rankmesh_error rankmesh_member_find(const rankmesh_member* member, const char* axes,
                                    rankmesh_communicator** communicator) {
    return c::made(__func__, "communicator", communicator, [&]() -> rankmesh_communicator* {
        auto found = RANKMESH_GIVEN(member).it.find(c::names_of(&RANKMESH_GIVEN(axes)));
        return found ? new rankmesh_communicator{*std::move(found)} : nullptr;
    });
}

rankmesh_error rankmesh_member_prepare(const rankmesh_member* member, const char* axes) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(member).it.prepare(c::names_of(&RANKMESH_GIVEN(axes))); });
}

rankmesh_error rankmesh_member_group(const rankmesh_member* member, const int* ranks, size_t count,
                                     const rankmesh_group_options* options,
                                     rankmesh_communicator** communicator) {
    return c::made(__func__, "communicator", communicator, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        const auto list = listed(ranks, count, "ranks");
        return new rankmesh_communicator{it.group({list.begin(), list.end()}, options_of(options))};
    });
}

rankmesh_error rankmesh_member_split(const rankmesh_member* member, const rankmesh_communicator* over,
                                     const int* color, int key, const rankmesh_group_options* options,
                                     rankmesh_communicator** communicator) {
    return c::made(__func__, "communicator", communicator, [&]() -> rankmesh_communicator* {
        const auto& it = RANKMESH_GIVEN(member).it;
        const auto own = color ? std::optional(*color) : std::nullopt;
        auto part = over ? it.split(over->it, own, key, options_of(options))
                         : it.split(own, key, options_of(options));
        return part ? new rankmesh_communicator{*std::move(part)} : nullptr;
    });
}

rankmesh_error rankmesh_member_suspend(const rankmesh_member* member, const char* axes) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        axes ? it.suspend(c::names_of(axes)) : it.suspend();
    });
}

rankmesh_error rankmesh_member_resume(const rankmesh_member* member, const char* axes) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        axes ? it.resume(c::names_of(axes)) : it.resume();
    });
}

rankmesh_error rankmesh_member_usage(const rankmesh_member* member, rankmesh_usage* usage) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(usage) = sums_of(RANKMESH_GIVEN(member).it.usage()); });
}

rankmesh_error rankmesh_member_usage_of(const rankmesh_member* member,
                                        const rankmesh_communicator* communicator, rankmesh_usage* usage) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(member).it;
        RANKMESH_GIVEN(usage) = sums_of(it.usage(RANKMESH_GIVEN(communicator).it));
    });
}
