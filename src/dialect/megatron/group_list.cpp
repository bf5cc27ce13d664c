// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/group_list.hpp>

namespace rankmesh::megatron {

namespace {

AxisSet set_of(std::span<const AxisId> axes) {
    auto set = AxisSet{};
    for (auto axis : axes) set.insert(axis);
    return set;
}

AxisSet others(const Mesh& mesh, AxisSet axes) {
    auto set = AxisSet{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (!axes.contains({a})) set.insert({a});
    return set;
}

}  // namespace

GroupList::GroupList(const Mesh& mesh, std::span<const AxisId> order)
    : dialect::GroupList(mesh.partition_in_order(order)), mesh_(mesh), axes_(set_of(order)) {}

std::optional<GroupPart> GroupList::of(int rank) const {
    if (!mesh_.contains(rank)) return std::nullopt;
    const auto whole = picked(mesh_.group(rank, axes_));
    const auto position = whole.group_rank(rank);
    return position ? std::optional(part_at(whole, *position)) : std::nullopt;
}

bool same_groups(const Mesh& a, AxisSet along_a, const Mesh& b, AxisSet along_b) {
    // The groups are the one at the offset, moved to each rank of the group across it.
    return a.group(a.offset(), along_a) == b.group(b.offset(), along_b) &&
           a.group(a.offset(), others(a, along_a)) == b.group(b.offset(), others(b, along_b));
}

std::string listed(const Partition& groups) {
    constexpr auto most = 64;
    auto text = std::string("[");
    auto shown = 0;
    for (const auto& group : groups) {
        if (shown > 0) text += ", ";
        if (shown > most) return text + "...]";
        text += '[';
        for (auto rank : group) {
            if (rank != group.front()) text += ", ";
            if (shown++ > most) {
                text += "...";
                break;
            }
            text += std::to_string(rank);
        }
        text += ']';
    }
    return text + "]";
}

}  // namespace rankmesh::megatron
