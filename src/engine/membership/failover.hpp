// SPDX-License-Identifier: Apache-2.0
// Store failover: if the process that serves a job's store ends, the other ranks go on by a second store.
// `open_store` makes a FailoverStore, and StoreRendezvous calls it; nothing else knows of a second store.
// docs/design/0020-tcp-store.md says why.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/membership/next_world.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/store/served_store.hpp"

namespace rankmesh::detail {

/// A store with a second one, which another rank serves and which is empty until ranks fail over to it.
///
/// As a Store it is the first. A rank that finds the first lost calls `fail_over`. The rank that serves the
/// second decides alone who goes on, and only once the process that served the first has ended for certain:
/// no two worlds go on. Law: all ranks on the list return the same list; all others throw.
class FailoverStore final : public Store {
public:
    struct Second {
        std::shared_ptr<ServedStore> store;
        std::string name;                 // `the second store 'tcp://other:29511'`
        std::string why_not_served = {};  // why this process failed to serve it
        int place = -1;                   // of the rank that serves it, -1 while that is unknown
    };
    FailoverStore(std::shared_ptr<ServedStore> first, Second second);
    /// `store`, if it has a second one; null otherwise.
    static std::shared_ptr<FailoverStore> of(const std::shared_ptr<Store>& store) {
        return std::dynamic_pointer_cast<FailoverStore>(store);
    }

    bool set(const std::string& name, const std::string& text, Instant until) override;
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override;
    std::vector<std::optional<std::string>> wait(const std::vector<std::string>& names, Instant longest,
                                                 Instant until) override;
    bool can_wait() const override { return first_->can_wait(); }
    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        first_->remove(names, until);
    }
    std::chrono::microseconds longest_pause() const override { return first_->longest_pause(); }
    std::string text() const override { return first_->text(); }
    const std::string& job() const override { return first_->job(); }
    const std::shared_ptr<ServedStore>& first() const { return first_; }
    const std::shared_ptr<ServedStore>& second() const { return second_.store; }
    const std::string& second_name() const { return second_.name; }

    /// Collective over all ranks at the start of a job: checks that one rank serves the second store, and
    /// that all ranks reach it. Throws UsageError on all ranks otherwise. Returns `rank 1 serves ...`.
    std::string check(Rendezvous& rendezvous);
    /// Finds, in a process that has entered later, which ranks serve the stores. Returns the place of the
    /// rank that serves the first, -1 if none does.
    int find_servers();
    /// Notes that the ranks at the places `before` go on as those at `after`, by the first store. One rank,
    /// which `writes`, notes it in the stores. Returns what a user must know of it, "" for nothing.
    std::string shrink(const std::vector<int>& before, const std::vector<int>& after, bool writes,
                       Instant until);

    /// A rank of the world that fails over.
    struct Member {
        std::vector<int> places;  // of the world's ranks
        int rank = 0;             // of this one
        std::string about;        // what the others must know of this process
        int place() const { return places[static_cast<std::size_t>(rank)]; }
    };
    struct Outcome {
        NextWorld world;
        std::shared_ptr<Store> store;  // the second
        int server = -1;               // the rank that serves it
        std::string said;              // what a user must know
    };
    /// The ranks that call this within `grace`; sooner if all others have `ended` as far as some rank knows.
    /// `lost` is what the first store has thrown.
    ///
    /// Throws PeerLost if the second store is lost as well; Timeout if the others have gone on without this
    /// rank, or nobody decides; EngineFailure if the process that served the first may live, for good.
    Outcome fail_over(const Member& member, Duration grace, const std::function<std::vector<int>()>& ended,
                      const ServerLost& lost);

private:
    class Agreement;

    template <class Request>
    auto by_first(const Request& request);
    void set_sealed(const std::string& name, const std::string& text, Instant until);
    std::string ping_second(std::chrono::milliseconds longest);
    [[noreturn]] void throw_not_served(int size);
    std::string refusal(const std::string& why) const;
    void forbid() noexcept;

    const std::shared_ptr<ServedStore> first_;
    Second second_;
    int first_place_ = 0;         // of the rank that serves the first store, -1 if none does
    const std::string identity_;  // by which this process knows itself on a list
};

/// The entry of a second store that exists once ranks have failed over to it.
inline constexpr auto failed_over = "failed over";

}  // namespace rankmesh::detail
