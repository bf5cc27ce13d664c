// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/membership/failure_note.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/membership/survivor_agreement.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Rendezvous through the entries of a store.
///
/// Collective steps run along a tree: a rank writes one or two entries a step, reads those of its eight
/// children in one request and its parent's in another, so no rank reads as many entries as there are ranks.
/// A rank that waits polls again after a quarter of the time that it has waited so far: it notices late by
/// that at most, and a long wait takes few polls.
class StoreRendezvous final : public Rendezvous {
public:
    /// Registers this rank; throws UsageError if a rank of that number is registered in this job already.
    /// `store` may be null in a world of one. `world`: how many worlds of the job this rank has made before.
    StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration timeout, int world = 0);
    ~StoreRendezvous() override;

    std::string all(const std::string& phase, std::string text, const Combine& combine) override;
    /// Throws EngineFailure if there is an entry of that name.
    void publish(const std::string& name, const std::string& text) override;
    void withdraw(const std::string& name) noexcept override;
    std::vector<std::string> fetch(const std::string& phase, std::span<const int> from,
                                   const std::string& name, std::span<const int> ranks,
                                   Instant until) override;
    void send(int to, const std::string& text) override;
    std::string receive(int from, const std::string& where) override;
    void post(int to, const std::string& text) override;
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     Instant until) override;
    void leave(const Failure& why) noexcept override;
    void fail(const std::string& where, const Failure& failure) noexcept override;
    void give_up(const std::string& where, const Failure& failure) noexcept override;
    std::optional<Failure> cause(const std::string& where, const Failure& failure) const noexcept override;
    void throw_if_failed(const std::string& phase, const std::vector<int>& ranks) override;
    std::unique_ptr<Rendezvous> sub(const std::vector<int>& ranks) override;
    Survivors survivors(Duration grace, const std::function<std::vector<int>()>& ended,
                        const std::function<std::string()>& about) override;
    Grown grow(const Growth& asked, const std::function<std::vector<int>()>& ended) override;
    /// Of a world whose ranks are a part of another's, and whose keys have the prefix `scope`.
    static std::unique_ptr<StoreRendezvous> of_part(std::shared_ptr<Store> store, std::string scope, int rank,
                                                    int size, Duration timeout);
    /// Enters a world of the store's job when its ranks call `grow`, as `enter` does.
    static Grown rejoin(std::shared_ptr<Store> store, std::optional<int> place, const std::string& about,
                        Duration timeout);
    /// The prefix of this world's keys, which no other world of the job has.
    const std::string& scope() const { return scope_; }

private:
    Survivors fail_over(Duration grace, const std::function<std::vector<int>()>& ended,
                        const std::string& about, const ServerLost& lost);
    std::string leave_servers_behind(const std::vector<int>& ranks, bool writes);
    /// `scope` is the prefix of this world's keys, which no other world of the job has.
    /// `series`: the worlds of these ranks among which this is the next, null for others. `places`: of its
    /// ranks, as GrowAgreement takes them; nothing: their numbers.
    struct Series;
    StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout,
                    std::shared_ptr<Series> series, std::optional<std::vector<int>> places);

    /// Takes over what another world of this process knows of the store, which `server` serves here.
    void follow(const StoreRendezvous& before, int server);
    GrowAgreement& growing();
    void remove_stale();
    std::string step(const std::string& phase, std::string text, const Combine& combine);
    using Entries = std::function<std::string(int rank)>;
    /// The ranks that hold a step up, once all have arrived at it.
    using Stuck = std::function<std::vector<int>()>;
    std::vector<std::string> wait(const std::string& phase, const std::vector<std::string>& names,
                                  const std::vector<int>& ranks, const Entries& arrival_key,
                                  const Entries& last_key, const Stuck& stuck, Instant until);
    std::vector<std::string> wait_in_step(const std::string& phase, const std::vector<std::string>& names,
                                          const std::vector<int>& ranks, const Entries& arrival_key,
                                          const Entries& last_key, const Stuck& stuck, Instant until,
                                          const std::string& where = {});
    void throw_if_ended(const std::string& phase, const std::vector<int>& ranks, const Entries& last_key);
    std::vector<int> missing(std::vector<int> ranks, const Entries& arrival_key);
    std::string made_fewer_worlds(const std::vector<int>& ranks);
    /// The key of the next failure that this rank reads.
    std::string next_failure() const;
    /// True if `throw_relayed` may have something to throw.
    bool has_failed() const;
    bool read_failures();
    const FailureNote* relayed_about(const std::vector<int>& ranks, bool of_this) const;
    void throw_relayed(const std::string& phase, const std::vector<int>& ranks, bool of_this);
    /// Runs a part of `phase`. Where a rank serves the store and is the reason why that is of no use, throws
    /// what is true of this rank, PeerLost or Timeout.
    template <class Body>
    auto served(const std::string& phase, Body&& body) const;
    std::string full(const std::string& name) const { return scope_ + name; }
    std::string own_entry(const std::string& name) const { return full(cat(name, ".", rank())); }

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const Duration timeout_;
    int server_ = -1;    // the rank whose process serves the store, if one does; -1: none of these
    int world_ = 0;      // how many worlds of the job this rank has made before; of those of all ranks
    std::string claim_;  // the entry that this process wrote when it started; "" where it entered later
    Instant claimed_;
    int steps_ = 0;
    std::map<int, int> sent_;    // by receiver
    std::map<int, int> posted_;  // as `sent_`, of groups that are made at run time
    std::map<int, int> collected_;
    std::map<int, int> received_;          // by sender
    std::vector<std::string> stale_keys_;  // own entries since the last step
    std::vector<std::string>
        old_stale_keys_;  // and before it, which everybody has read once all take one more
    // `leave` may be called by another thread than the one that waits.
    mutable std::recursive_mutex failing_;
    std::vector<FailureNote> failures_;  // read so far, in their order
    std::optional<Failure> gave_up_;     // for which this rank has thrown, unless a later step was completed
    std::optional<std::string> left_;    // why this rank has left
    SurvivorAgreement survivor_agreement_;
    const std::optional<std::vector<int>> places_;
    std::optional<GrowAgreement> grow_agreement_;  // made when it is asked for: it lists all ranks
    const std::shared_ptr<Series> series_;
    int number_ = 0;  // in the series
    std::map<std::vector<int>, std::shared_ptr<Series>> series_of_subs_;
};

}  // namespace rankmesh::detail
