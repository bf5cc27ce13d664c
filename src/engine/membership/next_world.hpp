// SPDX-License-Identifier: Apache-2.0
// The next world of a job, which ranks have entered: as its ranks know it, and as an entry of a store holds
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The most processes that can wait to enter a job, and so enter at once.
inline constexpr auto most_candidates = 256;

/// What a rank asks when its world grows.
struct Growth {
    int most = 1;  // processes that may enter
    Duration timeout{};
    std::string about = {};   // what the other ranks must know of this process
    std::string common = {};  // what new ranks must know of the world, the same on all its ranks
};

/// The next world of a job, as all its ranks know it: ranks of the world before, and ranks that have entered.
/// A rank's place is its number in the first world of the job, or the place of the rank that it has replaced.
struct NextWorld {
    int rank = 0;                          // of this process
    std::vector<int> places;               // by rank, ascending
    std::vector<std::string> abouts = {};  // by rank
    std::string common = {};
    std::string scope = {};    // the prefix of its keys, which no other world has
    std::string outcome = {};  // the entry that says all this
};

/// A world that is decided, and the secret by which each process knows itself in it, by rank: "" if the
/// process knows its place.
struct Listed {
    NextWorld world;
    std::vector<std::string> secrets;
};
/// The text of an entry that says the world; `read_listed` reads it.
std::string to_text(const Listed& listed);
/// Reads the parts of an outcome under `scope`; nothing for any outcome but a world.
std::optional<Listed> read_listed(const std::vector<std::string>& parts, const std::string& scope);
/// Reads a text of another rank that is a number.
int read_number(const std::string& text);

}  // namespace rankmesh::detail
