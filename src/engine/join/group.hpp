// SPDX-License-Identifier: Apache-2.0
// Groups of any ranks, made after join by their members alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/join/join.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

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
