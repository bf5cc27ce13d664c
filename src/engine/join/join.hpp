// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <rankmesh/engine/plan.hpp>
#include <rankmesh/engine/usage.hpp>

#include "engine/exchange.hpp"
#include "engine/join/blueprint.hpp"
#include "engine/world_state.hpp"

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

/// What a Member and its views share.
struct MemberState {
    std::shared_ptr<WorldState> world;
    Joining joining;
    std::vector<MeshEntry> mesh_entries = {};
};

// What idle communicators hold is released, brought back, and counted.

/// Releases what connections hold, once all their ranks have called this. Does nothing with those that are
/// suspended. Throws UsageError, and changes nothing, if calls are pending on one.
void suspend(Joining& joining, std::span<Joining::Connection* const> connections);
/// Connects their ranks again. Does nothing with those that are not suspended.
void resume(Joining& joining, std::span<Joining::Connection* const> connections);
/// Counts what the connections hold now.
Usage usage_of(std::span<Joining::Connection* const> connections);

// What a program names in a plan that it has joined. Each function throws UsageError if it is not there, with
// what there is and the call to make.

using Names = std::span<const std::string_view>;

/// The state of a member; throws UsageError if the member was moved from.
MemberState& valid(const std::shared_ptr<MemberState>& state);

/// `"a", "b"`: as names are written in code.
std::string quoted(Names names);
/// `; did you mean 'tp'?`, or all names: `; it has dp, tp`.
std::string there_is(std::string_view word, const std::vector<std::string_view>& known);

/// The mesh of a member; `mesh` is its index, -1 for a plan of several meshes.
MeshEntry& mesh_of(const std::shared_ptr<MemberState>& state, int mesh);
/// The mesh in which `call("axis")` asks for indices along an axis, or among local ranks; `more` is written
/// after the axis.
MeshEntry& mesh_along(const std::shared_ptr<MemberState>& state, int mesh, std::string_view axis,
                      std::string_view call, std::string_view more = {});
/// The mesh in which `call("a", "b")` asks for a communicator: of axes, or of a pick, a separate set or local
/// ranks.
MeshEntry& mesh_with(const std::shared_ptr<MemberState>& state, int mesh, Names names, std::string_view call);
/// The mesh that has all axes of a coordinate.
MeshEntry& mesh_at(const std::shared_ptr<MemberState>& state, int mesh, const Coordinate& coordinate);

/// This rank's position in a mesh.
int position_in(const MemberState& state, const MeshEntry& mesh_entry);

/// The local ranks of that name; null if none are declared.
const MeshEntry::GroupEntry* local_group_entry(const MeshEntry& mesh_entry, std::string_view name);
/// The group entry of a set of axes, or of a pick or separate; null for axes that were not declared.
MeshEntry::GroupEntry* group_entry_of(MeshEntry& mesh_entry, Names names);
/// The declared group entry; the error names the declaration to add.
MeshEntry::GroupEntry& declared(MeshEntry& mesh_entry, Names names);

// Groups of any ranks, made after join by their members alone.

/// A group that is made at run time.
struct NewGroup {
    std::vector<int> ranks;  // of the world, this one among them
    std::string name = {};   // in errors
    std::optional<Duration> timeout = std::nullopt;
    DeviceSettings settings = {};
};

/// `{3, 17, 40}`, or for a long list `200 ranks from 3`.
std::string short_text(const std::vector<int>& ranks);

/// Returns if all ranks of a new group describe it as this one does; otherwise all that take part throw
/// Disagreement, with each description and its ranks. Throws Timeout with the ranks that have not come.
///
/// Costs one message from each rank to each other one.
void agree_on_group(Exchange& exchange, GroupCounts& counts, const NewGroup& group, const Label& label,
                    Duration timeout);

/// The parts of a communicator that `color` and `key` make: of each of its ranks in order.
struct Colored {
    int rank = 0;  // of the world
    std::optional<int> color = std::nullopt;
    int key = 0;
};
/// The ranks of one color, by key and then in their order; empty without a color.
std::vector<int> of_color(std::optional<int> color, std::vector<Colored> all);
/// What all ranks of the world give; called by all of them.
std::vector<Colored> gather_colors(Exchange& exchange, const Colored& own, Duration timeout);

/// The label of a new group; coordinates are those of `mesh`.
std::shared_ptr<const Label> label_of(const NewGroup& group, const MeshEntry& mesh);
/// Makes the channel of a group on which its ranks agree, unless this rank has one with the same ranks and
/// settings. Called by all its ranks; `world` is theirs.
std::shared_ptr<CommunicatorState> make_group(const NewGroup& group, std::shared_ptr<const Label> label,
                                              const MeshEntry& mesh,
                                              const std::vector<MeshEntry>& mesh_entries, Joining& joining,
                                              GroupCounts& counts);

}  // namespace rankmesh::detail
