// SPDX-License-Identifier: Apache-2.0
// How a world and the processes that wait to enter it agree on the larger world.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/membership/grow_outcome.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Chooses at most `most` candidates to enter a world whose ranks have these places: index and place of each.
/// A candidate gets the place that it wishes; a wish of -1 gets the lowest free place. Of two that wish the
/// same place the first enters. A candidate whose place is taken does not.
std::vector<std::pair<std::size_t, int>> choose(std::span<const int> places, std::span<const int> wishes,
                                                int most);

/// Lists the ranks that have ended, given the ranks that have not come; throws if a rank makes another world.
using LostRanks = std::function<std::vector<int>(const std::vector<int>& absent)>;

/// Rank 0's part of a call of grow; returns the outcome. `ended` also lists ranks whose connection was cut
/// before.
std::string lead_growth(const GrowOutcome& outcome, const std::vector<int>& places, const Growth& asked,
                        const LostRanks& lost, const std::function<std::vector<int>()>& ended);

/// The side of the ranks of the world, all of which call `grow` at a point that they choose.
///
/// Rank 0 leads. A rank that loses another one or waits too long sets an outcome that says so. Law: all ranks
/// that have not ended return or throw the same; processes that enter hold the same.
class GrowAgreement {
public:
    /// `scope` is the prefix of the world's keys; `places` are those of its ranks, empty for a world whose
    /// ranks are a part of another's.
    GrowAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                  std::vector<int> places)
        : store_(std::move(store)),
          scope_(std::move(scope)),
          rank_(rank),
          size_(size),
          places_(std::move(places)) {}

    /// Returns the failure with which the ranks of the world make another one, null while they do not.
    using Renewed = std::function<const Failure*()>;
    /// Throws on all ranks: Timeout if a rank does not call this in time, or no process enters; PeerLost if a
    /// rank ends, which `ended` lists, or if one makes another world; Disagreement; UsageError. Takes at most
    /// twice the timeout, and a little more if rank 0 is lost.
    NextWorld grow(
        const Growth& asked, const std::function<std::vector<int>()>& ended,
        const Renewed& renewed = [] { return nullptr; });

    const std::vector<int>& places() const { return places_; }
    /// The entries of failed calls. Nobody reads them once the ranks have taken a step elsewhere.
    std::vector<std::string> take_leftovers() { return std::exchange(leftovers_, {}); }

private:
    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const int rank_;
    const int size_;
    const std::vector<int> places_;
    std::vector<std::string> leftovers_;
    int number_ = 0;  // how often the world was to grow
};

/// Waits, in a process that enters a running job, until a world of the store's job grows and lets it in.
/// `place` is the place that it wishes, nothing for any. Throws Timeout after `timeout`.
NextWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout);

}  // namespace rankmesh::detail
