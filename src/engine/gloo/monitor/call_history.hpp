// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <utility>

#include <rankmesh/engine/detail/call.hpp>

#include "engine/roles.hpp"

namespace rankmesh::detail {

/// True for a message that may overtake those of other tags between its two ranks, as torch matches messages;
/// on threads it may not. A message has no edges, so Edge::open says it.
inline bool matches_by_tag(const Call& call) { return call.edge == Edge::open; }

/// The last calls of a rank on one channel. Peers compare them with theirs when a call takes long.
class CallHistory {
public:
    /// The calls that share one sequence of numbers: collectives, sends to one rank, receives from one rank.
    enum class Kind : std::uint32_t { collective, send, recv };
    /// The kind of a call at its other end: a send is another rank's recv.
    static Kind other_end(Kind kind) {
        return kind == Kind::send ? Kind::recv : kind == Kind::recv ? Kind::send : kind;
    }
    struct Entry {
        Kind kind = Kind::collective;
        int peer = -1;             // of a message
        std::uint32_t lane = 0;    // of a message, as lane_of has it
        std::uint64_t number = 0;  // from 1; 0: none
        Agreed agreed = {};        // of a message, its type, length and tag
        std::uint64_t unit = 1;
        std::vector<std::size_t> gives = {};    // with counts: the elements for each group rank
        std::vector<std::size_t> expects = {};  // with counts: the elements from each group rank

        bool has_counts() const { return kind == Kind::collective && traits(agreed.operation).counts; }
    };

    /// Adds a collective of a group of `size` ranks. Returns the mark of its data: data meets only data of
    /// equal calls.
    std::uint64_t add(const Call& call, std::uint64_t number, int size);
    /// Adds the next message to or from a rank.
    std::uint64_t add(Kind kind, int peer, const Call& call);

    /// The mark of the next message from a rank, if that is as `call`, a recv.
    std::uint64_t mark_of_next(int from, const Call& call) const;

    /// The entry of that call; null if this rank has not made it, or too long ago.
    const Entry* find(Kind kind, int peer, std::uint64_t number, std::uint32_t lane = 0) const;
    /// Lists the last calls of `own`, this rank, that `peer` takes part in, for `first_difference` there.
    std::string list_for(int peer, int own) const;
    /// The first call, by number, that `from` has listed and that differs here; null if none does.
    const Entry* first_difference(int from, int own, const char* listed, std::size_t bytes) const;

private:
    static Agreed agreed_of(Kind kind, const Call& call) {
        return {.operation = Operation::send,
                .dtype = call.dtype,
                .length = kind == Kind::recv ? call.out_count : call.in_count,
                .tag = call.tag};
    }
    /// Messages of two ranks with equal lanes have one sequence of numbers.
    static std::uint32_t lane_of(const Call& call) { return matches_by_tag(call) ? call.tag + 1U : 0; }
    Entry& next() { return entries_[added_++ % entries_.size()]; }
    static std::uint64_t between(const Entry& entry, int own, int peer);

    static constexpr std::size_t most_listed = 32;
    std::array<Entry, 64> entries_;
    std::size_t added_ = 0;
    /// How many were sent and received, by group rank and lane.
    std::map<std::pair<int, std::uint32_t>, std::array<std::uint64_t, 2>> messages_;
};

}  // namespace rankmesh::detail
