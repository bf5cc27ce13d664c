// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/grow_agreement.hpp"

#include <algorithm>
#include <chrono>

#include <rankmesh/core/text.hpp>

#include "engine/membership/grow_leader.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// The time that a rank known to have ended is waited for: perhaps only its connection has.
constexpr auto cut_wait = std::chrono::milliseconds(50);

/// Thrown if a rank of the world makes another one.
struct MadeAnother {
    Failure failure;
};

/// Confirms what rank 0 asks until the outcome is decided; sets one if ranks end or do not come.
std::string follow(const GrowOutcome& outcome, const Growth& asked, const LostRanks& lost) {
    const auto begin = Clock::now();
    const auto timeout = wait_of(asked);
    auto until = from_now(timeout);
    auto leader_is_here = false;
    for (auto round = 0;;) {
        const auto found = outcome.store->get(
            {outcome.key("outcome"), outcome.key(cat("round.", round)), outcome.here(0)}, outcome.soon());
        const auto now = Clock::now();
        if (found[0]) return *found[0];
        if (found[1]) {
            const auto answer = yes_key(outcome.scope, round++, std::to_string(outcome.rank));
            outcome.store->set(answer, "", outcome.soon());
            continue;
        }
        if (found[2] && !leader_is_here) {
            leader_is_here = true;
            until = now + 2 * timeout + 2 * patience_of(asked);  // which it has
        }
        if (const auto ranks = lost(found[2] ? std::vector<int>{} : std::vector{0}); !ranks.empty())
            return outcome.lose(ranks);
        if (now >= until) {
            auto names = std::vector<std::string>{};
            for (int each = 0; each < outcome.size; ++each) names.push_back(outcome.here(each));
            const auto here = outcome.store->get(names, outcome.soon());
            auto missing = std::vector<int>{};
            for (int each = 0; each < outcome.size; ++each)
                if (each == 0 || !here[static_cast<std::size_t>(each)]) missing.push_back(each);
            return outcome.expire(
                asked.timeout, missing,
                leader_is_here ? "rank 0 arrived and then did not go on: stopped, cut off or gone" : "");
        }
        pause_for(*outcome.store, begin);
    }
}

}  // namespace

NextWorld GrowAgreement::grow(const Growth& asked, const std::function<std::vector<int>()>& ended,
                              const Renewed& renewed) {
    if (places_.empty())
        throw UsageError(
            cat("rank ", rank_,
                " asks for more ranks of a world that sub() made; the world that the job started "
                "with grows, and those that survivors() and grow() made of it"));
    if (!store_)
        throw UsageError(cat("rank ", rank_,
                             " asks for more ranks of a world of one process, which has no store; ",
                             what_grows));
    const auto outcome = GrowOutcome{store_, cat(scope_, "grow.", number_++, "."), rank_, size_};
    // Perhaps only a connection was cut, and its rank still comes.
    const auto before = ended();
    const auto given = Clock::now() + cut_wait;
    const auto lost = [&](const std::vector<int>& absent) {
        if (const auto* failure = renewed()) throw MadeAnother{*failure};
        auto now = ended();
        std::erase_if(now, [&](int each) {
            if (each == rank_) return true;
            return contains(before, each) && (!contains(absent, each) || Clock::now() < given);
        });
        std::ranges::sort(now);
        now.erase(std::unique(now.begin(), now.end()), now.end());
        return now;
    };
    const auto own = outcome.here(rank_);
    store_->set(own,
                pack_texts({std::to_string(asked.most), std::to_string(asked.timeout.count()), asked.about}),
                outcome.soon());
    const auto text = [&] {
        try {
            if (rank_ != 0) return follow(outcome, asked, lost);
            return lead_growth(outcome, places_, asked, lost, ended);
        } catch (MadeAnother& made) {
            append(made.failure.why, "; grow cannot be completed");
            return outcome.fail(made.failure);
        } catch (const EngineFailure& error) {
            return outcome.fail({.kind = Failure::Kind::engine, .why = error.what()});
        }
    }();
    store_->remove({own}, outcome.soon());
    try {
        auto listed = outcome.read(text);
        // The places are ascending, and those of ranks that were there are among them.
        const auto found =
            std::ranges::lower_bound(listed.world.places, places_[static_cast<std::size_t>(rank_)]);
        listed.world.rank = static_cast<int>(found - listed.world.places.begin());
        return std::move(listed.world);
    } catch (...) {
        leftovers_.push_back(outcome.key("outcome"));
        for (int each = 0; each < size_; ++each)
            leftovers_.push_back(outcome.here(each));  // also of the dead
        throw;
    }
}

}  // namespace rankmesh::detail
