// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <algorithm>

#include <rankmesh/core/placement.hpp>

#include "engine/alone.hpp"
#include "engine/join/agree.hpp"

namespace rankmesh::detail {
namespace {

std::optional<int> position_of(const MeshBlueprint& mesh, int rank) {
    if (!mesh.placed) return mesh.mesh.contains(rank) ? std::optional(rank) : std::nullopt;
    const auto found = std::ranges::find(*mesh.placed, rank);
    if (found == mesh.placed->end()) return std::nullopt;
    return static_cast<int>(found - mesh.placed->begin());
}

/// What this rank is called in one item, null if it has no part in it.
std::shared_ptr<const Label> label_of(const Place& place, const Item& item) {
    if (!place.position) return nullptr;
    const auto& mesh = place.mesh.mesh;
    auto group = mesh.group(*place.position, item.axes);
    if (!item.picked.empty()) group = group.pick(item.picked);
    if (!group.contains(*place.position)) return nullptr;
    return std::make_shared<const Label>(Label{.mesh = to_string(mesh),
                                               .name = place.mesh.name,
                                               .axes = place.mesh.axes_text(item),
                                               .member = to_string(mesh.coord(*place.position)),
                                               .ranks = {group, place.mesh.placed}});
}

bool is_separate(const Item& item) { return item.picked.empty() && !item.name.empty(); }

/// True if both stand for one channel: the same ranks in the same order, and no separate channel asked for.
bool share(const Place::Seat& a, const Place::Seat& b) {
    if (is_separate(a.item) || is_separate(b.item)) return false;
    const auto& x = a.label->ranks;
    const auto& y = b.label->ranks;
    if (!x.placed && !y.placed) return x.group == y.group;
    if (x.size() != y.size()) return false;
    for (int i = 0; i < x.size(); ++i)
        if (x[i] != y[i]) return false;
    return true;
}

}  // namespace

void connect(Place& place, Place::Seat& seat, Exchange& exchange, const std::string& key,
             const std::shared_ptr<void>& world, const std::vector<Place>& places,
             std::vector<std::shared_ptr<Channel>>& channels) {
    auto channel = std::shared_ptr<Channel>{};
    const auto& ranks = seat.label->ranks;
    const auto position = ranks.group.position(*place.position).value();
    if (ranks.size() == 1) channel = std::make_shared<Alone>();
    for (const auto& other : places)
        for (const auto& taken : other.seats)
            if (!channel && taken.line && share(taken, seat)) channel = taken.line->channel;
    if (!channel) {
        channel = exchange.create({.label = seat.label,
                                   .position = position,
                                   .key = cat(key, " item ", seat.number),
                                   .item = seat.number});
        channels.push_back(channel);
    }
    channel->keep(seat.label);
    seat.line = std::make_shared<Line>(Line{.channel = std::move(channel),
                                            .label = seat.label,
                                            .deadline = place.mesh.deadline,
                                            .rank = position,
                                            .size = ranks.size(),
                                            .world = world});
}

std::vector<Place> join(const Plan& plan, std::optional<Misuse> wrong, Exchange& exchange,
                        const std::string& key, Duration deadline, const std::shared_ptr<void>& world,
                        std::vector<std::shared_ptr<Channel>>& channels) {
    auto meshes = std::vector<MeshBlueprint>{};
    auto said = std::string{};
    try {
        if (wrong) throw Misuse(*wrong);
        meshes = make_blueprint(plan, exchange.size(), deadline);
        said = description(meshes);
    } catch (const Misuse& misuse) {
        // A plan that is wrong in itself is compared like any other, so that no rank waits for one that has
        // thrown.
        wrong = misuse;
        said = cat("a wrong plan: ", misuse.what());
    }
    agree(exchange, said);
    if (wrong) throw *wrong;

    auto places = std::vector<Place>{};
    for (auto& mesh : meshes)
        places.push_back({.mesh = std::move(mesh), .position = std::nullopt, .seats = {}});
    // The order of creation must not depend on the order in which this rank lists its meshes.
    auto order = std::vector<Place*>{};
    for (auto& place : places) order.push_back(&place);
    std::ranges::sort(order, {}, [](const Place* place) { return place->mesh.name; });
    auto number = 0;
    for (auto* place : order) {
        place->position = position_of(place->mesh, exchange.rank());
        for (const auto& item : place->mesh.items)
            place->seats.push_back(
                {.item = item, .label = label_of(*place, item), .number = number++, .line = nullptr});
    }
    for (auto* place : order)
        for (auto& seat : place->seats)
            if (seat.label && (!place->mesh.lazy || seat.label->ranks.size() == 1))
                connect(*place, seat, exchange, key, world, places, channels);
    return places;
}

}  // namespace rankmesh::detail
