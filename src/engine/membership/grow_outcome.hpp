// SPDX-License-Identifier: Apache-2.0
// The entries by which a world and the processes that wait to enter it agree, and the one that says the
// outcome.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/store/store.hpp"

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

/// The longest time that a process which waits to enter has to confirm that it is there.
inline constexpr auto longest_patience = std::chrono::seconds(2);

/// What a candidate says of itself: secret, place that it wishes, about.
inline std::string slot_key(int slot) { return cat("candidate.", slot); }
/// Offers the candidate of that secret a round of a world's growth.
inline std::string offer_key(const std::string& secret) { return cat("offer.", secret); }
/// The confirmation, in a round, of a rank or of the candidate of a secret.
inline std::string yes_key(const std::string& scope, int round, const std::string& who) {
    return cat(scope, "yes.", round, ".", who);
}

/// Pauses as a rank does that waits since `begin`.
inline void pause_for(const Store& store, Store::Instant begin) {
    pause_between_polls(
        begin, std::max<std::chrono::nanoseconds>(store.longest_pause(), std::chrono::milliseconds(5)));
}

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

/// The outcome of one call of grow: the larger world, or why there is none. The first that is set stands.
///
/// Each function that sets an outcome returns the one that stands.
struct GrowOutcome {
    const std::shared_ptr<Store> store;
    const std::string scope;  // the prefix of the keys of this call
    const int rank;           // in the world that grows
    const int size;

    std::string set(const std::string& outcome) const {
        if (store->set(key("outcome"), outcome, soon())) return outcome;
        return store->get({key("outcome")}, soon()).front().value_or(outcome);
    }
    std::string fail(const Failure& failure) const;
    /// All ranks throw UsageError.
    std::string refuse(const std::string& why) const;
    std::string lose(const std::vector<int>& ranks) const;
    /// Ranks do not come, or do not go on. `seen`: what they were last seen doing.
    std::string expire(Duration timeout, const std::vector<int>& missing, const std::string& seen) const;
    /// The world of an outcome; throws the error if it is none.
    Listed read(const std::string& outcome) const;

    std::string key(const std::string& name) const { return cat(scope, name); }
    std::string here(int each) const { return key(cat("here.", each)); }
    static Store::Instant soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }
    std::string as_before() const { return cat("the world of ", counted(size, "rank"), " is as it was"); }
};

/// How long a rank waits. An invalid timeout waits until every rank has the error.
Duration wait_of(const Growth& asked);
/// The time that a rank or a candidate has to confirm that it is there.
Duration patience_of(const Growth& asked);

}  // namespace rankmesh::detail
