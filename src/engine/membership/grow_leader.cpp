// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/grow_agreement.hpp"

#include <map>
#include <set>

#include "engine/fields.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// Rank 0 in one call of grow.
class GrowLeader {
public:
    GrowLeader(const GrowOutcome& outcome, const std::vector<int>& places, const Growth& asked,
               const LostRanks& lost, const std::function<std::vector<int>()>& ended)
        : outcome_(outcome),
          places_(places),
          asked_(asked),
          lost_(lost),
          ended_(ended),
          until_(from_now(wait_of(asked))),
          last_(until_ + wait_of(asked)),
          absent_(first_ranks(outcome.size)),
          abouts_{{0, asked.about}},
          numbers_{{std::to_string(asked.most), {0}}} {
        std::erase(absent_, 0);
        if (asked.timeout <= Duration::zero()) untimely_.push_back(0);
    }

    std::string lead() {
        const auto begin = Clock::now();
        const auto clean = [&] {
            // Those that were asked come again if they have not entered.
            for (const auto& each : candidates_)
                if (offered_.contains(each.secret)) stale_.push_back(slot_key(each.slot));
            if (!stale_.empty()) store_.remove(stale_, outcome_.soon());
        };
        try {
            while (!look()) pause_for(store_, begin);
        } catch (...) {
            clean();
            throw;
        }
        clean();
        return *decided_;
    }

private:
    using Instant = Store::Instant;
    using Texts = std::span<const std::optional<std::string>>;
    struct Candidate {
        int slot = 0;
        std::string secret;
        std::string about;
    };
    /// Who is asked whether it is there: a rank, or the candidate in a slot.
    struct Asked {
        int rank = 0;
        int slot = -1;
    };

    /// Returns true, once the outcome is decided.
    bool decide(std::string standing) {
        decided_ = std::move(standing);
        return true;
    }

    /// Looks once who has come, and goes on as far as that allows; true once the outcome is decided.
    bool look() {
        auto names = std::vector<std::string>{};
        for (int slot = 0; slot < most_candidates; ++slot) names.push_back(slot_key(slot));
        names.push_back(outcome_.key("outcome"));
        for (auto each : absent_) names.push_back(outcome_.here(each));
        const auto found = store_.get(names, outcome_.soon());
        const auto now = Clock::now();
        if (const auto& outcome = found[most_candidates]) return decide(*outcome);
        take_ranks(Texts(found).subspan(most_candidates + 1));
        if (const auto ranks = lost_(absent_); !ranks.empty()) return decide(outcome_.lose(ranks));
        const auto all_came = absent_.empty();
        if (all_came && refuse()) return true;
        // A rank that had come before its connection was cut may have ended since.
        if (all_came && !std::exchange(has_looked_, true) && !ended_().empty()) {
            chosen_.clear();
            return confirm();
        }
        take_candidates(Texts(found).first(most_candidates));
        const auto full = std::cmp_equal(chosen_.size(), asked_.most);
        if (all_came && !chosen_.empty() && (full || now >= until_) && now < last_) return confirm();
        if (now < until_) return false;
        return decide(all_came ? nobody_entered() : outcome_.expire(asked_.timeout, absent_, {}));
    }

    /// Takes what ranks say that were absent.
    void take_ranks(Texts texts) {
        auto still = std::vector<int>{};
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const auto rank = absent_[i];
            if (!texts[i]) {
                still.push_back(rank);
                continue;
            }
            const auto parts = unpack_texts(*texts[i]);
            if (parts.size() != 3) Fields({}, "what another rank says").throw_unreadable();
            numbers_[parts[0]].push_back(rank);
            if (parts[1].starts_with('-') || parts[1] == "0") untimely_.push_back(rank);
            abouts_[rank] = parts[2];
        }
        absent_ = std::move(still);
    }

    /// Takes the candidates that wait now, and chooses which of them are to enter.
    void take_candidates(Texts slots) {
        candidates_.clear();
        auto wishes = std::vector<int>{};
        for (std::size_t slot = 0; slot < slots.size(); ++slot) {
            if (!slots[slot]) continue;
            const auto parts = unpack_texts(*slots[slot]);
            if (parts.size() != 3) Fields({}, "what a process that waits says").throw_unreadable();
            wishes.push_back(parts[1].empty() ? -1 : read_number(parts[1]));
            candidates_.push_back({.slot = static_cast<int>(slot), .secret = parts[0], .about = parts[2]});
        }
        chosen_ = choose(places_, wishes, asked_.most);
    }

    /// Refuses calls that differ or are invalid; true if they are.
    bool refuse() {
        if (numbers_.size() > 1) {
            auto classes =
                std::vector<std::pair<std::string, std::vector<int>>>(numbers_.begin(), numbers_.end());
            std::ranges::stable_sort(
                classes, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
            auto text =
                std::string("the ranks of a world that grows ask for different numbers of processes: ");
            auto outside = std::vector<int>{};
            for (std::size_t i = 0; i < classes.size(); ++i) {
                const auto& [number, ranks] = classes[i];
                append(text, cat(i > 0 ? ", " : "", number, " on ", ranks_to_string(ranks)));
                if (i > 0) outside.insert(outside.end(), ranks.begin(), ranks.end());
            }
            std::ranges::sort(outside);
            return decide(outcome_.fail(
                {.kind = Failure::Kind::disagreement, .why = text, .lost = std::move(outside)}));
        }
        if (asked_.most < 1 || asked_.most > most_candidates)
            return decide(outcome_.refuse(cat("a world is to grow by ", asked_.most, " processes; 1 to ",
                                              most_candidates, " can enter it at once")));
        if (!untimely_.empty())
            return decide(outcome_.refuse(cat("a world is to grow within a timeout that is not positive, on ",
                                              ranks_to_string(untimely_), "; give it one that is")));
        return false;
    }

    /// Decides that the timeout has expired, because no candidate enters.
    std::string nobody_entered() const {
        const auto waiting = candidates_.size() - chosen_.size();
        return outcome_.fail(
            {.kind = Failure::Kind::timeout,
             .why =
                 cat("the timeout of ", to_text(asked_.timeout), " expired in grow: ",
                     offered_.empty() ? "no process has come to enter the job '"
                                      : "those that came to enter the job '",
                     store_.job(), "' in ", store_.text(),
                     offered_.empty() ? "" : " did not go on: stopped, cut off or gone",
                     waiting == 0 ? "" : cat(", and ", counted(waiting, "process"), waiting == 1 ? "" : "es"),
                     waiting == 0 ? "" : " to take a place that a rank has", "; ", outcome_.as_before()),
             .arrived = first_ranks(outcome_.size)});
    }

    /// Asks the chosen candidates, none or more, and all ranks whether they are there. Returns whether the
    /// outcome is decided. Candidates that do not answer are removed: they come again if they live.
    bool confirm() {
        const auto number = round_++;
        auto asked = std::map<std::string, Asked>{};
        auto secrets = std::vector<std::string>{};
        for (const auto& [i, place] : chosen_) {
            const auto& candidate = candidates_[i];
            secrets.push_back(candidate.secret);
            asked[yes_key(outcome_.scope, number, candidate.secret)].slot = candidate.slot;
        }
        for (int each = 1; each < outcome_.size; ++each)
            asked[yes_key(outcome_.scope, number, std::to_string(each))].rank = each;
        for (const auto& [name, who] : asked) stale_.push_back(name);
        stale_.push_back(outcome_.key(cat("round.", number)));
        store_.set(stale_.back(), pack_texts(secrets), outcome_.soon());
        for (const auto& secret : secrets)
            if (offered_.insert(secret).second) {
                store_.set(offer_key(secret), cat(number, " ", outcome_.scope), outcome_.soon());
                stale_.push_back(offer_key(secret));
            }

        const auto begin = Clock::now();
        if (!have_answered(std::move(asked))) return decided_.has_value();
        if (chosen_.empty()) return false;
        // A candidate that confirmed at once may have left since: they are asked again.
        if (Clock::now() - begin >= longest_patience) return false;
        return decide(larger_world());
    }

    /// Waits until all that are asked have answered. False if candidates do not, or if the outcome is decided
    /// meanwhile.
    bool have_answered(std::map<std::string, Asked> asked) {
        const auto begin = Clock::now();
        const auto patience = patience_of(asked_);
        const auto decide_not = [&](std::string standing) { return !decide(std::move(standing)); };
        for (;;) {
            if (const auto ranks = lost_({}); !ranks.empty()) return decide_not(outcome_.lose(ranks));
            const auto now = Clock::now();
            auto names = std::vector<std::string>{};
            for (const auto& [name, who] : asked) names.push_back(name);
            names.push_back(outcome_.key("outcome"));
            const auto found = store_.get(names, outcome_.soon());
            if (found.back()) return decide_not(*found.back());
            for (std::size_t i = 0; i + 1 < names.size(); ++i)
                if (found[i]) asked.erase(names[i]);
            if (asked.empty()) return true;
            auto slots = std::vector<std::string>{};
            auto ranks = std::vector<int>{};
            for (const auto& [name, who] : asked) {
                if (who.rank > 0)
                    ranks.push_back(who.rank);
                else
                    slots.push_back(slot_key(who.slot));
            }
            std::ranges::sort(ranks);
            if (now >= begin + patience) {
                const auto ended = ended_();
                auto gone = ranks;
                std::erase_if(gone, [&](int each) { return !contains(ended, each); });
                if (!gone.empty()) return decide_not(outcome_.lose(gone));
                if (ranks.empty()) {
                    store_.remove(slots, outcome_.soon());
                    return false;
                }
            }
            if (now >= last_ + patience)
                return decide_not(outcome_.expire(
                    asked_.timeout, ranks,
                    cat(ranks_text(ranks), " arrived and then did not go on: stopped, cut off or gone")));
            pause_for(store_, begin);
        }
    }

    /// Decides on the world with the chosen candidates.
    std::string larger_world() const {
        struct Entering {
            int place;
            std::string secret;
            std::string about;
        };
        auto all = std::vector<Entering>{};
        for (int each = 0; each < outcome_.size; ++each)
            all.push_back({places_[static_cast<std::size_t>(each)], "", abouts_.at(each)});
        for (const auto& [i, place] : chosen_)
            all.push_back({place, candidates_[i].secret, candidates_[i].about});
        std::ranges::sort(all, {}, &Entering::place);
        auto listed = Listed{};
        listed.world.common = asked_.common;
        // A prefix of keys that is no longer however often a job has grown.
        listed.world.scope = cat("grown.", new_secret().substr(0, 16), ".");
        for (auto& each : all) {
            listed.world.places.push_back(each.place);
            listed.world.abouts.push_back(std::move(each.about));
            listed.secrets.push_back(std::move(each.secret));
        }
        return outcome_.set(to_text(listed));
    }

    const GrowOutcome& outcome_;
    Store& store_ = *outcome_.store;
    const std::vector<int>& places_;
    const Growth& asked_;
    const LostRanks& lost_;
    const std::function<std::vector<int>()>& ended_;
    const Instant until_;                              // for ranks and candidates to come
    const Instant last_;                               // when it ends
    std::vector<int> absent_;                          // ranks that have not come
    std::map<int, std::string> abouts_;                // of ranks that have
    std::map<std::string, std::vector<int>> numbers_;  // of processes that ranks ask for
    std::vector<int> untimely_;                        // ranks whose timeout is not positive
    bool has_looked_ = false;                          // whether ranks that had come have ended since
    std::vector<Candidate> candidates_;
    std::vector<std::pair<std::size_t, int>> chosen_;  // candidates, and the place of each
    std::set<std::string> offered_;                    // to these secrets
    std::vector<std::string> stale_;                   // entries that nobody reads once it is decided
    int round_ = 0;
    std::optional<std::string> decided_;
};

}  // namespace

std::vector<std::pair<std::size_t, int>> choose(std::span<const int> places, std::span<const int> wishes,
                                                int most) {
    auto taken = std::set<int>(places.begin(), places.end());
    auto chosen = std::vector<std::pair<std::size_t, int>>{};
    const auto full = [&] { return std::cmp_greater_equal(chosen.size(), most); };
    for (std::size_t i = 0; i < wishes.size() && !full(); ++i)
        if (wishes[i] >= 0 && taken.insert(wishes[i]).second) chosen.emplace_back(i, wishes[i]);
    auto next = 0;
    for (std::size_t i = 0; i < wishes.size() && !full(); ++i) {
        if (wishes[i] >= 0) continue;
        while (!taken.insert(next).second) ++next;
        chosen.emplace_back(i, next);
    }
    return chosen;
}

std::string lead_growth(const GrowOutcome& outcome, const std::vector<int>& places, const Growth& asked,
                        const LostRanks& lost, const std::function<std::vector<int>()>& ended) {
    return GrowLeader(outcome, places, asked, lost, ended).lead();
}

}  // namespace rankmesh::detail
