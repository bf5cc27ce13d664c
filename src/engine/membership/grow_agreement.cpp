// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/grow_agreement.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <rankmesh/core/text.hpp>

#include "engine/diagnosis/attendance.hpp"
#include "engine/fields.hpp"
#include "engine/host.hpp"
#include "engine/membership/failure_note.hpp"
#include "engine/membership/grow_entries.hpp"
#include "engine/random_bytes.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;
using namespace grow_entries;

Duration patience(Duration timeout) {
    return std::clamp<Duration>(timeout, std::chrono::milliseconds(1), longest_patience);
}
/// The time that a rank known to have ended is waited for: perhaps only its connection has.
constexpr auto ended_wait = std::chrono::milliseconds(50);
/// How long a rank waits. An invalid timeout waits until every rank has the error.
Duration wait_of(const Growth& asked) {
    constexpr auto longest = Duration(std::chrono::hours(87660));  // twice that is still a time
    return asked.timeout > Duration::zero() ? std::min(asked.timeout, longest) : longest_patience;
}

/// Thrown if a rank of the world makes another one.
struct MadeAnother {
    Failure failure;
};

constexpr auto refused_call = "refused call";
constexpr auto failed = "failed";

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

GrowAgreement::GrowAgreement(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                             std::vector<int> places)
    : store_(std::move(store)),
      scope_(std::move(scope)),
      rank_(rank),
      size_(size),
      places_(std::move(places)) {}

std::string GrowAgreement::as_before() const {
    return cat("the world of ", counted(size_, "rank"), " is as it was");
}

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
    grow_scope_ = cat(scope_, "grow.", number_++, ".");
    // Perhaps only a connection was cut, and its rank still comes.
    const auto before = ended();
    const auto given = Clock::now() + ended_wait;
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
    store_->set(key(cat("here.", rank_)),
                pack_texts({std::to_string(asked.most), std::to_string(asked.timeout.count()), asked.about}),
                soon());
    auto outcome = std::string{};
    try {
        outcome = rank_ == 0 ? lead(asked, lost, ended) : follow(asked, lost);
    } catch (const MadeAnother& made) {
        outcome = decide_renewed(made.failure);
    } catch (const EngineFailure& error) {
        outcome = decide(Failure{.kind = Failure::Kind::engine, .why = error.what()});
    }
    store_->remove({key(cat("here.", rank_))}, soon());
    const auto parts = unpack_texts(outcome);
    if (auto listed = read_listed(parts, grow_scope_)) {
        // The places are ascending, and those of ranks that were there are among them.
        const auto own =
            std::ranges::lower_bound(listed->world.places, places_[static_cast<std::size_t>(rank_)]);
        listed->world.rank = static_cast<int>(own - listed->world.places.begin());
        return std::move(listed->world);
    }
    leftovers_.push_back(key("outcome"));
    for (int each = 0; each < size_; ++each)
        leftovers_.push_back(key(cat("here.", each)));  // also of the dead
    if (parts.size() != 2) Fields({}, "how a world has grown").throw_unreadable();
    if (parts[0] == refused_call) throw UsageError(parts[1]);
    std::rethrow_exception(FailureNote::from(parts[1], size_).failure.error());
}

/// Sets the outcome, unless it is set; returns the outcome that stands.
std::string GrowAgreement::decide(const std::string& outcome) {
    if (store_->set(key("outcome"), outcome, soon())) return outcome;
    const auto first = store_->get({key("outcome")}, soon()).front();
    return first ? *first : outcome;
}

std::string GrowAgreement::decide(const Failure& failure) {
    return decide(pack_texts({failed, FailureNote{rank_, "", failure}.text()}));
}

std::string GrowAgreement::decide_lost(const std::vector<int>& lost) {
    return decide(Failure{.kind = Failure::Kind::gone,
                          .why = cat(ranks_text(lost), lost.size() == 1 ? " has" : " have",
                                     " ended; grow cannot be completed, and ", as_before()),
                          .lost = lost});
}

std::string GrowAgreement::decide_renewed(Failure failure) {
    append(failure.why, "; grow cannot be completed");
    return decide(failure);
}

std::string GrowAgreement::follow(const Growth& asked, const Lost& lost) {
    const auto begin = Clock::now();
    const auto timeout = wait_of(asked);
    auto until = from_now(timeout);
    auto leader_is_here = false;
    for (auto round = 0;;) {
        const auto found = store_->get({key("outcome"), key(cat("round.", round)), key("here.0")}, soon());
        const auto now = Clock::now();
        if (found[0]) return *found[0];
        if (found[1]) {
            store_->set(yes_key(grow_scope_, round++, std::to_string(rank_)), "", soon());
            continue;
        }
        if (found[2] && !leader_is_here) {
            leader_is_here = true;
            until = now + 2 * timeout + 2 * patience(timeout);  // which it has
        }
        if (const auto ranks = lost(found[2] ? std::vector<int>{} : std::vector{0}); !ranks.empty())
            return decide_lost(ranks);
        if (now >= until) {
            auto names = std::vector<std::string>{};
            for (int each = 0; each < size_; ++each) names.push_back(key(cat("here.", each)));
            const auto here = store_->get(names, soon());
            auto arrived = std::vector<int>{};
            auto missing = std::vector<int>{};
            for (int each = 0; each < size_; ++each)
                (here[static_cast<std::size_t>(each)] && each != 0 ? arrived : missing).push_back(each);
            return decide(Failure::of(timeout_error_in(
                "grow", asked.timeout, rank_, arrived, missing, ranks_text(missing),
                leader_is_here ? "rank 0 arrived and then did not go on: stopped, cut off or gone" : "")));
        }
        pause(*store_, begin);
    }
}

/// What rank 0 knows while it leads.
struct GrowAgreement::Leading {
    const Growth& asked;
    const Lost& lost;
    const std::function<std::vector<int>()>& ended;   // also those whose connection was cut before
    Instant until;                                    // for ranks and candidates to come
    Instant last;                                     // when it ends
    std::vector<int> absent;                          // ranks that have not come
    std::map<int, std::string> abouts;                // of ranks that have
    std::map<std::string, std::vector<int>> numbers;  // of processes that ranks ask for
    std::vector<int> untimely = {};                   // ranks whose timeout is not positive
    bool has_looked = false;                          // whether ranks that had come have ended since
    std::vector<Candidate> candidates = {};
    std::vector<std::pair<std::size_t, int>> chosen = {};  // candidates, and the place of each
    std::set<std::string> offered = {};                    // to these secrets
    std::vector<std::string> stale = {};                   // entries that nobody reads once it is decided
    int round = 0;
    std::string outcome = {};  // once it is decided
};

std::string GrowAgreement::lead(const Growth& asked, const Lost& lost,
                                const std::function<std::vector<int>()>& ended) {
    const auto begin = Clock::now();
    const auto timeout = wait_of(asked);
    const auto until = from_now(timeout);
    auto leading = Leading{.asked = asked,
                           .lost = lost,
                           .ended = ended,
                           .until = until,
                           .last = until + timeout,
                           .absent = first_ranks(size_),
                           .abouts = {{0, asked.about}},
                           .numbers = {{std::to_string(asked.most), {0}}}};
    std::erase(leading.absent, 0);
    if (asked.timeout <= Duration::zero()) leading.untimely.push_back(0);
    try {
        while (!is_decided(leading)) pause(*store_, begin);
    } catch (const MadeAnother& made) {
        leading.outcome = decide_renewed(made.failure);
    } catch (const EngineFailure& error) {
        leading.outcome = decide(Failure{.kind = Failure::Kind::engine, .why = error.what()});
    }
    // Those that were asked come again if they have not entered.
    auto& stale = leading.stale;
    for (const auto& each : leading.candidates)
        if (leading.offered.contains(each.secret)) stale.push_back(slot_key(each.slot));
    if (!stale.empty()) store_->remove(stale, soon());
    return leading.outcome;
}

/// Looks once who has come, and goes on as far as that allows; true once the outcome is decided.
bool GrowAgreement::is_decided(Leading& leading) {
    auto names = std::vector<std::string>{};
    for (int slot = 0; slot < most_candidates; ++slot) names.push_back(slot_key(slot));
    names.push_back(key("outcome"));
    for (auto each : leading.absent) names.push_back(key(cat("here.", each)));
    const auto found = store_->get(names, soon());
    const auto now = Clock::now();
    if (const auto& outcome = found[most_candidates]) {
        leading.outcome = *outcome;
        return true;
    }
    take_ranks(leading, std::span(found).subspan(most_candidates + 1));
    if (const auto ranks = leading.lost(leading.absent); !ranks.empty()) {
        leading.outcome = decide_lost(ranks);
        return true;
    }
    const auto all_came = leading.absent.empty();
    if (all_came) leading.outcome = refusal(leading);
    if (!leading.outcome.empty()) return true;
    // A rank that had come before its connection was cut may have ended since.
    if (all_came && !std::exchange(leading.has_looked, true) && !leading.ended().empty()) {
        leading.chosen.clear();
        return is_confirmed(leading);
    }
    take_candidates(leading, std::span(found).first(most_candidates));
    const auto full = std::cmp_equal(leading.chosen.size(), leading.asked.most);
    if (all_came && !leading.chosen.empty() && (full || now >= leading.until) && now < leading.last)
        return is_confirmed(leading);
    if (now < leading.until) return false;
    leading.outcome = decide_late(leading);
    return true;
}

/// Takes what ranks say that were absent.
void GrowAgreement::take_ranks(Leading& leading, std::span<const std::optional<std::string>> said) {
    auto still = std::vector<int>{};
    for (std::size_t i = 0; i < said.size(); ++i) {
        const auto rank = leading.absent[i];
        if (!said[i]) {
            still.push_back(rank);
            continue;
        }
        const auto parts = unpack_texts(*said[i]);
        if (parts.size() != 3) Fields({}, "what another rank says").throw_unreadable();
        leading.numbers[parts[0]].push_back(rank);
        if (parts[1].starts_with('-') || parts[1] == "0") leading.untimely.push_back(rank);
        leading.abouts[rank] = parts[2];
    }
    leading.absent = std::move(still);
}

/// Takes the candidates that wait now, and chooses which of them are to enter.
void GrowAgreement::take_candidates(Leading& leading, std::span<const std::optional<std::string>> slots) {
    leading.candidates.clear();
    auto wishes = std::vector<int>{};
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        if (!slots[slot]) continue;
        const auto parts = unpack_texts(*slots[slot]);
        if (parts.size() != 3) Fields({}, "what a process that waits says").throw_unreadable();
        wishes.push_back(parts[1].empty() ? -1 : read_number(parts[1]));
        leading.candidates.push_back(
            {.slot = static_cast<int>(slot), .secret = parts[0], .wish = wishes.back(), .about = parts[2]});
    }
    leading.chosen = choose(places_, wishes, leading.asked.most);
}

/// Refuses calls that differ or are invalid; returns the outcome, "" if they are valid.
std::string GrowAgreement::refusal(const Leading& leading) {
    if (leading.numbers.size() > 1) {
        auto classes = std::vector<std::pair<std::string, std::vector<int>>>(leading.numbers.begin(),
                                                                             leading.numbers.end());
        std::ranges::stable_sort(
            classes, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
        auto text = std::string("the ranks of a world that grows ask for different numbers of processes: ");
        auto outside = std::vector<int>{};
        for (std::size_t i = 0; i < classes.size(); ++i) {
            const auto& [number, ranks] = classes[i];
            append(text, cat(i > 0 ? ", " : "", number, " on ", ranks_to_string(ranks)));
            if (i > 0) outside.insert(outside.end(), ranks.begin(), ranks.end());
        }
        std::ranges::sort(outside);
        return decide(Failure{.kind = Failure::Kind::disagreement, .why = text, .lost = outside});
    }
    const auto most = leading.asked.most;
    if (most < 1 || most > most_candidates)
        return decide(pack_texts({refused_call, cat("a world is to grow by ", most, " processes; 1 to ",
                                                    most_candidates, " can enter it at once")}));
    if (!leading.untimely.empty())
        return decide(
            pack_texts({refused_call, cat("a world is to grow within a timeout that is not positive, on ",
                                          ranks_to_string(leading.untimely), "; give it one that is")}));
    return {};
}

/// Decides that the timeout has expired, because ranks or candidates are missing.
std::string GrowAgreement::decide_late(const Leading& leading) {
    if (!leading.absent.empty()) return decide_missing(leading.asked.timeout, leading.absent, {});
    const auto waiting = leading.candidates.size() - leading.chosen.size();
    return decide(Failure{
        .kind = Failure::Kind::timeout,
        .why = cat("the timeout of ", to_text(leading.asked.timeout), " expired in grow: ",
                   leading.offered.empty() ? "no process has come to enter the job '"
                                           : "those that came to enter the job '",
                   store_->job(), "' in ", store_->text(),
                   leading.offered.empty() ? "" : " did not go on: stopped, cut off or gone",
                   waiting == 0 ? "" : cat(", and ", counted(waiting, "process"), waiting == 1 ? "" : "es"),
                   waiting == 0 ? "" : " to take a place that a rank has", "; ", as_before()),
        .arrived = first_ranks(size_)});
}

/// Decides that the timeout has expired, because ranks do not come or do not go on.
std::string GrowAgreement::decide_missing(Duration timeout, const std::vector<int>& missing,
                                          const std::string& seen) {
    auto arrived = first_ranks(size_);
    std::erase_if(arrived, [&](int each) { return contains(missing, each); });
    return decide(
        Failure::of(timeout_error_in("grow", timeout, 0, arrived, missing, ranks_text(missing), seen)));
}

/// Asks the chosen candidates, none or more, and all ranks whether they are there. Returns whether the
/// outcome is decided. Candidates that do not answer are removed: they come again if they live.
bool GrowAgreement::is_confirmed(Leading& leading) {
    const auto number = leading.round++;
    auto asked = std::map<std::string, Asked>{};
    auto secrets = std::vector<std::string>{};
    for (const auto& [i, place] : leading.chosen) {
        const auto& candidate = leading.candidates[i];
        secrets.push_back(candidate.secret);
        asked[yes_key(grow_scope_, number, candidate.secret)].slot = candidate.slot;
    }
    for (int each = 1; each < size_; ++each)
        asked[yes_key(grow_scope_, number, std::to_string(each))].rank = each;
    for (const auto& [name, who] : asked) leading.stale.push_back(name);
    leading.stale.push_back(key(cat("round.", number)));
    store_->set(leading.stale.back(), pack_texts(secrets), soon());
    for (const auto& secret : secrets)
        if (leading.offered.insert(secret).second) {
            store_->set(offer_key(secret), cat(number, " ", grow_scope_), soon());
            leading.stale.push_back(offer_key(secret));
        }

    const auto begin = Clock::now();
    if (!have_answered(leading, std::move(asked))) return !leading.outcome.empty();
    if (leading.chosen.empty()) return false;
    // A candidate that confirmed at once may have left since: they are asked again.
    if (Clock::now() - begin >= longest_patience) return false;
    leading.outcome = decide_larger(leading);
    return true;
}

/// Waits until all that are asked have answered. False if candidates do not, or if the outcome is decided
/// meanwhile.
bool GrowAgreement::have_answered(Leading& leading, std::map<std::string, Asked> asked) {
    const auto begin = Clock::now();
    const auto patient = begin + patience(leading.asked.timeout);
    for (;;) {
        if (const auto ranks = leading.lost({}); !ranks.empty()) {
            leading.outcome = decide_lost(ranks);
            return false;
        }
        const auto now = Clock::now();
        auto names = std::vector<std::string>{};
        for (const auto& [name, who] : asked) names.push_back(name);
        names.push_back(key("outcome"));
        const auto found = store_->get(names, soon());
        if (found.back()) {
            leading.outcome = *found.back();
            return false;
        }
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
        if (now >= patient) {
            const auto ended = leading.ended();
            auto gone = ranks;
            std::erase_if(gone, [&](int each) { return !contains(ended, each); });
            if (!gone.empty()) {
                leading.outcome = decide_lost(gone);
                return false;
            }
            if (ranks.empty()) {
                store_->remove(slots, soon());
                return false;
            }
        }
        if (now >= leading.last + patience(leading.asked.timeout)) {
            leading.outcome = decide_missing(
                leading.asked.timeout, ranks,
                cat(ranks_text(ranks), " arrived and then did not go on: stopped, cut off or gone"));
            return false;
        }
        pause(*store_, begin);
    }
}

/// Decides on the world with the chosen candidates.
std::string GrowAgreement::decide_larger(const Leading& leading) {
    struct Entering {
        int place;
        std::string secret;
        std::string about;
    };
    auto all = std::vector<Entering>{};
    for (int each = 0; each < size_; ++each)
        all.push_back({places_[static_cast<std::size_t>(each)], "", leading.abouts.at(each)});
    for (const auto& [i, place] : leading.chosen)
        all.push_back({place, leading.candidates[i].secret, leading.candidates[i].about});
    std::ranges::sort(all, {}, &Entering::place);
    auto listed = Listed{};
    listed.world.common = leading.asked.common;
    // A prefix of keys that is no longer however often a job has grown.
    listed.world.scope = cat("grown.", new_secret().substr(0, 16), ".");
    for (auto& each : all) {
        listed.world.places.push_back(each.place);
        listed.world.abouts.push_back(std::move(each.about));
        listed.secrets.push_back(std::move(each.secret));
    }
    return decide(to_text(listed));
}

}  // namespace rankmesh::detail
