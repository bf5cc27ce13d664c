// SPDX-License-Identifier: Apache-2.0
// The engines that there are, built or not: all that is not inside one of them asks this list.
#pragma once

#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::detail {

/// What an engine's own folder says of it, also where it was not built.
struct Engine {
    std::string_view name;
    /// The library that it works with; "" where it was not built. Null: it needs none, and every build has
    /// it.
    std::string (*library)() = nullptr;
    /// True if it was built and this process was started for it; null: only its name chooses it.
    bool (*started)() = nullptr;
    /// The world of this process; throws NotBuilt. Null: it works beside another engine, on devices.
    World (*create)(int argc, char** argv, const WorldOptions& options) = nullptr;
    /// The world of a running job that this process enters; throws NotBuilt. Null: none can be entered.
    World (*rejoin)(const WorldOptions& options) = nullptr;
    /// What a join takes of it; null: nothing.
    EngineNeed (*need)(const JoinCost& cost) = nullptr;

    bool is_built() const { return !library || !library().empty(); }
};

/// All of them; the first is for a process that was started for none, and of the others the first one that it
/// was started for is chosen.
std::span<const Engine> engines();

}  // namespace rankmesh::detail
