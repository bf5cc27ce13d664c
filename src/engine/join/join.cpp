// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <algorithm>

#include <rankmesh/core/placement.hpp>

#include "engine/alone.hpp"
#include "engine/checked/channel.hpp"
#include "engine/checked/device_channel.hpp"
#include "engine/join/agree.hpp"

namespace rankmesh::detail {
namespace {

std::optional<int> position_of(const MeshBlueprint& mesh, int rank) {
    if (!mesh.placed) return mesh.mesh.contains(rank) ? std::optional(rank) : std::nullopt;
    const auto found = std::ranges::find(*mesh.placed, rank);
    if (found == mesh.placed->end()) return std::nullopt;
    return static_cast<int>(found - mesh.placed->begin());
}

/// The ranks of a mesh that are among those of this host, in the order of their positions.
Ranks local_ranks(const MeshBlueprint& mesh, const std::vector<int>& of_the_host) {
    auto found = std::vector<std::pair<int, int>>{};  // place in the mesh, rank
    for (auto rank : of_the_host)
        if (const auto position = position_of(mesh, rank)) found.emplace_back(*position, rank);
    std::ranges::sort(found);
    auto ranks = std::make_shared<std::vector<int>>();
    for (const auto& [position, rank] : found) ranks->push_back(rank);
    return {Mesh{{"local", static_cast<int>(ranks->size())}}.group(0, "local"), ranks};
}

/// What this rank is called in a mesh: written once, for every item.
struct Texts {
    std::string mesh;
    std::string member;
};

/// What a rank is called in one item, and where it stands; nothing if it has no part in it.
void sit_down(Place& place, Place::Seat& seat, int rank, const std::vector<int>& of_its_host,
              const Texts& texts) {
    if (!place.position) return;
    const auto& mesh = place.mesh.mesh;
    auto ranks = Ranks{};
    if (seat.item.local) {
        ranks = local_ranks(place.mesh, of_its_host);
        seat.position = static_cast<int>(std::ranges::find(*ranks.placed, rank) - ranks.placed->begin());
    } else {
        auto group = mesh.group(*place.position, seat.item.axes);
        if (!seat.item.picked.empty()) group = group.pick(seat.item.picked);
        const auto position = group.position(*place.position);
        if (!position) return;
        seat.position = *position;
        ranks = {group, place.mesh.placed};
    }
    seat.label = std::make_shared<const Label>(Label{.mesh = texts.mesh,
                                                     .name = place.mesh.name,
                                                     .axes = place.mesh.axes_text(seat.item),
                                                     .member = texts.member,
                                                     .ranks = std::move(ranks),
                                                     .placed = place.mesh.placed});
}

bool is_separate(const Item& item) { return item.picked.empty() && !item.name.empty() && !item.local; }

/// True if both stand for one channel: the same ranks in the same order, the same settings, and no separate
/// channel asked for.
bool share(const Place::Seat& a, const Place::Seat& b) {
    if (is_separate(a.item) || is_separate(b.item) || a.item.settings != b.item.settings) return false;
    const auto& x = a.label->ranks;
    const auto& y = b.label->ranks;
    if (!x.placed && !y.placed) return x.group == y.group;
    if (x.size() != y.size()) return false;
    for (int i = 0; i < x.size(); ++i)
        if (x[i] != y[i]) return false;
    return true;
}

/// The line of a connected seat that stands for the same channel, null if there is none.
std::shared_ptr<Line> shared_line(const Place::Seat& seat, const std::vector<Place>& places) {
    for (const auto& other : places)
        for (const auto& taken : other.seats)
            if (taken.line && share(taken, seat)) return taken.line;
    return nullptr;
}

ChannelRequest request_of(const Place::Seat& seat, const std::string& key) {
    return {.label = seat.label,
            .position = seat.position,
            .key = cat(key, " item ", seat.number),
            .item = seat.number,
            .settings = seat.item.settings};
}

/// What the channels are asked for on which calls of another are compared: one on the host, one on the
/// device.
ChannelRequest check_of(const ChannelRequest& request, Space space) {
    constexpr auto first_check = 0x2000;  // no declared item has these numbers
    const auto on_device = space == Space::device;
    return {.label = request.label,
            .position = request.position,
            .key = cat(request.key, on_device ? " device check" : " check"),
            .item = (on_device ? first_check * 3 / 2 : first_check) + request.item};
}

/// Connects a seat, or takes part in what others connect where this rank has no part in it.
void connect(Place& place, Place::Seat& seat, Joining& joining, const std::vector<Place>& places,
             bool everyone) {
    auto* device = joining.device;
    const auto nobody = [&] {
        if (device && everyone && (seat.item.local || place.mesh.group_size(seat.item) > 1))
            device->create(nullptr, nullptr, everyone);
    };
    if (!seat.label) return nobody();
    const auto line = [&](std::shared_ptr<Channel> channel, Space space, std::shared_ptr<Line> host) {
        channel->keep(seat.label);
        return std::make_shared<Line>(Line{.world = joining.world,
                                           .channel = std::move(channel),
                                           .label = seat.label,
                                           .deadline = seat.item.deadline.value_or(place.mesh.deadline),
                                           .rank = seat.position,
                                           .size = seat.label->ranks.size(),
                                           .space = space,
                                           .host = std::move(host)});
    };
    auto host = std::shared_ptr<Channel>{};
    auto beside = std::shared_ptr<Channel>{};  // on the device
    if (const auto shared = shared_line(seat, places)) {
        host = shared->host ? shared->host->channel : shared->channel;
        beside = shared->channel;
        nobody();
    } else if (seat.label->ranks.size() == 1) {
        host = std::make_shared<Alone>();
        if (device) beside = device->alone();
        nobody();
    } else {
        const auto request = request_of(seat, joining.key);
        host = joining.exchange.create(request);
        if (joining.checked)
            host = std::make_shared<CheckedChannel>(host,
                                                    joining.exchange.create(check_of(request, Space::host)),
                                                    seat.label->ranks, seat.position);
        joining.channels.push_back(host);
        if (device) {
            beside = device->create(&request, host, everyone);
            if (joining.checked)
                beside = std::make_shared<CheckedDeviceChannel>(
                    beside, joining.exchange.create(check_of(request, Space::device)), seat.label->ranks,
                    seat.position, seat.item.deadline.value_or(place.mesh.deadline));
            joining.on_device.push_back(beside);
        }
    }
    seat.line = line(std::move(host), Space::host, nullptr);
    if (device) seat.line = line(std::move(beside), Space::device, seat.line);
}

/// The channels that this rank will ask for, as `connect` will.
std::vector<ChannelRequest> requests_of(const std::vector<Place*>& order, const Joining& joining) {
    auto requests = std::vector<ChannelRequest>{};
    for (const auto* seat : with_channels(order)) {
        requests.push_back(request_of(*seat, joining.key));
        if (!joining.checked) continue;
        const auto request = requests.back();
        requests.push_back(check_of(request, Space::host));
        if (joining.device) requests.push_back(check_of(request, Space::device));
    }
    return requests;
}

}  // namespace

std::vector<Place*> lay_out(std::vector<Place>& places, int rank, const std::vector<int>& of_its_host) {
    auto order = std::vector<Place*>{};
    for (auto& place : places) order.push_back(&place);
    std::ranges::sort(order, {}, [](const Place* place) { return place->mesh.name; });
    auto number = 0;
    for (auto* place : order) {
        place->position = position_of(place->mesh, rank);
        const auto& mesh = place->mesh.mesh;
        const auto texts =
            place->position ? Texts{place->mesh.text, to_string(mesh.coord(*place->position))} : Texts{};
        place->seats.reserve(place->mesh.items.size());
        for (const auto& item : place->mesh.items) {
            auto& seat = place->seats.emplace_back(Place::Seat{.item = item, .number = number++});
            sit_down(*place, seat, rank, of_its_host, texts);
        }
    }
    return order;
}

const Place::Seat* with_channel_of(const Place::Seat& seat, std::span<const Place::Seat* const> taken) {
    for (const auto* other : taken)
        if (other == &seat || share(*other, seat)) return other;
    return nullptr;
}

std::vector<const Place::Seat*> with_channels(const std::vector<Place*>& order) {
    auto taken = std::vector<const Place::Seat*>{};
    for (const auto* place : order)
        for (const auto& seat : place->seats) {
            if (place->mesh.lazy || !seat.label || seat.label->ranks.size() == 1) continue;
            if (!with_channel_of(seat, taken)) taken.push_back(&seat);
        }
    return taken;
}

void connect_later(Place& place, Place::Seat& seat, Joining& joining, const std::vector<Place>& places) {
    connect(place, seat, joining, places, false);
}

std::vector<Place> join(std::span<const Declaration> plan, std::optional<Misuse> wrong, Joining& joining) {
    auto& exchange = joining.exchange;
    auto said = std::string{};
    auto places = std::vector<Place>{};
    auto order = std::vector<Place*>{};
    try {
        if (wrong) throw Misuse(*wrong);
        auto meshes = make_blueprint(plan, exchange.size(), joining.deadline);
        said = description(meshes);
        for (auto& mesh : meshes) places.push_back({.mesh = std::move(mesh)});
        order = lay_out(places, exchange.rank(), exchange.local_ranks());
        if (joining.device)
            for (const auto& place : places)
                for (const auto& item : place.mesh.items)
                    joining.device->check_settings(item.settings, place.mesh.item_text(item));
        if (exchange.announces()) exchange.announce(joining.key, requests_of(order, joining));
    } catch (const Misuse& misuse) {
        // A plan that is wrong in itself is compared like any other, so that no rank waits for one that has
        // thrown.
        wrong = misuse;
        said = cat("a wrong plan: ", misuse.what());
    }
    if (joining.checked) append(said, ", in checked mode");
    // The ranks meet without a mesh; those that this one means have their places in its own.
    const auto placed = [&](const Error& error, const std::vector<int>& ranks) {
        if (wrong || ranks.empty()) return std::string(error.what());
        const auto& mesh = places.front().mesh;
        return cat(error.what(), "; in mesh ", mesh.text, " that is ",
                   with_coordinates(ranks, mesh.mesh, mesh.placed.get()));
    };
    try {
        agree(exchange, said);
    } catch (const Deadline& deadline) {
        throw Deadline(placed(deadline, deadline.missing), deadline.arrived, deadline.missing);
    } catch (const Lost& lost) {
        throw Lost(placed(lost, lost.ranks), lost.ranks);
    }
    if (wrong) throw *wrong;

    for (auto* place : order)
        for (auto& seat : place->seats)
            if (!place->mesh.lazy || (seat.label && seat.label->ranks.size() == 1))
                connect(*place, seat, joining, places, !place->mesh.lazy);
    return places;
}

}  // namespace rankmesh::detail
