// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/grow_agreement.hpp"

#include <rankmesh/core/error.hpp>

#include "engine/fields.hpp"
#include "engine/system.hpp"
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

/// A process that waits to enter, under one secret.
class Candidacy {
public:
    Candidacy(Store& store, std::optional<int> place, const std::string& about, Store::Instant until)
        : store_(store), begin_(Clock::now()), until_(until), secret_(new_secret()) {
        text_ = pack_texts({secret_, place ? std::to_string(*place) : "", about});
        auto names = std::vector<std::string>{};
        for (int slot = 0; slot < most_candidates; ++slot) names.push_back(slot_key(slot));
        while (slot_ < 0 && !expired()) {
            const auto found = store_.get(names, until_);
            for (int slot = 0; slot < most_candidates && slot_ < 0; ++slot)
                if (!found[static_cast<std::size_t>(slot)] && store_.set(slot_key(slot), text_, until_))
                    slot_ = slot;
            if (slot_ < 0) pause_for(store_, begin_);
        }
    }
    ~Candidacy() {
        if (slot_ >= 0) store_.remove({slot_key(slot_)}, soon());
    }
    Candidacy& operator=(Candidacy&&) = delete;

    bool expired() const { return Clock::now() >= until_; }

    /// The world that it has entered; nothing if it must come again, or the timeout has expired.
    std::optional<NextWorld> wait() {
        if (slot_ < 0) return std::nullopt;
        for (;;) {
            const auto found = store_.get({slot_key(slot_), offer_key(secret_)}, soon());
            if (found[1]) {
                auto fields = Fields(*found[1], "what a world offers");
                const auto round = static_cast<int>(fields.number());
                return follow(fields.rest(), round);
            }
            if (!found[0] || *found[0] != text_) {
                slot_ = -1;  // another's by now
                return std::nullopt;
            }
            if (expired()) return std::nullopt;
            pause_for(store_, begin_);
        }
    }

private:
    /// Confirms what the world asks until it is decided who enters it.
    std::optional<NextWorld> follow(const std::string& scope, int round) {
        const auto outcome = cat(scope, "outcome");
        const auto begin = Clock::now();
        auto until = until_;
        for (;;) {
            const auto found = store_.get({outcome, cat(scope, "round.", round), slot_key(slot_)}, soon());
            if (found[0]) return listed(*found[0], scope);
            const auto now = Clock::now();
            if (found[1]) {
                const auto secrets = unpack_texts(*found[1]);
                if (std::ranges::find(secrets, secret_) != secrets.end()) {
                    store_.set(yes_key(scope, round, secret_), "", soon());
                    until = std::max(until_, now + 2 * longest_patience);  // it may be taken at its word
                }
                ++round;
                continue;
            }
            if (!found[2] || *found[2] != text_) {
                slot_ = -1;
                // What was decided is written first.
                const auto decided = store_.get({outcome}, soon()).front();
                return decided ? listed(*decided, scope) : std::nullopt;
            }
            if (now >= until) return std::nullopt;
            pause_for(store_, begin);
        }
    }

    std::optional<NextWorld> listed(const std::string& outcome, const std::string& scope) {
        auto listed = read_listed(unpack_texts(outcome), scope);
        if (!listed) return std::nullopt;
        const auto own = std::ranges::find(listed->secrets, secret_);
        if (own == listed->secrets.end()) return std::nullopt;
        listed->world.rank = static_cast<int>(own - listed->secrets.begin());
        return std::move(listed->world);
    }
    /// Until when a request is waited for.
    Store::Instant soon() const { return std::max(until_, Clock::now() + longest_patience); }

    Store& store_;
    const Clock::time_point begin_;
    const Store::Instant until_;
    const std::string secret_;
    std::string text_;
    int slot_ = -1;
};

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

NextWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout) {
    const auto until = from_now(timeout);
    for (;;) {
        auto candidacy = Candidacy(store, place, about, until);
        if (auto world = candidacy.wait()) return std::move(*world);
        if (!candidacy.expired()) continue;
        throw Timeout(
            cat("the timeout of ", to_text(timeout), " expired in rejoin: the ranks of the job '",
                store.job(), "' in ", store.text(), " have let no process in",
                place ? cat(" that asks for place ", *place) : "", "; they do when all of them call grow()"),
            {}, {});
    }
}

}  // namespace rankmesh::detail
