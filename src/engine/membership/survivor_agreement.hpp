// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Agreement of a world's surviving ranks on the list of survivors, through entries in a store.
///
/// In each round every survivor registers, and the lowest of them, the leader, sets the list. The next rank
/// replaces a leader that does not set it in time. The first list that is set stands. Law: a rank returns a
/// list once every rank on it has seen it, and all of these ranks return it.
class SurvivorAgreement {
public:
    /// `scope` is the prefix of the world's keys; the store has `timeout` for each request.
    SurvivorAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout)
        : store_(std::move(store)), scope_(std::move(scope)), rank_(rank), size_(size), timeout_(timeout) {}

    /// The ranks that call this within `grace`, in order; at once if it is known that no others will.
    /// `ended` lists ranks known to have ended. Throws Timeout if the others have agreed without this rank.
    std::vector<int> survivors(Duration grace, const std::function<std::vector<int>()>& ended);
    /// Announces that this rank will not take part.
    void stay_away(Store::Instant until) { say_gone(rank_, until); }
    /// The number of lists so far, which distinguishes the worlds of survivors.
    int rounds() const { return rounds_; }

private:
    std::vector<int> round(Duration grace, const std::function<std::vector<int>()>& ended);
    void say_gone(int rank, Store::Instant until) {
        if (store_ && said_gone_.insert(rank).second) store_->set(gone(rank), "", until);
    }
    std::string gone(int rank) const { return cat(scope_, "gone.", rank); }

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const int rank_;
    const int size_;
    const Duration timeout_;
    std::vector<int> ranks_;  // that may still arrive; empty until the first round
    std::set<int> said_gone_;
    int rounds_ = 0;
};

}  // namespace rankmesh::detail
