// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/join_cost.hpp>

#include <algorithm>

#include "engine/join/join.hpp"

namespace rankmesh {

using detail::cat;
using detail::MeshEntry;

JoinCost join_cost(const Plan& plan, int world, int rank) {
    if (world < 1) throw UsageError(cat("a world of ", world, " ranks was asked for; it has 1 or more"));
    if (rank < 0 || rank >= world)
        throw UsageError(
            cat("the cost of a join was asked for rank ", rank, "; the world has ranks 0..", world - 1));
    auto mesh_entries = std::vector<MeshEntry>{};
    for (auto& mesh : detail::make_blueprint(plan, world, std::chrono::minutes(30))) {
        for (const auto& item : mesh.items)
            if (item.local)
                throw UsageError(
                    cat("'", item.name, "' is the ranks of mesh ", mesh.text,
                        " on one host, which only a job knows; leave .local away to ask what the "
                        "others cost"));
        mesh_entries.push_back({.mesh = std::move(mesh)});
    }
    const auto order = detail::lay_out(mesh_entries, rank, {});
    const auto taken = detail::with_channels(order);

    auto cost = JoinCost{.world = world, .communicators = static_cast<int>(taken.size())};
    for (const auto* group_entry : taken) cost.connections += group_entry->label->ranks.size() - 1;
    for (const auto* mesh_entry : order)
        for (const auto& group_entry : mesh_entry->group_entries) {
            const auto& mesh = mesh_entry->mesh;
            auto& set = cost.sets.emplace_back(
                JoinCost::Set{.axes = mesh.axis_names(group_entry.item),
                              .text = mesh.axes_text(group_entry.item),
                              .label = mesh.item_text(group_entry.item),
                              .groups = mesh.mesh.partition(group_entry.item.axes).size(),
                              .group_size = mesh.group_size(group_entry.item)});
            if (mesh.lazy || set.group_size == 1) continue;
            cost.joins = true;
            if (!group_entry.label) continue;
            const auto found = std::ranges::find(taken, detail::with_channel_of(group_entry, taken));
            set.communicator = static_cast<int>(found - taken.begin());
        }
    return cost;
}

}  // namespace rankmesh
