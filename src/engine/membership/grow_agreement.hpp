// SPDX-License-Identifier: Apache-2.0
// How a world and the processes that wait to enter it agree on the larger one, before anything of it is made.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// The most processes that can wait to enter a job, and so enter at once.
inline constexpr auto most_candidates = 256;

/// Which candidates enter a world whose ranks have these places, at most `most`, and the place of each: the
/// one that it wishes, -1 for any, which is then the lowest that is free. Of two that wish the same place the
/// first enters; one whose place is taken does not.
std::vector<std::pair<std::size_t, int>> choose(std::span<const int> places, std::span<const int> wishes,
                                                int most);

/// What a rank asks when its world grows.
struct Growth {
    int most = 1;  // processes that may enter
    Duration timeout{};
    std::string about = {};   // what the other ranks must know of this process
    std::string common = {};  // what those that enter must know of the world, the same on all its ranks
};

/// A world of ranks that were there before and of those that have entered, as all of them know it.
struct GrownWorld {
    int rank = 0;                          // of this process
    std::vector<int> places;               // by rank, ascending
    std::vector<std::string> abouts = {};  // by rank
    std::string common = {};
    std::string scope = {};    // the prefix of its keys, which no other world has
    std::string outcome = {};  // the entry that says all this
};

/// The number that is all of what another rank says.
int read_number(const std::string& text);

/// A world that is decided, and by which secret each process knows itself in it, by rank: "" where it knows
/// its place.
struct Listed {
    GrownWorld world;
    std::vector<std::string> secrets;
};
std::string to_text(const Listed& listed);
/// Reads what `to_text` has written, the parts of an outcome under `scope`; nothing for any other outcome.
std::optional<Listed> read_listed(const std::vector<std::string>& parts, const std::string& scope);

/// The side of the ranks that are there: all of them call `grow`, at the point that they choose.
///
/// Rank 0 leads. All that is decided is one entry, the outcome, of which the first that is written stands:
/// the larger world, or why there is none. Whoever loses a rank or waits too long writes the latter.
/// Law: what one rank returns or throws, all do that are not ended; those that enter hold the same.
class GrowAgreement {
public:
    /// `scope` is the prefix of the world's keys; `places` are those of its ranks, empty for a world whose
    /// ranks are a part of another's.
    GrowAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                  std::vector<int> places);

    /// Throws Timeout where a rank does not call this in time, or no process enters, PeerLost where one of
    /// the ranks ends, which `ended` lists, Disagreement and UsageError, on all ranks. It takes at most twice
    /// the timeout, and somewhat more where rank 0 is lost.
    GrownWorld grow(const Growth& asked, const std::function<std::vector<int>()>& ended);

    const std::vector<int>& places() const { return places_; }
    /// The entries of calls that have failed, which nobody reads once its ranks have taken a step elsewhere.
    std::vector<std::string> take_leftovers() { return std::exchange(leftovers_, {}); }

private:
    struct Candidate {
        int slot = 0;
        std::string secret;
        int wish = -1;
        std::string about;
    };
    struct Leading;
    using Instant = Store::Instant;
    /// The ranks that have ended, given those that have not come.
    using Lost = std::function<std::vector<int>(const std::vector<int>& absent)>;

    std::string lead(const Growth& asked, const Lost& lost, const std::function<std::vector<int>()>& ended);
    std::string follow(const Growth& asked, const Lost& lost);
    bool confirmed(Leading& leading, const std::vector<std::pair<std::size_t, int>>& chosen);
    std::string decide(const std::string& outcome);
    std::string decide(const Failure& failure);
    std::string decide_lost(const std::vector<int>& lost);
    std::string key(const std::string& name) const { return cat(grow_scope_, name); }
    Instant soon() const { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }
    std::string as_before() const;

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const int rank_;
    const int size_;
    const std::vector<int> places_;
    std::vector<std::string> leftovers_;
    int number_ = 0;          // how often the world was to grow
    std::string grow_scope_;  // of the last time
};

/// The side of a process that enters: waits until a world of the store's job grows, up to `timeout`, then
/// throws Timeout. `place` is the one that it wishes; others get any.
GrownWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout);

}  // namespace rankmesh::detail
