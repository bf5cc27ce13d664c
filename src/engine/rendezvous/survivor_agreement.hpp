// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/rendezvous/store.hpp"

namespace rankmesh::detail {

/// How ranks of a world find out who of them goes on, by entries in a store.
///
/// In each round all that go on say that they are here, and the lowest of them writes the list for all. Who
/// is to gather and does not is replaced by the next, and the first list that is written stands.
/// Law: a list is returned once every rank on it has seen it, and on all of these ranks.
class SurvivorAgreement {
public:
    /// `scope` begins the names of all entries of the world; the store may take up to `timeout` for each
    /// look.
    SurvivorAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout);

    /// The ranks that call this within `grace`, in order; at once if the others are known not to come.
    /// `ended`: those that this rank knows of. Throws Timeout if the others have gone on without this rank.
    std::vector<int> survivors(Duration grace, const std::function<std::vector<int>()>& ended);
    /// This rank will not come.
    void stay_away(Store::Instant until) { say_gone(rank_, until); }
    /// How many lists were written: tells the worlds of the survivors apart.
    int rounds() const { return rounds_; }

private:
    std::vector<int> round(Duration grace, const std::function<std::vector<int>()>& ended);
    void say_gone(int rank, Store::Instant until);
    std::string gone(int rank) const;

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const int rank_;
    const Duration timeout_;
    std::vector<int> ranks_;  // that may still come
    std::set<int> said_gone_;
    int rounds_ = 0;
};

}  // namespace rankmesh::detail
