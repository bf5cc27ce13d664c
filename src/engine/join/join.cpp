// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <algorithm>
#include <system_error>

#include "engine/channel.hpp"
#include "engine/checked/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/join/agree.hpp"

namespace rankmesh::detail {
namespace {

std::optional<int> mesh_position_of(const MeshBlueprint& mesh, int rank) {
    if (!mesh.placed) return mesh.mesh.contains(rank) ? std::optional(rank) : std::nullopt;
    const auto position = position_of(*mesh.placed, rank);
    return position < 0 ? std::nullopt : std::optional(position);
}

/// The ranks of a mesh that are among those of this host, in the order of their positions.
Ranks local_ranks(const MeshBlueprint& mesh, const std::vector<int>& of_the_host) {
    auto found = std::vector<std::pair<int, int>>{};  // position in the mesh, rank
    for (auto rank : of_the_host)
        if (const auto mesh_position = mesh_position_of(mesh, rank)) found.emplace_back(*mesh_position, rank);
    std::ranges::sort(found);
    auto ranks = std::make_shared<std::vector<int>>();
    for (const auto& [mesh_position, rank] : found) ranks->push_back(rank);
    return {Mesh{{"local", static_cast<int>(ranks->size())}}.group(0, "local"), ranks};
}

/// True if the coordinate in a mesh only repeats the rank, as in the mesh of a plan without one: `world=8`.
bool repeats_rank(const MeshBlueprint& mesh) {
    return !mesh.placed && mesh.text == cat("world=", mesh.mesh.size());
}

/// Fills in the label and the group rank of one item; leaves it without a label if the rank is in no group of
/// it.
void assign(MeshEntry& mesh_entry, MeshEntry::GroupEntry& group_entry, int rank,
            const std::vector<int>& of_its_host, const std::string& member) {
    if (!mesh_entry.mesh_position) return;
    const auto& mesh = mesh_entry.mesh.mesh;
    auto ranks = Ranks{};
    if (group_entry.item.local) {
        ranks = local_ranks(mesh_entry.mesh, of_its_host);
        group_entry.group_rank = position_of(*ranks.placed, rank);
    } else {
        auto group = mesh.group(*mesh_entry.mesh_position, group_entry.item.axes);
        if (!group_entry.item.picked.empty()) group = group.pick(group_entry.item.picked);
        const auto group_rank = group.group_rank(*mesh_entry.mesh_position);
        if (!group_rank) return;
        group_entry.group_rank = *group_rank;
        ranks = {group, mesh_entry.mesh.placed};
    }
    group_entry.label =
        std::make_shared<const Label>(Label{.mesh = mesh_entry.mesh.text,
                                            .name = mesh_entry.mesh.name,
                                            .axes = mesh_entry.mesh.axes_text(group_entry.item),
                                            .member = member,
                                            .ranks = std::move(ranks),
                                            .placed = mesh_entry.mesh.placed});
}

/// True if both use one channel: the same ranks in the same order, the same settings, and neither is
/// separate.
bool shares_channel(const MeshEntry::GroupEntry& a, const MeshEntry::GroupEntry& b) {
    if (a.item.separate() || b.item.separate() || a.item.settings != b.item.settings) return false;
    const auto& x = a.label->ranks;
    const auto& y = b.label->ranks;
    if (!x.placed && !y.placed) return x.group == y.group;
    if (x.size() != y.size()) return false;
    for (int i = 0; i < x.size(); ++i)
        if (x[i] != y[i]) return false;
    return true;
}

/// The state of a connected group entry that uses the same channel, null if there is none.
std::shared_ptr<CommunicatorState> shared_state(const MeshEntry::GroupEntry& group_entry,
                                                const std::vector<MeshEntry>& mesh_entries,
                                                const std::vector<MeshEntry::GroupEntry>& made_later) {
    const auto among = [&](const std::vector<MeshEntry::GroupEntry>& group_entries) {
        const auto found = std::ranges::find_if(group_entries, [&](const MeshEntry::GroupEntry& taken) {
            return taken.state && shares_channel(taken, group_entry);
        });
        return found == group_entries.end() ? nullptr : found->state;
    };
    for (const auto& other : mesh_entries)
        if (auto state = among(other.group_entries)) return state;
    return among(made_later);
}

ChannelRequest request_of(const MeshEntry::GroupEntry& group_entry, const std::string& key) {
    return {.label = group_entry.label,
            .group_rank = group_entry.group_rank,
            .key = group_entry.key.empty() ? cat(key, " item ", group_entry.number) : group_entry.key,
            .item = group_entry.number,
            .settings = group_entry.item.settings};
}

/// The request for the channel on which checked mode compares the calls of another: one each for host and
/// device.
ChannelRequest check_of(const ChannelRequest& request, Space space) {
    constexpr auto first_check = 0x2000;  // beyond the numbers of declared items
    const auto on_device = space == Space::device;
    return {.label = request.label,
            .group_rank = request.group_rank,
            .key = cat(request.key, on_device ? " device check" : " check"),
            .item = (on_device ? first_check * 3 / 2 : first_check) + request.item};
}

/// Connects a group entry; where this rank is in no group of it, takes part in the creation by the others if
/// the device needs that.
void connect(const MeshEntry& mesh_entry, MeshEntry::GroupEntry& group_entry, Joining& joining,
             const std::vector<MeshEntry>& mesh_entries, bool everyone) {
    auto* device = joining.device;
    const auto nobody = [&] {
        if (device && everyone &&
            (group_entry.item.local || mesh_entry.mesh.group_size(group_entry.item) > 1))
            device->create(nullptr, nullptr, everyone);
    };
    if (!group_entry.label) return nobody();
    const auto state = [&](std::shared_ptr<Channel> channel, Space space,
                           std::shared_ptr<CommunicatorState> host) {
        channel->keep(group_entry.label);
        auto* ring = channel->ring().get();
        return std::make_shared<CommunicatorState>(
            CommunicatorState{.world = joining.world,
                              .channel = std::move(channel),
                              .label = group_entry.label,
                              .timeout = group_entry.item.timeout.value_or(mesh_entry.mesh.timeout),
                              .rank = group_entry.group_rank,
                              .size = group_entry.label->ranks.size(),
                              .space = space,
                              .host = std::move(host),
                              .ring = ring,
                              .label_number = ring ? ring->add(group_entry.label) : std::uint16_t{0}});
    };
    // Groups of equal key and first rank are one group.
    const auto record = [&](Channel& channel, const std::string& key, const char* where) {
        if (!joining.world || !joining.world->recorder()) return;
        const auto& world = *joining.world;
        channel.record_in(world.recorder()->ring(
            cat(key, where, " from ", group_entry.label->ranks[0], world.record_name()), world.roots()));
    };
    auto host = std::shared_ptr<Channel>{};
    auto beside = std::shared_ptr<Channel>{};  // on the device
    if (const auto shared = shared_state(group_entry, mesh_entries, joining.groups)) {
        host = shared->host ? shared->host->channel : shared->channel;
        beside = shared->channel;
        nobody();
    } else if (group_entry.label->ranks.size() == 1) {
        host = std::make_shared<Alone>();
        if (device) beside = device->alone();
        nobody();
    } else {
        const auto request = request_of(group_entry, joining.key);
        host = joining.exchange.create(request);
        if (joining.checked) {
            try {
                host = checked_channel(host, joining.exchange.create(check_of(request, Space::host)),
                                       group_entry.label->ranks, group_entry.group_rank,
                                       joining.world->checked_buffers);
            } catch (...) {
                host->leave();  // a channel that just ends waits until all peers know it
                throw;
            }
        }
        record(*host, request.key, "");
        if (device) {
            try {
                const auto unchecked = device->create(&request, host, everyone);
                beside = unchecked;
                if (joining.checked)
                    beside = checked_device_channel(
                        beside, joining.exchange.create(check_of(request, Space::device)),
                        group_entry.label->ranks, group_entry.group_rank,
                        group_entry.item.timeout.value_or(mesh_entry.mesh.timeout));
                record(*beside, request.key, " on devices");
                if (joining.checked) unchecked->record_in(beside->ring());  // by which its peers know it
            } catch (...) {
                host->leave();  // a channel that just ends waits until all peers know it
                throw;
            }
        }
        joining.connections.push_back(
            {request, group_entry.item.timeout.value_or(mesh_entry.mesh.timeout), host, beside});
    }
    group_entry.state = state(std::move(host), Space::host, nullptr);
    if (device) group_entry.state = state(std::move(beside), Space::device, group_entry.state);
}

/// The channels that this rank will ask for, as `connect` will.
std::vector<ChannelRequest> requests_of(const std::vector<MeshEntry*>& order, const Joining& joining) {
    auto requests = std::vector<ChannelRequest>{};
    for (const auto* group_entry : with_channels(order)) {
        requests.push_back(request_of(*group_entry, joining.key));
        if (!joining.checked) continue;
        const auto request = requests.back();
        requests.push_back(check_of(request, Space::host));
        if (joining.device) requests.push_back(check_of(request, Space::device));
    }
    return requests;
}

/// Runs a part of a join. If it fails, leaves the channels: those that just end would wait until all peers
/// know it, also for one that is stopped. The others must not wait for a rank that something keeps alone from
/// joining, such as a limit.
template <class Body>
void run_part(Joining& joining, Body&& body) {
    const auto leave = [&] {
        if (joining.world) joining.world->cause->set_by_exception();
        joining.leave();
    };
    try {
        body();
    } catch (const PeerLost&) {
        leave();
        throw;
    } catch (const Timeout&) {
        leave();
        throw;
    } catch (const UsageError&) {
        throw;
    } catch (const Disagreement&) {
        throw;
    } catch (const std::exception& error) {
        const auto rank = joining.exchange.rank();
        const auto why = cat("rank ", rank, " cannot join: ", error.what());
        joining.exchange.fail({.kind = Failure::Kind::left, .why = why, .lost = {rank}});
        leave();
        if (!dynamic_cast<const std::system_error*>(&error)) throw;
        throw EngineFailure(cat(why, "; see the limits of its process (ulimit -a)"));
    }
}

/// Agrees on what the ranks declare. The exchange has no mesh: coordinates in errors are those of the plan's
/// first one, null for an invalid plan.
void compare(Exchange& exchange, const std::string& declared, const MeshBlueprint* mesh) {
    const auto placed = [&](const std::string& text, const std::vector<int>& ranks) {
        if (!mesh || ranks.empty() || repeats_rank(*mesh)) return text;
        return cat(text, "; in mesh ", mesh->text, " that is ",
                   with_coordinates(ranks, mesh->mesh, mesh->placed.get()));
    };
    try {
        agree(exchange, declared);
    } catch (const Timeout& timeout) {
        auto text = std::string(timeout.what());
        if (!timeout.seen.empty()) text.resize(text.size() - timeout.seen.size() - 2);  // it comes last
        throw Timeout(placed(text, timeout.missing), timeout.arrived, timeout.missing, timeout.seen);
    } catch (const PeerLost& lost) {
        throw PeerLost(placed(lost.what(), lost.ranks), lost.ranks);
    }
}

}  // namespace

std::string member_text(const MeshEntry& mesh_entry) {
    if (!mesh_entry.mesh_position || repeats_rank(mesh_entry.mesh)) return {};
    return to_string(mesh_entry.mesh.mesh.coord(*mesh_entry.mesh_position));
}

std::vector<MeshEntry*> lay_out(std::vector<MeshEntry>& mesh_entries, int rank,
                                const std::vector<int>& of_its_host) {
    auto order = std::vector<MeshEntry*>{};
    for (auto& mesh_entry : mesh_entries) order.push_back(&mesh_entry);
    std::ranges::sort(order, {}, [](const MeshEntry* mesh_entry) { return mesh_entry->mesh.name; });
    auto number = 0;
    for (auto* mesh_entry : order) {
        mesh_entry->mesh_position = mesh_position_of(mesh_entry->mesh, rank);
        const auto member = member_text(*mesh_entry);
        mesh_entry->group_entries.reserve(mesh_entry->mesh.items.size());
        for (const auto& item : mesh_entry->mesh.items) {
            auto& group_entry = mesh_entry->group_entries.emplace_back(
                MeshEntry::GroupEntry{.item = item, .number = number++});
            assign(*mesh_entry, group_entry, rank, of_its_host, member);
        }
    }
    return order;
}

const MeshEntry::GroupEntry* with_channel_of(const MeshEntry::GroupEntry& group_entry,
                                             std::span<const MeshEntry::GroupEntry* const> taken) {
    for (const auto* other : taken)
        if (other == &group_entry || shares_channel(*other, group_entry)) return other;
    return nullptr;
}

std::vector<const MeshEntry::GroupEntry*> with_channels(const std::vector<MeshEntry*>& order) {
    auto taken = std::vector<const MeshEntry::GroupEntry*>{};
    for (const auto* mesh_entry : order)
        for (const auto& group_entry : mesh_entry->group_entries) {
            if (mesh_entry->mesh.lazy || !group_entry.label || group_entry.label->ranks.size() == 1) continue;
            if (!with_channel_of(group_entry, taken)) taken.push_back(&group_entry);
        }
    return taken;
}

void connect_later(const MeshEntry& mesh_entry, MeshEntry::GroupEntry& group_entry, Joining& joining,
                   const std::vector<MeshEntry>& mesh_entries) {
    connect(mesh_entry, group_entry, joining, mesh_entries, false);
}

std::vector<MeshEntry> join(std::span<const Declaration> plan, std::optional<UsageError> wrong,
                            Joining& joining) {
    auto& exchange = joining.exchange;
    auto declared = std::string{};
    auto mesh_entries = std::vector<MeshEntry>{};
    auto order = std::vector<MeshEntry*>{};
    run_part(joining, [&] {
        try {
            if (wrong) throw UsageError(*wrong);
            auto meshes = make_blueprint(plan, exchange.size(), joining.timeout);
            declared = description(meshes);
            for (auto& mesh : meshes) mesh_entries.push_back({.mesh = std::move(mesh)});
            order = lay_out(mesh_entries, exchange.rank(), exchange.local_ranks());
            if (joining.device)
                for (const auto& mesh_entry : mesh_entries)
                    for (const auto& item : mesh_entry.mesh.items)
                        joining.device->check_settings(item.settings, mesh_entry.mesh.item_text(item));
            if (exchange.announces()) exchange.announce(joining.key, requests_of(order, joining));
        } catch (const UsageError& error) {
            // An invalid plan is compared like any other, so that no rank waits for one that has thrown.
            wrong = error;
            declared = cat("a wrong plan: ", error.what());
        }
    });
    if (joining.checked) append(declared, ", in checked mode");
    compare(exchange, declared, wrong ? nullptr : &mesh_entries.front().mesh);
    if (wrong) throw *wrong;
    run_part(joining, [&] {
        for (auto* mesh_entry : order)
            for (auto& group_entry : mesh_entry->group_entries)
                if (!mesh_entry->mesh.lazy || (group_entry.label && group_entry.label->ranks.size() == 1))
                    connect(*mesh_entry, group_entry, joining, mesh_entries, !mesh_entry->mesh.lazy);
    });
    return mesh_entries;
}

}  // namespace rankmesh::detail
