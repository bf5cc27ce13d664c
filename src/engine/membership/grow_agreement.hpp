// SPDX-License-Identifier: Apache-2.0
// How a world and the processes that wait to enter it agree on the larger world.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/membership/next_world.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Chooses at most `most` candidates to enter a world whose ranks have these places: index and place of each.
/// A candidate gets the place that it wishes; a wish of -1 gets the lowest free place. Of two that wish the
/// same place the first enters. A candidate whose place is taken does not.
std::vector<std::pair<std::size_t, int>> choose(std::span<const int> places, std::span<const int> wishes,
                                                int most);

/// The side of the ranks of the world, all of which call `grow` at a point that they choose.
///
/// Rank 0 leads. The outcome is one entry, and the first that is set stands: the larger world, or why there
/// is none. A rank that loses another one or waits too long sets the latter. Law: all ranks that have not
/// ended return or throw the same; processes that enter hold the same.
class GrowAgreement {
public:
    /// `scope` is the prefix of the world's keys; `places` are those of its ranks, empty for a world whose
    /// ranks are a part of another's.
    GrowAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                  std::vector<int> places);

    /// Returns the failure with which the ranks of the world make another one, null while they do not.
    using Renewed = std::function<const Failure*()>;
    /// Throws on all ranks: Timeout if a rank does not call this in time, or no process enters; PeerLost if a
    /// rank ends, which `ended` lists, or if one makes another world; Disagreement; UsageError. Takes at most
    /// twice the timeout, and a little more if rank 0 is lost.
    NextWorld grow(const Growth& asked, const std::function<std::vector<int>()>& ended,
                   const Renewed& renewed = [] { return nullptr; });

    const std::vector<int>& places() const { return places_; }
    /// The entries of failed calls. Nobody reads them once the ranks have taken a step elsewhere.
    std::vector<std::string> take_leftovers() { return std::exchange(leftovers_, {}); }

private:
    struct Candidate {
        int slot = 0;
        std::string secret;
        int wish = -1;
        std::string about;
    };
    /// Who is asked whether it is there: a rank, or the candidate in a slot.
    struct Asked {
        int rank = 0;
        int slot = -1;
    };
    struct Leading;
    using Instant = Store::Instant;
    /// Lists the ranks that have ended, given the ranks that have not come.
    using Lost = std::function<std::vector<int>(const std::vector<int>& absent)>;

    std::string lead(const Growth& asked, const Lost& lost, const std::function<std::vector<int>()>& ended);
    std::string follow(const Growth& asked, const Lost& lost);
    bool is_decided(Leading& leading);
    void take_ranks(Leading& leading, std::span<const std::optional<std::string>> said);
    void take_candidates(Leading& leading, std::span<const std::optional<std::string>> slots);
    std::string refusal(const Leading& leading);
    bool is_confirmed(Leading& leading);
    bool have_answered(Leading& leading, std::map<std::string, Asked> asked);
    std::string decide(const std::string& outcome);
    std::string decide(const Failure& failure);
    std::string decide_lost(const std::vector<int>& lost);
    std::string decide_renewed(Failure failure);
    std::string decide_late(const Leading& leading);
    std::string decide_missing(Duration timeout, const std::vector<int>& missing, const std::string& seen);
    std::string decide_larger(const Leading& leading);
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

}  // namespace rankmesh::detail
