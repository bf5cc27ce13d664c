// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <rankmesh/engine/world.hpp>

#include "engine/join/exchange.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {

/// What an engine implements for one rank of a world.
class WorldState {
public:
    /// Throws Misuse for a deadline that is not longer than nothing.
    explicit WorldState(const WorldOptions& options) : options(options) { check_deadline(options.deadline); }
    virtual ~WorldState() = default;
    WorldState(const WorldState&) = delete;
    WorldState& operator=(const WorldState&) = delete;

    virtual std::string engine() const = 0;
    virtual Exchange& exchange() = 0;
    /// This rank leaves by an exception, and peers may wait for it. Never waits, never throws.
    virtual void leave(const std::string& what) noexcept = 0;

    int rank() { return exchange().rank(); }
    int size() { return exchange().size(); }

    /// Marks the world as in use by one thread for a collective of its own; throws Misuse if another thread
    /// is in one.
    class Use {
    public:
        explicit Use(WorldState& world) : world_(world) {
            if (world_.in_use_.exchange(true))
                throw Misuse("two threads join or prepare in one world at once; one thread at a time may");
        }
        ~Use() { world_.in_use_ = false; }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

    private:
        WorldState& world_;
    };

    const WorldOptions options;
    int joins = 0;  // how many plans were joined: tells their channels apart

private:
    std::atomic<bool> in_use_ = false;
};

}  // namespace rankmesh::detail
