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
struct Place {
    /// One declared item: nothing to use where this rank has no part in it, no line while it is not
    /// connected.
    struct Seat {
        Item item;
        std::shared_ptr<const Label> label = nullptr;  // null: this rank has no part in it
        int position = 0;                              // of this rank in the group
        int number = 0;                                // among all items of the plan
        std::shared_ptr<Line> line = nullptr;
    };

    MeshBlueprint mesh;
    std::optional<int> position = std::nullopt;  // in the mesh, nothing outside it
    std::vector<Seat> seats = {};
};

/// What one join is made with.
struct Joining {
    Exchange& exchange;
    std::string key;  // the same on all ranks, and of this join only
    Duration deadline;
    std::shared_ptr<WorldState> world = nullptr;
    DeviceEngine* device = nullptr;
    bool checked = false;
    std::vector<std::shared_ptr<Channel>> channels = {};   // gets each channel once
    std::vector<std::shared_ptr<Channel>> on_device = {};  // and each that stands beside one
};

/// Where `rank` stands in each mesh and item, by arithmetic; the places in the order of creation, which must
/// not depend on the order in which a rank lists its meshes.
std::vector<Place*> lay_out(std::vector<Place>& places, int rank, const std::vector<int>& of_its_host);

/// The seats that join makes a channel for: one of all that share it.
std::vector<const Place::Seat*> with_channels(const std::vector<Place*>& order);
/// The one of them whose channel a seat has, null if there is none.
const Place::Seat* with_channel_of(const Place::Seat& seat, std::span<const Place::Seat* const> taken);

/// The places of this process in a plan that all ranks agree on, every channel made that is not deferred.
///
/// Costs one comparison of the plan, then one creation for each distinct group of two or more ranks that this
/// rank belongs to: none for groups of one, none for groups of other ranks.
/// `wrong`, if any, is what the caller has found wrong already: it is compared and thrown like all that is
/// found here.
std::vector<Place> join(std::span<const Declaration> plan, std::optional<Misuse> wrong, Joining& joining);

/// Connects one seat of this rank after join: over a channel with the same ranks, settings and separate name,
/// else over a new one.
void connect_later(Place& place, Place::Seat& seat, Joining& joining, const std::vector<Place>& places);

}  // namespace rankmesh::detail
