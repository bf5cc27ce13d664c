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
    /// called something else than the others; `engine`: the engine reports something else.
    enum class Kind : std::uint32_t { gone, left, timeout, disagreement, engine };
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
    /// The same as calls on the group of `label` throw it.
    std::exception_ptr error(const Label& label) const;
    [[noreturn]] void raise(const Label& label) const { std::rethrow_exception(error(label)); }
};

/// `all_reduce of 4 f32 by sum, call number 3`; messages are numbered separately.
std::string numbered(const Call& call, std::uint64_t number);

/// A timeout that expired on `rank` in a call; `what` is the call in words, as `numbered` gives them.
Failure expired(Duration timeout, int rank, const std::string& what, const Label& label,
                std::vector<int> arrived, std::vector<int> missing, std::string seen = {});

/// The same as other ranks of a group hear it, in another call.
Failure expired_elsewhere(const Label& label, std::vector<int> arrived, std::vector<int> missing,
                          std::string seen);

/// The same for a step that is not a call of a group, such as `join`; `missing_text` names the missing ranks.
Timeout expired_in(const std::string& phase, Duration timeout, int rank, const std::vector<int>& arrived,
                   const std::vector<int>& missing, const std::string& missing_text,
                   const std::string& seen = {});

/// What ranks have made as one call of a group: its text, and which of them, as world ranks; where there are
/// too many to list, `count` says how many.
struct DifferingCall {
    std::string text;
    std::vector<int> ranks;
    std::uint64_t count;
};
/// Ranks that have made something else than most, all of them where `of_two` must agree and differ; of the
/// `silent` ones it is not known what they made.
Failure differing_calls(std::uint64_t number, const Label& label, std::vector<DifferingCall> calls,
                        const std::vector<int>& silent = {}, bool of_two = false);

/// For errors of engines whose worlds have no survivors.
inline constexpr auto what_survives =
    "jobs go on without a rank on the engine 'gloo', with RANKMESH_STORE and processes that are started one "
    "by one";

/// For errors of worlds that no process can enter.
inline constexpr auto what_grows =
    "worlds grow on the engine 'gloo', with RANKMESH_STORE and processes that are started one by one";

}  // namespace rankmesh::detail
