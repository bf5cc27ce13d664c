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

GroupList::GroupList(const Mesh& mesh, AxisSet axes, Cut cut)
    : mesh_(mesh), axes_(axes), groups_(mesh.partition(axes)), cut_(cut) {
    if (cut_.size == 0) cut_.size = groups_.group_size();
    const auto block = cut_.size * cut_.step;
    parts_ = (groups_.group_size() + block - 1) / block * cut_.step;
}

GroupList::GroupList(const Mesh& mesh, AxisSet axes, const std::vector<int>& picked)
    : mesh_(mesh), axes_(axes), groups_(mesh.partition(axes)), picked_(picked) {
    cut_.size = groups_[0].pick(picked_).size();
}

GroupList::GroupList(const Mesh& mesh, std::span<const AxisId> order)
    : mesh_(mesh), axes_(set_of(order)), groups_(mesh.partition_in_order(order)) {
    cut_.size = groups_.group_size();
}

GroupPart GroupList::operator[](int i) const {
    const auto whole = picked(groups_[i / parts_]);
    const auto j = i % parts_;
    return part(whole, j / cut_.step * cut_.size * cut_.step + j % cut_.step);
}

std::optional<GroupPart> GroupList::of(int rank) const {
    if (!mesh_.contains(rank)) return std::nullopt;
    const auto whole = picked(mesh_.group(rank, axes_));
    const auto position = whole.position(rank);
    if (!position) return std::nullopt;
    const auto block = cut_.size * cut_.step;
    return part(whole, *position / block * block + *position % cut_.step);
}

GroupPart GroupList::part(const Group& whole, int first) const {
    const auto left = (whole.size() - first + cut_.step - 1) / cut_.step;
    return {whole, first, cut_.step, std::min(cut_.size, left)};
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
