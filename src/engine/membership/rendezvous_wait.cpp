// SPDX-License-Identifier: Apache-2.0
// How a Rendezvous waits for entries, and finds out why they do not come.
#include <cstdio>
#include <numeric>
#include <utility>

#include "engine/diagnosis/attendance.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// `rank 2 has`, `ranks {2, 3} have`.
std::string they_have(const std::vector<int>& ranks) {
    return cat(ranks_text(ranks), ranks.size() == 1 ? " has" : " have");
}

constexpr auto silence = std::chrono::seconds(10);  // then a user is told who is missing
/// The time in which a missing rank says whom it waits for itself: its timeout may have begun a little later.
constexpr auto cause_wait = std::chrono::milliseconds(500);

}  // namespace

/// Waits as `wait` does, and tells the other ranks if that fails.
std::vector<std::string> Rendezvous::wait_in_step(const Wait& step) {
    try {
        return wait(step);
    } catch (const RelayedFailure& relayed) {
        if (!step.ranks.empty()) give_up(step.where, relayed.failure);
        if (!failures_->has_any()) fail({}, relayed.failure);  // this rank is the first that knows
        throw;
    } catch (const Timeout& timeout) {
        const auto failure = Failure::of(timeout);
        // Some ranks that do not come may wait for others themselves; of all ranks it is known who has come.
        const auto cause = step.ranks.empty() ? std::nullopt : give_up_for_cause(step.where, failure);
        fail({}, cause.value_or(failure));
        if (cause) RelayedFailure::raise(*cause, cat(step.phase, " cannot be completed on rank ", rank()));
        throw;
    } catch (const PeerLost& lost) {
        if (!contains(lost.ranks, rank())) fail({}, Failure::of(lost));
        throw;
    }
}

std::optional<Failure> Rendezvous::give_up_for_cause(const std::string& where, const Failure& failure) {
    const auto until =
        from_now(failure.kind == Failure::Kind::timeout ? cause_wait : std::chrono::milliseconds(0));
    give_up(where, failure);
    auto found = cause(where, failure);
    while (!found && Clock::now() < until) {
        std::this_thread::sleep_for(telling);
        found = cause(where, failure);
    }
    return found;
}

/// The texts of the entries, once all of them exist.
std::vector<std::string> Rendezvous::wait(const Wait& wait) {
    const auto begin = Clock::now();
    // A store that waits by itself is asked anew each time.
    const auto period = std::chrono::milliseconds(!store_->can_wait()       ? 100
                                                  : failures_->is_of_part() ? 500
                                                                            : 1000);
    auto next_look = ended_ || failures_->is_of_part() ? begin + period : Instant::max();
    auto until = wait.until;
    // Two ranks, because one of them may be missing.
    auto tell_at = rank() < 2 ? begin + silence : Instant::max();
    auto texts = std::vector<std::string>(wait.names.size());
    auto absent = std::vector<std::size_t>(wait.names.size());
    std::iota(absent.begin(), absent.end(), std::size_t{0});
    auto extended = false;
    while (!absent.empty()) {
        auto wanted = std::vector<std::string>{};
        for (auto each : absent) wanted.push_back(full(wait.names[each]));
        wanted.push_back(failures_->next_key());
        // A request that begins just before the timeout may complete.
        auto found = served(wait.phase, [&] {
            return store_->wait(wanted, std::min({until, next_look, tell_at}),
                                std::max(until, Clock::now()) + request_grace);
        });
        auto still = std::vector<std::size_t>{};
        for (std::size_t i = 0; i < absent.size(); ++i) {
            if (found[i])
                texts[absent[i]] = std::move(*found[i]);
            else
                still.push_back(absent[i]);
        }
        absent = std::move(still);
        if (absent.empty()) break;
        // What a rank set before it failed exists now, though it did not when it was looked for.
        if (found.back() && failures_->read()) continue;
        if (failures_->has_any()) failures_->throw_if_about(wait.phase, ranks_of(wait), true);
        const auto now = Clock::now();
        if (now >= next_look) {
            if (failures_->is_of_part() && failures_->read(true)) continue;
            throw_if_ended(wait);
            next_look = now + period;
        }
        if (now >= tell_at && now < until) {
            tell_at = Instant::max();
            if (const auto late = missing(wait); !late.empty() && (rank() == 0 || contains(late, 0)))
                std::fprintf(stderr, "rankmesh: rank %d waits for %s in %s, until %s\n", rank(),
                             ranks_text(late).c_str(), wait.phase.c_str(), time_of_day(until).c_str());
        }
        if (now >= until) {
            const auto late = missing(wait);
            // The last to arrive have come just before: the others pass on what they set.
            if (!late.empty() || std::exchange(extended, true)) throw_late(wait, late);
            until = now + request_grace;
        }
        if (!store_->can_wait()) pause_between_polls(begin, store_->longest_pause(), until);
    }
    return texts;
}

/// Throws Timeout. `late`: the ranks that have not arrived; if all have, the ranks that hold the step up.
void Rendezvous::throw_late(const Wait& wait, std::vector<int> late) {
    auto seen = late.empty() ? std::string{} : made_fewer_worlds(late);
    if (late.empty() && wait.stuck) {
        late = wait.stuck();
        if (!late.empty())
            seen = cat(ranks_text(late), " arrived and then did not go on: stopped, cut off or gone");
    }
    auto arrived = ranks_of(wait);
    std::erase_if(arrived, [&](int each) { return contains(late, each); });
    throw timeout_error_in(wait.phase, timeout_, rank_, arrived, late, ranks_text(late), seen);
}

/// The ranks that are waited for.
std::vector<int> Rendezvous::ranks_of(const Wait& wait) const {
    return wait.ranks.empty() ? first_ranks(size()) : wait.ranks;
}

/// Throws PeerLost, as a RelayedFailure error, if some ranks have ended before they set their last entry of a
/// step; or the failure because of which they have ended.
void Rendezvous::throw_if_ended(const Wait& wait) {
    const auto ranks = ranks_of(wait);
    auto lost = ended_ ? ended_() : std::vector<int>{};
    std::erase_if(lost, [&](int each) { return !contains(ranks, each); });
    if (lost.empty()) return;
    std::ranges::sort(lost);
    auto keys = std::vector<std::string>{};
    for (auto each : lost) keys.push_back(full(wait.last(each)));
    keys.push_back(failures_->next_key());
    const auto found = store_->get(keys, from_now(request_grace));
    // A rank that ends because of another one tells so first.
    if (found.back() && failures_->read()) return failures_->throw_if_about(wait.phase, ranks, true);
    auto next = found.begin();
    std::erase_if(lost, [&](int) { return (next++)->has_value(); });
    if (lost.empty()) return;
    RelayedFailure::raise({.kind = Failure::Kind::gone, .why = cat(they_have(lost), " ended"), .lost = lost},
                          cat(wait.phase, " cannot be completed on rank ", rank()));
}

/// The ranks that have not set the entry that they set when they arrive. Throws EngineFailure if the store
/// has lost what this rank set.
std::vector<int> Rendezvous::missing(const Wait& wait) {
    auto ranks = ranks_of(wait);
    auto entries = std::vector<std::string>{};
    for (auto each : ranks) entries.push_back(full(wait.arrival(each)));
    // Redis lets an entry go after a day.
    const auto knows_own = !claim_.empty() && Clock::now() - claimed_ < std::chrono::hours(20);
    if (knows_own) entries.push_back(claim_);
    const auto there = store_->get(entries, from_now(request_grace));
    if (knows_own && !there.back())
        throw EngineFailure(
            cat(store_->text(), " no longer has what rank ", rank(),
                " wrote there when it started: it was emptied, removed or started again; the ranks of the "
                "job '",
                store_->job(), "' cannot find each other any more"));
    auto next = there.begin();
    std::erase_if(ranks, [&](int each) { return (next++)->has_value() || each == rank(); });
    return ranks;
}

/// The ranks that hold a step along the tree up, if all have arrived at it: they have the texts of all their
/// children, and have not passed them on.
std::vector<int> Rendezvous::stuck_in(const Key& last) {
    auto keys = std::vector<std::string>{};
    for (int each = 0; each < size(); ++each) keys.push_back(full(last(each)));
    const auto passed_on = store_->get(keys, from_now(request_grace));
    auto holding = std::vector<int>{};
    auto lacks_a_child = std::vector<bool>(keys.size());
    for (auto each = size() - 1; each >= 0; --each) {
        const auto i = static_cast<std::size_t>(each);
        if (passed_on[i]) continue;
        if (each > 0) lacks_a_child[static_cast<std::size_t>((each - 1) / children_of_a_rank)] = true;
        if (!lacks_a_child[i] && each != rank()) holding.push_back(each);
    }
    std::ranges::reverse(holding);
    return holding;
}

/// Says which of these ranks have come to the world before this one, and not to this one; "" if none.
std::string Rendezvous::made_fewer_worlds(const std::vector<int>& ranks) {
    if (world_ == 0) return {};
    auto claims = std::vector<std::string>{};
    for (const auto& scope : {scope_of(world_ - 1), scope_})
        for (auto each : ranks) claims.push_back(scope + claim_of(each));
    const auto found = store_->get(claims, from_now(request_grace));
    auto behind = std::vector<int>{};
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (found[i] && !found[ranks.size() + i]) behind.push_back(ranks[i]);
    if (behind.empty()) return {};
    return cat(they_have(behind), " made ", counted(static_cast<std::size_t>(world_), "world"),
               " so far: all ranks make the same worlds, in the same order");
}

}  // namespace rankmesh::detail
