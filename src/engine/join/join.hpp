// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/engine/plan.hpp>

#include "engine/join/blueprint.hpp"
#include "engine/join/exchange.hpp"

namespace rankmesh::detail {

/// This process's place in one mesh of a plan.
struct Place {
    /// One declared item: nothing to use where this rank has no part in it, no line while it is not
    /// connected.
    struct Seat {
        Item item;
        std::shared_ptr<const Label> label;  // null: this rank has no part in it
        int number = 0;                      // among all items of the plan
        std::shared_ptr<Line> line;
    };

    MeshBlueprint mesh;
    std::optional<int> position;  // in the mesh, nothing outside it
    std::vector<Seat> seats;
};

/// The places of this process in a plan that all ranks agree on, every channel made that is not deferred.
///
/// Costs one comparison of the plan, then one creation for each distinct group of two or more ranks that this
/// rank belongs to: none for groups of one, none for groups of other ranks. `channels` gets each channel
/// once.
/// `wrong`, if any, is what the caller has found wrong already: it is compared and thrown like all that is
/// found here.
std::vector<Place> join(const Plan& plan, std::optional<Misuse> wrong, Exchange& exchange,
                        const std::string& key, Duration deadline, const std::shared_ptr<void>& world,
                        std::vector<std::shared_ptr<Channel>>& channels);

/// Connects one seat: over a channel in `channels` with the same ranks and separate name, else over a new
/// one.
void connect(Place& place, Place::Seat& seat, Exchange& exchange, const std::string& key,
             const std::shared_ptr<void>& world, const std::vector<Place>& places,
             std::vector<std::shared_ptr<Channel>>& channels);

}  // namespace rankmesh::detail
