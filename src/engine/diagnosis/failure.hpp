// SPDX-License-Identifier: Apache-2.0
// Failure, the reason why calls fail, the same on every engine, and the only place that makes errors and
// texts of it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Why a group cannot be used any more: the same on all its ranks. Ranks are world ranks.
struct Failure {
    /// `gone`: a process has ended or cannot be reached; `left`: a rank has left; `disagreement`: `lost` have
    /// called something else than the others; `engine`: the engine reports something else; `renewed`: a rank
    /// makes a new world, because of the `lost` ranks if it names others than itself.
    enum class Kind : std::uint32_t { gone, left, timeout, disagreement, engine, renewed };
    Kind kind = Kind::engine;
    std::string why;
    std::vector<int> lost = {};
    std::vector<int> arrived = {};
    std::vector<int> missing = {};
    std::string seen = {};  // what those were last seen doing

    static Failure of(const Timeout& timeout) {
        return {.kind = Kind::timeout,
                .why = timeout.what(),
                .arrived = timeout.arrived,
                .missing = timeout.missing};
    }
    static Failure of(const PeerLost& lost) {
        return {.kind = Kind::gone, .why = lost.what(), .lost = lost.ranks};
    }
    static Failure of(const Disagreement& differs) {
        return {.kind = Kind::disagreement, .why = differs.what(), .lost = differs.ranks};
    }
    /// The error of its kind, with `why` as its text: PeerLost, Timeout, Disagreement or EngineFailure.
    std::exception_ptr error() const;
    /// The error as calls on the group of `label` throw it.
    std::exception_ptr error(const Label& label) const;
    [[noreturn]] void raise(const Label& label) const { std::rethrow_exception(error(label)); }
};

/// `all_reduce of 4 f32 by sum, call number 3`; messages are numbered separately. `ranks` are those of the
/// group, or null.
std::string numbered(const Call& call, std::uint64_t number, const Ranks* ranks);

/// For errors of engines whose worlds have no survivors.
inline constexpr auto what_survives =
    "jobs go on without a rank on the engine 'gloo', with RANKMESH_STORE and processes that are started one "
    "by one";

/// For errors of worlds that no process can enter.
inline constexpr auto what_grows =
    "worlds grow on the engine 'gloo', with RANKMESH_STORE and processes that are started one by one";

}  // namespace rankmesh::detail
