// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/engine/plan.hpp>

#include "engine/device_engine.hpp"
#include "engine/exchange.hpp"
#include "engine/join/blueprint.hpp"

namespace rankmesh::detail {

/// One mesh of a plan, as this process sees it.
struct MeshEntry {
    /// One declared item: without a label where this rank is in none of its groups, without a state while it
    /// is not connected.
    struct GroupEntry {
        Item item;
        std::shared_ptr<const Label> label = nullptr;  // null: this rank is in no group of it
        int group_rank = 0;                            // of this rank in the group
        int number = 0;                                // among all items of the plan
        std::string key = {};                          // of a group made at run time, "" for a declared item
        std::shared_ptr<CommunicatorState> state = nullptr;
    };

    MeshBlueprint mesh;
    std::optional<int> mesh_position = std::nullopt;  // in the mesh, nothing outside it
    std::vector<GroupEntry> group_entries = {};
};

/// `pp=1 dp=0 tp=3`; "" outside the mesh, and in a mesh of one axis `world`, whose coordinate is the rank.
std::string member_text(const MeshEntry& mesh_entry);

/// The arguments and results of one join.
struct Joining {
    Exchange& exchange;
    std::string key;  // equal on all ranks, and unique to this join
    Duration timeout;
    std::shared_ptr<WorldState> world = nullptr;
    DeviceEngine* device = nullptr;
    bool checked = false;
    /// One group of two or more ranks that is connected, however many group entries share it.
    struct Connection {
        ChannelRequest request;
        Duration timeout;
        std::shared_ptr<Channel> host;
        std::shared_ptr<Channel> device = nullptr;  // of the same ranks, null without a device
        bool suspended = false;
        int resumed = 0;
        /// The key under which it was connected last.
        std::string key() const { return resumed == 0 ? request.key : cat(request.key, " again ", resumed); }
    };
    std::vector<Connection> connections = {};
    std::vector<MeshEntry::GroupEntry> groups = {};  // made at run time

    /// Leaves all channels. The host's channels come first: they tell peers which rank left, those of a
    /// device only that some rank did.
    void leave() noexcept {
        for (const auto& each : connections) each.host->leave();
        for (const auto& each : connections)
            if (each.device) each.device->leave();
    }
};

/// Finds the groups of `rank` in each mesh, by arithmetic; returns the entries in the order of creation,
/// which does not depend on the order in which a rank lists its meshes.
std::vector<MeshEntry*> lay_out(std::vector<MeshEntry>& mesh_entries, int rank,
                                const std::vector<int>& of_its_host);

/// The group entries for which join makes a channel: one of all that share it.
std::vector<const MeshEntry::GroupEntry*> with_channels(const std::vector<MeshEntry*>& order);
/// The one of them whose channel a group entry uses, null if there is none.
const MeshEntry::GroupEntry* with_channel_of(const MeshEntry::GroupEntry& group_entry,
                                             std::span<const MeshEntry::GroupEntry* const> taken);

/// Agrees on the plan with all ranks, then makes every channel of this process that is not lazy.
///
/// Costs one comparison of the plan, then one creation for each distinct group of two or more ranks that this
/// rank belongs to: none for groups of one, none for groups of other ranks.
/// `wrong`, if any, is an error that the caller found already: it is compared and thrown like those found
/// here.
std::vector<MeshEntry> join(std::span<const Declaration> plan, std::optional<UsageError> wrong,
                            Joining& joining);

/// Connects one group entry of this rank after join: over a channel with the same ranks, settings and
/// separate name, else over a new one.
void connect_later(const MeshEntry& mesh_entry, MeshEntry::GroupEntry& group_entry, Joining& joining,
                   const std::vector<MeshEntry>& mesh_entries);

}  // namespace rankmesh::detail
