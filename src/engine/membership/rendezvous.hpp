// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>

#include "engine/diagnosis/failure.hpp"
#include "engine/membership/next_world.hpp"

namespace rankmesh::detail {

/// The part of an error that is the same on all ranks: a failure that one rank tells the others.
struct RelayedFailure {
    Failure failure;

    /// Throws the failure as an error of this rank; `step` is the end of its text.
    [[noreturn]] static void raise(const Failure& failure, const std::string& step);
};

/// The exchange of small texts between the ranks of a world before they are connected.
///
/// Every call that waits throws Timeout at its timeout, with the ranks that did not arrive.
class Rendezvous {
public:
    using Combine = std::function<std::string(const std::string&, const std::string&)>;
    using Instant = std::chrono::steady_clock::time_point;

    /// The time in which ranks whose timeouts expire together tell each other why.
    static constexpr auto moment = std::chrono::milliseconds(50);
    /// The time in which a missing rank says whom it waits for itself: its timeout may have begun a little
    /// later.
    static constexpr auto patience = std::chrono::milliseconds(500);

    Rendezvous(int rank, int size) : rank_(rank), size_(size) {}
    virtual ~Rendezvous() = default;
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// How the first step of the world is called in error texts.
    const std::string& start() const { return start_; }

    /// Steps that wait ask `ended` now and then. If a rank that it lists holds the step up, the step throws
    /// PeerLost at once.
    void watch(std::function<std::vector<int>()> ended) { ended_ = std::move(ended); }

    /// An all_reduce of texts by `combine`. `phase` names the step in errors.
    virtual std::string all(const std::string& phase, std::string text, const Combine& combine) = 0;
    /// Publishes an entry of this rank, which is removed once all ranks have taken two more steps.
    virtual void publish(const std::string& name, const std::string& text) = 0;
    /// Removes such an entry now, because all ranks have read it. A rendezvous may ignore this.
    virtual void withdraw(const std::string&) noexcept {}
    /// Fetches the entries `name` of the ranks `from`, a subset of `ranks`. All `ranks` publish one and
    /// fetch.
    virtual std::vector<std::string> fetch(const std::string& phase, std::span<const int> from,
                                           const std::string& name, std::span<const int> ranks,
                                           Instant until) = 0;
    /// Messages from one rank to another, in order. `where` names the connections that others may be making
    /// meanwhile, as in `give_up`.
    virtual void send(int to, const std::string& text) = 0;
    virtual std::string receive(int from, const std::string& where) = 0;
    /// The same between the ranks of a group that is made at run time, as Exchange says.
    virtual void post(int to, const std::string& text) = 0;
    virtual std::vector<std::pair<int, std::string>> collect(const std::string& phase,
                                                             std::span<const int> from, Instant until) = 0;
    /// Tells the other ranks, if possible, that this one leaves: their waits throw `why`.
    virtual void leave(const Failure& why) noexcept = 0;
    /// Tells the other ranks, if possible, that a step of all has failed on this one: their waits throw the
    /// same. `where` names the connections that the step makes, "" for others.
    virtual void fail(const std::string&, const Failure&) noexcept {}
    /// Notes that this rank gives up to make the connections `where`. A rank calls it before it closes them,
    /// so that it is not taken for the cause.
    virtual void give_up(const std::string&, const Failure&) noexcept {}
    /// Why the ranks that a failure lacks have given up to make the connections `where`; nothing if they have
    /// not. Any thread may ask.
    virtual std::optional<Failure> cause(const std::string&, const Failure&) const noexcept { return {}; }
    /// Gives up to make the connections `where`, and returns their `cause`. After a timeout it waits for the
    /// cause: the timeouts of ranks that wait for each other expire together.
    std::optional<Failure> give_up_for_cause(const std::string& where, const Failure& failure);
    /// Throws, as a RelayedFailure error, what a rank has told by `fail` or `leave`, if it concerns one of
    /// `ranks`, for which this rank waits.
    virtual void throw_if_failed(const std::string&, const std::vector<int>&) {}
    /// Collective over `ranks`: a rendezvous of these ranks, in that order.
    virtual std::unique_ptr<Rendezvous> sub(const std::vector<int>& ranks) = 0;

    /// Some ranks of this rendezvous, and a rendezvous of their own.
    struct Survivors {
        std::vector<int> ranks;
        std::unique_ptr<Rendezvous> rendezvous;
    };
    /// The ranks that call this within `grace`; sooner if all others have left, or some rank knows that they
    /// have `ended`. `begin` is called first, unless the launcher ends all processes with the first.
    virtual Survivors survivors(std::chrono::nanoseconds grace,
                                const std::function<std::vector<int>()>& ended,
                                const std::function<void()>& begin) = 0;

    /// The ranks of this rendezvous and ranks that have entered, and a rendezvous of all.
    struct Grown {
        NextWorld world;
        std::unique_ptr<Rendezvous> rendezvous;
    };
    /// Lets processes enter that wait for it; throws as GrowAgreement does.
    virtual Grown grow(const Growth& asked, const std::function<std::vector<int>()>& ended) = 0;

protected:
    [[noreturn]] void throw_timeout(const std::string& phase, std::chrono::nanoseconds timeout,
                                    const std::vector<int>& arrived, const std::vector<int>& missing,
                                    const std::string& seen = {}) const;
    /// The prefix of the keys of the next world of these ranks, which no other world has.
    std::string scope_of_next(const std::vector<int>& ranks);
    /// Names the start in errors: this process has made `number` worlds of the job before.
    void start_later(int number) { start_ = cat("the start of world ", number + 1, " of this process"); }
    /// Names the start in errors: the world is a part of another, where its ranks are `ranks`.
    void start_of_part(const std::vector<int>& ranks);
    bool watches() const { return ended_ != nullptr; }
    /// The ranks that have ended, as far as the function of `watch` knows.
    std::vector<int> ended() const { return ended_ ? ended_() : std::vector<int>{}; }

private:
    const int rank_;
    const int size_;
    std::string start_ = "the start of the world";
    std::function<std::vector<int>()> ended_;
    std::map<std::vector<int>, int> subs_;  // how often a world of these ranks was made
};

}  // namespace rankmesh::detail
