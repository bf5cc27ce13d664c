// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/agreed.hpp"

namespace rankmesh::detail {

/// The last calls of a rank on one channel, which its peers compare with theirs when a call takes long.
class CallHistory {
public:
    /// The calls that are numbered together: the collectives, and what goes to or comes from one rank.
    enum class Kind : std::uint32_t { collective, send, recv };
    /// The kind of a call at its other end: a send is another rank's recv.
    static Kind other_end(Kind kind) {
        return kind == Kind::send ? Kind::recv : kind == Kind::recv ? Kind::send : kind;
    }
    struct Entry {
        Kind kind = Kind::collective;
        int peer = -1;             // of a message
        std::uint64_t number = 0;  // from 1; 0: none
        Agreed agreed = {};        // of a message, its type, length and tag
        std::uint64_t unit = 1;
        std::vector<std::size_t> gives = {};    // with counts: the elements for each rank
        std::vector<std::size_t> expects = {};  // and from each

        bool has_counts() const { return kind == Kind::collective && traits(agreed.operation).counts; }
    };

    /// Adds a collective; `size` is that of the group. Returns the mark by which its data finds the data of
    /// equal calls, and no other.
    std::uint64_t add(const Call& call, std::uint64_t number, int size);
    /// The same for the next message to or from a rank.
    std::uint64_t add(Kind kind, int peer, const Call& call);

    /// The entry of that call, null if it was not made or lies too far back.
    const Entry* find(Kind kind, int peer, std::uint64_t number) const;
    /// The last calls that `peer` takes part in, for its `first_difference`; `own` is this rank.
    std::string known_to(int peer, int own) const;
    /// The entry of the first of the calls that `from` has listed, by number, that differs here, null if none
    /// does.
    const Entry* first_difference(int from, int own, const char* listed, std::size_t bytes) const;

private:
    Entry& next();
    static std::uint64_t between(const Entry& entry, int own, int peer);

    static constexpr std::size_t most_listed = 32;
    std::array<Entry, 64> entries_;
    std::size_t added_ = 0;
    std::vector<std::array<std::uint64_t, 2>> messages_;  // by group rank: sent, and received
};

}  // namespace rankmesh::detail
