// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world go over to the second store when the first is lost.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/membership/grow_agreement.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Collective over all ranks, at the start: sees that one of them serves the successor, and that all reach
/// it. Throws UsageError on all ranks where that is not so. What a user must know: `rank 1 serves ...`.
std::string check_successor(Rendezvous& rendezvous, const std::shared_ptr<Store>& first);

/// Finds out which rank serves the successor, in a process that has entered later. The place of the one that
/// serves `first`, -1 if it is no rank any more.
int find_servers(Store& first);

/// Nobody goes over any more: ranks go on without the one that serves the successor, which may live.
void forbid_failover(Successor& successor) noexcept;

/// The ranks of one world that go over.
///
/// The rank that serves the second store decides alone who goes on, and only once it is certain that the
/// process which served the first has ended: so no two worlds go on. Law: what one rank returns, all do that
/// are on the list; all others throw.
class Failover {
public:
    struct Rank {
        std::vector<int> places;  // of the world's ranks
        int rank = 0;             // of this one
        std::string about;        // what the others must know of this process
    };
    /// `lost` is what the store has thrown that has this successor.
    Failover(Successor& successor, Rank rank, const ServerLost& lost);

    /// The ranks that call this within `grace`, sooner if all others are among those that some rank knows to
    /// have `ended`. Throws PeerLost where the second store is lost as well, Timeout where the others have
    /// gone on without this rank, or nobody decides, and EngineFailure where rank 0 may live, then for good.
    GrownWorld world(Duration grace, const std::function<std::vector<int>()>& ended);
    /// The second store.
    const std::shared_ptr<Store>& store() const { return store_; }

private:
    std::string decided(Duration grace, const std::function<std::vector<int>()>& ended);
    std::string outcome_of_others(Duration grace, const std::function<std::vector<int>()>& ended);
    void tell_ended(const std::function<std::vector<int>()>& ended);
    int own_place() const { return own_.places[static_cast<std::size_t>(own_.rank)]; }

    Successor& successor_;
    const Rank own_;
    const std::string lost_;
    const std::shared_ptr<Store> store_;
    std::vector<int> told_;  // to have ended
};

}  // namespace rankmesh::detail
