// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <rankmesh/engine/world.hpp>

#include "engine/join/exchange.hpp"

namespace rankmesh::detail {

/// What an engine implements for one rank of a world.
class WorldState {
public:
    explicit WorldState(const WorldOptions& options) : options(options) {}
    virtual ~WorldState() = default;
    WorldState(const WorldState&) = delete;
    WorldState& operator=(const WorldState&) = delete;

    virtual std::string engine() const = 0;
    virtual Exchange& exchange() = 0;
    /// This rank leaves by an exception, and peers may wait for it. Never waits, never throws.
    virtual void leave(const std::string& what) noexcept = 0;

    int rank() { return exchange().rank(); }
    int size() { return exchange().size(); }

    const WorldOptions options;
    int joins = 0;  // how many plans were joined: tells their channels apart
};

}  // namespace rankmesh::detail
