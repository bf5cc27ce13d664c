// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/fields.hpp"
#include "engine/membership/failure_board.hpp"
#include "engine/membership/grow_agreement.hpp"
#include "engine/membership/grow_outcome.hpp"
#include "engine/membership/survivor_agreement.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// The exchange of small texts between the ranks of a world before they are connected, through the entries of
/// a store. Every call that waits throws Timeout at its timeout, with the ranks that did not arrive.
///
/// Collective steps run along a tree: a rank writes one or two entries a step, reads those of its eight
/// children in one request and its parent's in another, so no rank reads as many entries as there are ranks.
/// A rank that waits polls as `pause_between_polls` says, unless the store waits itself.
class Rendezvous {
public:
    using Combine = std::function<std::string(const std::string&, const std::string&)>;
    using Instant = Store::Instant;
    /// Lists the ranks that are known to have ended.
    using Ended = std::function<std::vector<int>()>;

    /// Registers this rank; throws UsageError if a rank of that number is registered in this job already.
    /// `store` may be null in a world of one. `world`: how many worlds of the job this rank has made before.
    Rendezvous(const std::shared_ptr<Store>& store, int rank, int size, Duration timeout, int world = 0);
    ~Rendezvous();
    Rendezvous& operator=(Rendezvous&&) = delete;
    /// Of a world whose ranks are a part of another's, and whose keys have the prefix `scope`.
    static std::unique_ptr<Rendezvous> of_part(std::shared_ptr<Store> store, std::string scope, int rank,
                                               int size, Duration timeout);

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// How the first step of the world is called in error texts.
    const std::string& start() const { return start_; }
    /// The prefix of this world's keys, which no other world of the job has.
    const std::string& scope() const { return scope_; }
    /// Steps that wait ask `ended` now and then. If a rank that it lists holds the step up, the step throws
    /// PeerLost at once.
    void watch(Ended ended) { ended_ = std::move(ended); }

    /// An all_reduce of texts by `combine`. `phase` names the step in errors.
    std::string all(const std::string& phase, std::string text, const Combine& combine);
    /// Publishes an entry of this rank, which is removed once all ranks have taken two more steps. Throws
    /// EngineFailure if there is an entry of that name.
    void publish(const std::string& name, const std::string& text);
    /// Removes such an entry now, because all ranks have read it.
    void withdraw(const std::string& name) noexcept;
    /// Fetches the entries `name` of the ranks `from`, a subset of `ranks`. All `ranks` publish one and
    /// fetch.
    std::vector<std::string> fetch(const std::string& phase, std::span<const int> from,
                                   const std::string& name, std::span<const int> ranks, Instant until);
    /// Messages from one rank to another, in order. `where` names the connections that others may be making
    /// meanwhile, as in `give_up`.
    void send(int to, const std::string& text);
    std::string receive(int from, const std::string& where);
    /// Messages between the ranks of a group that is made at run time, as Exchange says.
    void post(int to, const std::string& text);
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     Instant until);

    /// Tells the other ranks that this one leaves: their waits throw `why`.
    void leave(const Failure& why) noexcept;
    /// Tells the other ranks that a step of all has failed on this one: their waits throw `failure`. `where`
    /// names the connections that the step makes, "" for others.
    void fail(const std::string& where, const Failure& failure) noexcept { failures_->tell(where, failure); }
    /// Notes that this rank gives up to make the connections `where`. A rank calls it before it closes them,
    /// so that it is not taken for the cause.
    void give_up(const std::string& where, const Failure& failure) noexcept {
        failures_->give_up(where, failure);
    }
    /// Why the ranks that a failure lacks have given up to make the connections `where`; nothing if they have
    /// not. Any thread may ask.
    std::optional<Failure> cause(const std::string& where, const Failure& failure) const noexcept {
        return failures_->cause(where, failure);
    }
    /// Gives up to make the connections `where`, and returns their `cause`. After a timeout it waits for the
    /// cause: the timeouts of ranks that wait for each other expire together.
    std::optional<Failure> give_up_for_cause(const std::string& where, const Failure& failure);
    /// Throws, as a RelayedFailure error, what a rank has told by `fail` or `leave`, if it concerns one of
    /// `ranks`, for which this rank waits.
    void throw_if_failed(const std::string& phase, const std::vector<int>& ranks);

    /// Collective over `ranks`: a rendezvous of these ranks, in that order.
    std::unique_ptr<Rendezvous> sub(const std::vector<int>& ranks);
    /// Some ranks of this rendezvous, and a rendezvous of their own.
    struct Survivors {
        std::vector<int> ranks;
        std::unique_ptr<Rendezvous> rendezvous;
    };
    /// The ranks that call this within `grace`; sooner if all others have left, or some rank knows that they
    /// have `ended`.
    Survivors survivors(Duration grace, const Ended& ended);
    /// The ranks of this rendezvous and ranks that have entered, and a rendezvous of all.
    struct Grown {
        NextWorld world;
        std::unique_ptr<Rendezvous> rendezvous;
    };
    /// Lets processes enter that wait for it; throws as GrowAgreement does.
    Grown grow(const Growth& asked, const Ended& ended);
    /// Enters a world of the store's job when its ranks call `grow`, as `enter` does.
    static Grown rejoin(const std::shared_ptr<Store>& store, std::optional<int> place,
                        const std::string& about, Duration timeout);

private:
    /// In the tree along which a step goes.
    static constexpr auto children_of_a_rank = 8;

    struct Series;
    /// `scope` is the prefix of this world's keys, which no other world of the job has. `series`: the worlds
    /// of these ranks among which this is the next, null for others. `places`: of its ranks, as GrowAgreement
    /// takes them; nothing: their numbers.
    Rendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout,
               std::shared_ptr<Series> series, std::optional<std::vector<int>> places);
    /// Of a world that has grown, whose rank `server` serves the store.
    Rendezvous(std::shared_ptr<Store> store, const NextWorld& world, int server, Duration timeout);

    /// Takes over what another world of this process knows of the same store, which rank `server` serves
    /// here.
    void follow(const Rendezvous& before, int server);
    GrowAgreement& growing();
    void remove_stale();
    std::string step(const std::string& phase, std::string text, const Combine& combine);

    using Key = std::function<std::string(int rank)>;
    /// A wait for entries of a step.
    struct Wait {
        std::string phase;
        std::vector<std::string> names;  // of the entries
        Instant until;
        Key arrival;                  // what each rank sets when it arrives
        Key last;                     // what each rank sets last: it is not waited for any more
        std::vector<int> ranks = {};  // that are waited for; empty: all
        std::string where = {};       // the connections that others may be making meanwhile
        std::function<std::vector<int>()> stuck = {};  // the ranks that hold the step up, if all have arrived
    };
    std::vector<std::string> wait(const Wait& wait);
    std::vector<std::string> wait_in_step(const Wait& wait);
    [[noreturn]] void throw_late(const Wait& wait, std::vector<int> late);
    void throw_if_ended(const Wait& wait);
    std::vector<int> ranks_of(const Wait& wait) const;
    std::vector<int> missing(const Wait& wait);
    std::vector<int> stuck_in(const Key& last);
    std::string made_fewer_worlds(const std::vector<int>& ranks);
    /// Runs a part of `phase`. If a rank serves the store and is why the part fails, throws PeerLost or
    /// Timeout with this rank.
    template <class Body>
    auto served(const std::string& phase, Body&& body) const {
        const auto why = [&](const Error& error) {
            return cat(error.what(), "; ", phase, " cannot be completed on rank ", rank());
        };
        try {
            return body();
        } catch (const ServerLost& lost) {
            if (server_ < 0) throw;
            throw PeerLost(why(lost), {server_});
        } catch (const ServerSilent& silent) {
            if (server_ < 0 || !silent.missing.empty()) throw;
            throw ServerSilent(why(silent), {}, {server_});
        }
    }
    /// The prefix of the keys of the next world of these ranks, which no other world has.
    std::string scope_of_next(const std::vector<int>& ranks);
    /// The prefix of the keys of the world that all ranks make after so many others.
    static std::string scope_of(int world) { return world == 0 ? "" : cat("world.", world, "."); }
    static std::string claim_of(int rank) { return cat("claim.", rank); }
    std::string full(const std::string& name) const { return scope_ + name; }
    std::string own_entry(const std::string& name) const { return full(cat(name, ".", rank())); }

    const int rank_;
    const int size_;
    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const Duration timeout_;
    std::string start_ = "the start of the world";
    Ended ended_;
    int server_ = -1;    // the rank whose process serves the store, -1 if none of these does
    int world_ = 0;      // how many worlds of all ranks this rank has made before
    std::string claim_;  // the entry that this process wrote when it started; "" if it entered later
    Instant claimed_;
    int steps_ = 0;
    std::map<int, int> sent_;    // by receiver
    std::map<int, int> posted_;  // as `sent_`, of groups that are made at run time
    std::map<int, int> collected_;
    std::map<int, int> received_;              // by sender
    std::vector<std::string> stale_keys_;      // own entries since the last step
    std::vector<std::string> old_stale_keys_;  // before it: everybody has read them once all take one more
    const std::shared_ptr<FailureBoard> failures_;
    SurvivorAgreement survivor_agreement_;
    const std::optional<std::vector<int>> places_;
    std::optional<GrowAgreement> grow_agreement_;  // made when it is asked for: it lists all ranks
    const std::shared_ptr<Series> series_;
    int number_ = 0;  // in the series
    std::map<std::vector<int>, std::shared_ptr<Series>> series_of_subs_;
    std::map<std::vector<int>, int> subs_;  // how often a world of these ranks was made
};

using Numbers = std::array<std::int64_t, 4>;

/// Numbers as ranks send them to each other.
inline std::string packed(const Numbers& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), sizeof numbers};
}

/// Reads what `packed` has written; throws EngineFailure for anything else.
inline Numbers unpacked(const std::string& text) {
    auto numbers = Numbers{};
    if (text.size() != sizeof numbers)
        Fields({}, "what another rank's plan is compared by").throw_unreadable();
    std::memcpy(numbers.data(), text.data(), sizeof numbers);
    return numbers;
}

/// The elementwise maximum.
inline Numbers most_of(Numbers a, const Numbers& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
    return a;
}

/// Collective: the elementwise maximum over all ranks.
inline Numbers max_over(Rendezvous& rendezvous, const Numbers& own) {
    return unpacked(rendezvous.all("join", packed(own), [](const std::string& a, const std::string& b) {
        return packed(most_of(unpacked(a), unpacked(b)));
    }));
}

}  // namespace rankmesh::detail
