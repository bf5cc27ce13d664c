// SPDX-License-Identifier: Apache-2.0
// Failure, the reason why calls fail, the same on every engine, and the only place that makes errors and
// texts of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
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

/// The text by which a rank tells others of a failure: three lists of ranks, the reason, and what ranks were
/// last seen doing, with zero bytes between. It has at most `most` bytes unless the reason is longer; lists
/// that take a quarter of them are left out.
std::string to_text(const Failure& failure, std::size_t most = std::string::npos);
/// Reads such a text, which ends with a zero byte; throws EngineFailure for any other, and for more than
/// `most_ranks` in a list.
Failure failure_from(std::uint32_t kind, std::string_view text, std::size_t most_ranks);

/// What ranks have made as one call of a group: its text, and which of them, as world ranks; where there are
/// too many to list, `count` says how many.
struct DifferingCall {
    std::string text;
    std::vector<int> ranks;
    std::uint64_t count;
};
/// Adds a rank to those that have made the call of this text.
void add_call(std::vector<DifferingCall>& calls, const std::string& text, int rank);
/// The ranks that have called something else than most are blamed, or all of them where `of_two` must agree.
/// It is not known what the `silent` ranks called.
Failure differing_calls(std::uint64_t number, const Label& label, std::vector<DifferingCall> calls,
                        const std::vector<int>& silent = {}, bool of_two = false);

/// One end of a message: a world rank, its name in the text, `rank 1 [dp=1]`, and what it sends or receives.
struct MessageEnd {
    int rank;
    std::string name;
    std::string what;
};
/// The two ends of the `number`-th message from one rank to the other differ; both are blamed.
Failure differing_ends(std::uint64_t number, const Label& label, const MessageEnd& sender,
                       const MessageEnd& receiver);

}  // namespace rankmesh::detail
