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
#include "engine/random_bytes.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// The time that a process which waits to enter has to confirm that it is there.
constexpr auto longest_patience = std::chrono::seconds(2);
Duration patience(Duration timeout) {
    return std::clamp<Duration>(timeout, std::chrono::milliseconds(1), longest_patience);
}
/// The time that a rank known to have ended is waited for: perhaps only its connection has.
constexpr auto ended_wait = std::chrono::milliseconds(50);
/// How long a rank waits; where it may not say that, until all have heard so.
Duration wait_of(const Growth& asked) {
    constexpr auto longest = Duration(std::chrono::hours(87660));  // twice that is still a time
    return asked.timeout > Duration::zero() ? std::min(asked.timeout, longest) : longest_patience;
}

constexpr auto entered = "entered";
constexpr auto refused_call = "refused call";
constexpr auto failed = "failed";

std::string slot_key(int slot) { return cat("candidate.", slot); }
std::string offer_key(const std::string& secret) { return cat("offer.", secret); }
std::string yes_key(const std::string& scope, int round, const std::string& who) {
    return cat(scope, "yes.", round, ".", who);
}

/// Pauses as a rank does that waits since `begin`.
void pause(const Store& store, Clock::time_point begin) {
    pause_between_polls(begin, std::max<Duration>(store.longest_pause(), std::chrono::milliseconds(5)));
}

/// `rank 2`, `ranks {2, 3}`.
std::string named(const std::vector<int>& ranks) {
    return ranks.size() == 1 ? cat("rank ", ranks.front()) : cat("ranks ", ranks_to_string(ranks));
}

}  // namespace

int read_number(const std::string& text) {
    return static_cast<int>(Fields(text + " ", "what another rank says").number());
}

std::string to_text(const Listed& listed) {
    auto parts = std::vector<std::string>{entered, listed.world.common, listed.world.scope};
    for (std::size_t i = 0; i < listed.secrets.size(); ++i)
        parts.insert(parts.end(),
                     {std::to_string(listed.world.places[i]), listed.secrets[i], listed.world.abouts[i]});
    return pack_texts(parts);
}

/// Nothing for an outcome that is a failure.
std::optional<Listed> read_listed(const std::vector<std::string>& parts, const std::string& scope) {
    if (parts.size() < 3 || parts[0] != entered || parts.size() % 3 != 0) return std::nullopt;
    auto listed = Listed{};
    listed.world.common = parts[1];
    listed.world.scope = parts[2];
    for (std::size_t i = 3; i < parts.size(); i += 3) {
        listed.world.places.push_back(read_number(parts[i]));
        listed.secrets.push_back(parts[i + 1]);
        listed.world.abouts.push_back(parts[i + 2]);
    }
    listed.world.outcome = cat(scope, "outcome");
    return listed;
}

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

GrownWorld GrowAgreement::grow(const Growth& asked, const std::function<std::vector<int>()>& ended) {
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
    // What was cut before may be a connection only, and its rank still come.
    const auto before = ended();
    const auto given = Clock::now() + ended_wait;
    const auto lost = [&](const std::vector<int>& absent) {
        auto now = ended();
        std::erase_if(now, [&](int each) {
            if (each == rank_) return true;
            return contains(before, each) && (!contains(absent, each) || Clock::now() < given);
        });
        std::ranges::sort(now);
        now.erase(std::unique(now.begin(), now.end()), now.end());
        return now;
    };
    store_->put(key(cat("here.", rank_)),
                pack_texts({std::to_string(asked.most), std::to_string(asked.timeout.count()), asked.about}),
                soon());
    auto outcome = std::string{};
    try {
        outcome = rank_ == 0 ? lead(asked, lost, ended) : follow(asked, lost);
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

/// Writes how it ends, unless that is decided; what was decided.
std::string GrowAgreement::decide(const std::string& outcome) {
    if (store_->put(key("outcome"), outcome, soon())) return outcome;
    const auto first = store_->get({key("outcome")}, soon()).front();
    return first ? *first : outcome;
}

std::string GrowAgreement::decide(const Failure& failure) {
    return decide(pack_texts({failed, FailureNote{rank_, "", failure}.text()}));
}

std::string GrowAgreement::decide_lost(const std::vector<int>& lost) {
    return decide(Failure{.kind = Failure::Kind::gone,
                          .why = cat(named(lost), lost.size() == 1 ? " has" : " have",
                                     " ended; grow cannot be completed, and ", as_before()),
                          .lost = lost});
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
            store_->put(yes_key(grow_scope_, round++, std::to_string(rank_)), "", soon());
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
            return decide(Failure::of(expired_in(
                "grow", asked.timeout, rank_, arrived, missing, ranks_to_string(missing),
                leader_is_here ? "rank 0 arrived and then did not go on: stopped, cut off or gone" : "")));
        }
        pause(*store_, begin);
    }
}

struct GrowAgreement::Leading {
    const Growth& asked;
    const Lost& lost;
    const std::function<std::vector<int>()>& ended;  // also those whose connection was cut before
    Instant last;                                    // when it ends
    bool has_looked = false;                         // whether these are there
    std::map<int, std::string> abouts = {};
    std::vector<Candidate> candidates = {};
    std::set<std::string> offered = {};   // to these secrets
    std::vector<std::string> stale = {};  // entries that nobody reads once it is decided
    int round = 0;
    std::string outcome = {};  // once it is decided
};

std::string GrowAgreement::lead(const Growth& asked, const Lost& lost,
                                const std::function<std::vector<int>()>& ended) {
    const auto begin = Clock::now();
    const auto timeout = wait_of(asked);
    const auto until = from_now(timeout);
    auto leading = Leading{.asked = asked, .lost = lost, .ended = ended, .last = until + timeout};
    leading.abouts[0] = asked.about;
    auto absent = first_ranks(size_);
    std::erase(absent, 0);
    auto numbers = std::map<std::string, std::vector<int>>{{std::to_string(asked.most), {0}}};
    auto untimely = std::vector<int>{};
    if (asked.timeout <= Duration::zero()) untimely.push_back(0);
    auto slots = std::vector<std::string>{};
    for (int slot = 0; slot < most_candidates; ++slot) slots.push_back(slot_key(slot));

    const auto step = [&]() -> std::string {
        auto names = slots;
        names.push_back(key("outcome"));
        for (auto each : absent) names.push_back(key(cat("here.", each)));
        const auto found = store_->get(names, soon());
        if (const auto& outcome = found[slots.size()]) return *outcome;
        const auto now = Clock::now();
        auto still = std::vector<int>{};
        for (std::size_t i = 0; i < absent.size(); ++i) {
            const auto& said = found[slots.size() + 1 + i];
            if (!said) {
                still.push_back(absent[i]);
                continue;
            }
            const auto parts = unpack_texts(*said);
            if (parts.size() != 3) Fields({}, "what another rank says").throw_unreadable();
            numbers[parts[0]].push_back(absent[i]);
            if (parts[1].starts_with('-') || parts[1] == "0") untimely.push_back(absent[i]);
            leading.abouts[absent[i]] = parts[2];
        }
        absent = std::move(still);
        if (const auto ranks = lost(absent); !ranks.empty()) return decide_lost(ranks);
        if (absent.empty() && numbers.size() > 1) {
            auto classes =
                std::vector<std::pair<std::string, std::vector<int>>>(numbers.begin(), numbers.end());
            std::ranges::stable_sort(
                classes, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
            auto text =
                std::string("the ranks of a world that grows ask for different numbers of processes: ");
            auto outside = std::vector<int>{};
            for (std::size_t i = 0; i < classes.size(); ++i) {
                append(text,
                       cat(i > 0 ? ", " : "", classes[i].first, " on ", ranks_to_string(classes[i].second)));
                if (i > 0) outside.insert(outside.end(), classes[i].second.begin(), classes[i].second.end());
            }
            std::ranges::sort(outside);
            return decide(Failure{.kind = Failure::Kind::disagreement, .why = text, .lost = outside});
        }
        if (absent.empty() && (asked.most < 1 || asked.most > most_candidates))
            return decide(
                pack_texts({refused_call, cat("a world is to grow by ", asked.most, " processes; 1 to ",
                                              most_candidates, " can enter it at once")}));
        if (absent.empty() && !untimely.empty())
            return decide(
                pack_texts({refused_call, cat("a world is to grow within a timeout that is not positive, "
                                              "on ",
                                              ranks_to_string(untimely), "; give it one that is")}));
        // One that had come before its connection was cut may have ended since.
        if (absent.empty() && !std::exchange(leading.has_looked, absent.empty()) && !ended().empty()) {
            if (confirmed(leading, {})) return leading.outcome;
            return {};
        }
        leading.candidates.clear();
        auto wishes = std::vector<int>{};
        for (int slot = 0; slot < most_candidates; ++slot) {
            const auto& said = found[static_cast<std::size_t>(slot)];
            if (!said) continue;
            const auto parts = unpack_texts(*said);
            if (parts.size() != 3) Fields({}, "what a process that waits says").throw_unreadable();
            wishes.push_back(parts[1].empty() ? -1 : read_number(parts[1]));
            leading.candidates.push_back(
                {.slot = slot, .secret = parts[0], .wish = wishes.back(), .about = parts[2]});
        }
        const auto chosen = choose(places_, wishes, asked.most);
        const auto full = std::cmp_equal(chosen.size(), asked.most);
        if (absent.empty() && !chosen.empty() && (full || now >= until) && now < leading.last) {
            if (confirmed(leading, chosen)) return leading.outcome;
            return {};
        }
        if (now < until) return {};
        if (!absent.empty()) {
            auto arrived = first_ranks(size_);
            std::erase_if(arrived, [&](int each) { return contains(absent, each); });
            return decide(
                Failure::of(expired_in("grow", asked.timeout, 0, arrived, absent, ranks_to_string(absent))));
        }
        const auto waiting = leading.candidates.size() - chosen.size();
        return decide(Failure{
            .kind = Failure::Kind::timeout,
            .why =
                cat("the timeout of ", to_text(asked.timeout), " expired in grow: ",
                    leading.offered.empty() ? "no process has come to enter the job '"
                                            : "those that came to enter the job '",
                    store_->job(), "' in ", store_->text(),
                    leading.offered.empty() ? "" : " did not go on: stopped, cut off or gone",
                    waiting == 0 ? "" : cat(", and ", counted(waiting, "process"), waiting == 1 ? "" : "es"),
                    waiting == 0 ? "" : " to take a place that a rank has", "; ", as_before()),
            .arrived = first_ranks(size_)});
    };
    auto outcome = std::string{};
    try {
        while ((outcome = step()).empty()) pause(*store_, begin);
    } catch (const EngineFailure& error) {
        outcome = decide(Failure{.kind = Failure::Kind::engine, .why = error.what()});
    }
    // Those that were asked come again if they have not entered.
    auto& stale = leading.stale;
    for (const auto& each : leading.candidates)
        if (leading.offered.contains(each.secret)) stale.push_back(slot_key(each.slot));
    if (!stale.empty()) store_->remove(stale, soon());
    return outcome;
}

/// Asks those that are chosen, none or more, and all ranks, whether they are there; true once it is decided.
/// What does not answer is removed: it comes again if it lives.
bool GrowAgreement::confirmed(Leading& leading, const std::vector<std::pair<std::size_t, int>>& chosen) {
    const auto number = leading.round++;
    auto secrets = std::vector<std::string>{};
    auto unanswered = std::vector<std::string>{};  // keys
    auto slot_of = std::map<std::string, int>{};   // by key
    auto rank_of = std::map<std::string, int>{};
    for (const auto& [i, place] : chosen) {
        const auto& candidate = leading.candidates[i];
        secrets.push_back(candidate.secret);
        unanswered.push_back(yes_key(grow_scope_, number, candidate.secret));
        slot_of[unanswered.back()] = candidate.slot;
    }
    for (int each = 1; each < size_; ++each) {
        unanswered.push_back(yes_key(grow_scope_, number, std::to_string(each)));
        rank_of[unanswered.back()] = each;
    }
    leading.stale.push_back(key(cat("round.", number)));
    leading.stale.insert(leading.stale.end(), unanswered.begin(), unanswered.end());
    store_->put(leading.stale[leading.stale.size() - unanswered.size() - 1], pack_texts(secrets), soon());
    for (const auto& secret : secrets)
        if (leading.offered.insert(secret).second) {
            store_->put(offer_key(secret), cat(number, " ", grow_scope_), soon());
            leading.stale.push_back(offer_key(secret));
        }

    const auto begin = Clock::now();
    const auto patient = begin + patience(leading.asked.timeout);
    for (;;) {
        if (const auto ranks = leading.lost({}); !ranks.empty()) {
            leading.outcome = decide_lost(ranks);
            return true;
        }
        const auto now = Clock::now();
        auto names = unanswered;
        names.push_back(key("outcome"));
        const auto found = store_->get(names, soon());
        if (found.back()) {
            leading.outcome = *found.back();
            return true;
        }
        auto still = std::vector<std::string>{};
        for (std::size_t i = 0; i < unanswered.size(); ++i)
            if (!found[i]) still.push_back(unanswered[i]);
        unanswered = std::move(still);
        if (unanswered.empty()) break;
        if (now >= patient) {
            auto gone = leading.ended();
            std::erase_if(gone, [&](int each) {
                return std::ranges::none_of(unanswered, [&](const auto& key) {
                    const auto found = rank_of.find(key);
                    return found != rank_of.end() && found->second == each;
                });
            });
            std::ranges::sort(gone);
            gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
            if (!gone.empty()) {
                leading.outcome = decide_lost(gone);
                return true;
            }
        }
        const auto a_rank =
            std::ranges::any_of(unanswered, [&](const auto& key) { return rank_of.contains(key); });
        if (!a_rank && now >= patient) {
            auto keys = std::vector<std::string>{};
            for (const auto& each : unanswered) keys.push_back(slot_key(slot_of.at(each)));
            store_->remove(keys, soon());
            return false;
        }
        if (now >= leading.last + patience(leading.asked.timeout)) {
            auto arrived = first_ranks(size_);
            auto missing = std::vector<int>{};
            for (const auto& each : unanswered)
                if (rank_of.contains(each)) missing.push_back(rank_of.at(each));
            std::erase_if(arrived, [&](int each) { return contains(missing, each); });
            leading.outcome = decide(Failure::of(expired_in(
                "grow", leading.asked.timeout, 0, arrived, missing, ranks_to_string(missing),
                cat(named(missing), " arrived and then did not go on: stopped, cut off or gone"))));
            return true;
        }
        pause(*store_, begin);
    }
    if (chosen.empty()) return false;
    // A candidate that confirmed at once may have left since: they are asked again.
    if (Clock::now() - begin >= longest_patience) return false;
    struct Entering {
        int place;
        std::string secret;
        std::string about;
    };
    auto all = std::vector<Entering>{};
    for (int each = 0; each < size_; ++each)
        all.push_back({places_[static_cast<std::size_t>(each)], "", leading.abouts.at(each)});
    for (const auto& [i, place] : chosen)
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
    leading.outcome = decide(to_text(listed));
    return true;
}

namespace {

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
                if (!found[static_cast<std::size_t>(slot)] && store_.put(slot_key(slot), text_, until_))
                    slot_ = slot;
            if (slot_ < 0) pause(store_, begin_);
        }
    }
    ~Candidacy() {
        if (slot_ >= 0) store_.remove({slot_key(slot_)}, soon());
    }
    Candidacy(const Candidacy&) = delete;
    Candidacy& operator=(const Candidacy&) = delete;

    bool expired() const { return Clock::now() >= until_; }

    /// The world that it has entered; nothing if it must come again, or the timeout has expired.
    std::optional<GrownWorld> wait() {
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
            pause(store_, begin_);
        }
    }

private:
    /// Confirms what the world asks until it is decided who enters it.
    std::optional<GrownWorld> follow(const std::string& scope, int round) {
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
                    store_.put(yes_key(scope, round, secret_), "", soon());
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
            pause(store_, begin);
        }
    }

    std::optional<GrownWorld> listed(const std::string& outcome, const std::string& scope) {
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

GrownWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout) {
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
