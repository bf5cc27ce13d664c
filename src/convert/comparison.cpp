// SPDX-License-Identifier: Apache-2.0
// Two arrangements of one job: which ranks move, and which groups are no longer the same.
#include "convert/converters.hpp"

#include <algorithm>
#include <iterator>

namespace rankmesh::conversion {

namespace {

using Sizes = std::vector<std::pair<std::string, int>>;

/// The axes of more than one rank, by name.
Sizes sizes_of(const Mesh& mesh) {
    auto sizes = Sizes{};
    for (const auto& name : by_stride(mesh)) sizes.emplace_back(name, mesh.size(name));
    std::ranges::sort(sizes);
    return sizes;
}

bool is_data(std::string_view name) { return name.starts_with("dp"); }

Sizes data_of(const Mesh& mesh) {
    auto sizes = sizes_of(mesh);
    std::erase_if(sizes, [](const auto& axis) { return !is_data(axis.first); });
    return sizes;
}

/// Ranks by coordinate, the axes in this order; axes of size 1 are left out.
Group ranks_in_order(const Mesh& mesh, const std::vector<std::string>& order) {
    auto names = std::vector<std::string_view>(order.begin(), order.end());
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (const auto name = mesh.name(AxisId{a}); mesh.size(AxisId{a}) == 1) names.push_back(name);
    return mesh.permuted(names).ranks();
}

/// Whether a rank's group along an axis has the same processes after the move; if not, an example.
std::string difference(const Mesh& from, const Mesh& to, std::string_view axis,
                       const std::vector<int>& moves) {
    const auto size = size_of(from, axis);
    if (size != size_of(to, axis)) return cat(axis, " becomes ", size_of(to, axis));
    const auto moved = [&](int rank) { return moves[static_cast<std::size_t>(rank)]; };
    for (const auto& group : from.partition(axis)) {
        const auto there = to.group(moved(group.front()), axis);
        for (auto rank : group)
            if (!there.contains(moved(rank)))
                return cat("its groups differ: ", to_string(group), " before, ", to_string(there), " after");
    }
    return {};
}

}  // namespace

Comparison compare(const Arrangement& from, const Arrangement& to,
                   const std::function<std::string(std::string_view)>& why,
                   const std::function<bool(std::string_view)>& is_noted) {
    auto found = Comparison{};
    auto a = from.dense();
    auto b = to.dense();
    const auto is_lost = [&](std::string_view name) {  // replicas become shards, or a dp that says neither
        return (name == "dp_replicate" && size_of(b, "dp_shard") > 1) || !is_noted(name);
    };
    if (data_of(a) != data_of(b)) {
        for (const auto* name : {"dp_replicate", "dp_shard"})
            if (size_of(a, name) > 1 && (data_of(a).size() > 1 || (size_of(b, name) == 1 && is_lost(name))))
                found.lost.push_back({cat(name, "=", size_of(a, name)), why(name)});
        a = joined(a, {"dp", "dp_replicate", "dp_shard"}, "dp");
        b = joined(b, {"dp", "dp_replicate", "dp_shard"}, "dp");
    }
    if (sizes_of(a) != sizes_of(b)) {
        found.fits = false;
        return found;
    }
    if (a.extent() > most_compared)
        throw UsageError(cat("mesh ", to_string(a), " reaches rank ", a.extent() - 1,
                             "; ranks are compared up to ", most_compared - 1));

    const auto order = by_stride(a);
    const auto here = ranks_in_order(a, order);
    const auto there = ranks_in_order(b, order);
    auto moves = std::vector<int>(static_cast<std::size_t>(a.extent()), -1);
    for (int i = 0; i < here.size(); ++i) {
        const auto rank = here[i];
        moves[static_cast<std::size_t>(rank)] = there[i];
        if (rank != there[i]) ++found.moved;
    }
    for (std::size_t rank = 0; rank < moves.size() && found.first.size() < Comparison::shown; ++rank)
        if (const auto to_rank = moves[rank]; to_rank >= 0 && to_rank != static_cast<int>(rank))
            found.first.emplace_back(static_cast<int>(rank), to_rank);

    auto changed = std::vector<Loss>{};  // behind the axes that do not exist there
    for (std::size_t m = 1; m < from.meshes.size(); ++m)
        for (const auto& [axis, size] : sizes_of(from.meshes[m])) {
            if (size_of(a, axis) == size) continue;
            const auto what = cat(axis, "=", size);
            const auto other =
                std::ranges::find_if(to.meshes.begin() + 1, to.meshes.end(),
                                     [&](const Mesh& mesh) { return mesh.find(axis).has_value(); });
            if (other == to.meshes.end())
                found.lost.push_back({what, why(axis)});
            else if (const auto how = difference(from.meshes[m], *other, axis, moves); !how.empty())
                changed.push_back({what, how});
        }
    std::ranges::move(changed, std::back_inserter(found.lost));
    for (const auto& extra : from.extras)
        if (std::ranges::find(to.extras, extra) == to.extras.end())
            found.lost.push_back(
                {cat(extra.name, extra.value.empty() ? "" : " ", extra.value), why(extra.name)});
    return found;
}

}  // namespace rankmesh::conversion
