// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/engine/plan.hpp>

#include "engine/device_engine.hpp"
#include "engine/join/blueprint.hpp"
#include "engine/join/exchange.hpp"

namespace rankmesh::detail {

/// This process's place in one mesh of a plan.
struct MeshEntry {
    /// One declared item: nothing to use where this rank has no part in it, no state while it is not
    /// connected.
    struct GroupEntry {
        Item item;
        std::shared_ptr<const Label> label = nullptr;  // null: this rank has no part in it
        int group_rank = 0;                            // of this rank in the group
        int number = 0;                                // among all items of the plan
        std::shared_ptr<CommunicatorState> state = nullptr;
    };

    MeshBlueprint mesh;
    std::optional<int> mesh_position = std::nullopt;  // in the mesh, nothing outside it
    std::vector<GroupEntry> group_entries = {};
};

/// What one join is made with.
struct Joining {
    Exchange& exchange;
    std::string key;  // the same on all ranks, and of this join only
    Duration timeout;
    std::shared_ptr<WorldState> world = nullptr;
    DeviceEngine* device = nullptr;
    bool checked = false;
    std::vector<std::shared_ptr<Channel>> channels = {};   // gets each channel once
    std::vector<std::shared_ptr<Channel>> on_device = {};  // and each that stands beside one
};

/// Where `rank` stands in each mesh and item, by arithmetic; the mesh_entries in the order of creation, which
/// must not depend on the order in which a rank lists its meshes.
std::vector<MeshEntry*> lay_out(std::vector<MeshEntry>& mesh_entries, int rank,
                                const std::vector<int>& of_its_host);

/// The group_entries that join makes a channel for: one of all that share it.
std::vector<const MeshEntry::GroupEntry*> with_channels(const std::vector<MeshEntry*>& order);
/// The one of them whose channel a group_entry has, null if there is none.
const MeshEntry::GroupEntry* with_channel_of(const MeshEntry::GroupEntry& group_entry,
                                             std::span<const MeshEntry::GroupEntry* const> taken);

/// The mesh_entries of this process in a plan that all ranks agree on, every channel made that is not
/// deferred.
///
/// Costs one comparison of the plan, then one creation for each distinct group of two or more ranks that this
/// rank belongs to: none for groups of one, none for groups of other ranks.
/// `wrong`, if any, is what the caller has found wrong already: it is compared and thrown like all that is
/// found here.
std::vector<MeshEntry> join(std::span<const Declaration> plan, std::optional<UsageError> wrong,
                            Joining& joining);

/// Connects one group_entry of this rank after join: over a channel with the same ranks, settings and
/// separate name, else over a new one.
void connect_later(MeshEntry& mesh_entry, MeshEntry::GroupEntry& group_entry, Joining& joining,
                   const std::vector<MeshEntry>& mesh_entries);

}  // namespace rankmesh::detail
