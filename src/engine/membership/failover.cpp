// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/failover.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"
#include "engine/store/sealed_store.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto nobody_goes_over = "refused";
/// The time that a rank known to have ended is waited for: perhaps only its connection has.
constexpr auto wait_for_ended = std::chrono::milliseconds(50);
/// The time that the last of a process that ends may take.
constexpr auto longest_end = std::chrono::seconds(5);
/// The least time for which the second store is looked for.
constexpr auto least_search = std::chrono::seconds(2);
/// How long a rank asks for the outcome at a time.
constexpr auto longest_look = std::chrono::milliseconds(250);

/// The prefixes of the entries by which ranks go over, and of those of the world that does.
constexpr auto gather_prefix = "gather.";
constexpr auto over_prefix = "over.";
std::string here_key(int place) { return cat(gather_prefix, "here.", place); }
std::string gone_key(int place) { return cat(gather_prefix, "gone.", place); }
/// Of the first that is written: who goes over, or why nobody does.
constexpr auto outcome_key = "gather.outcome";
std::string refusal(const Successor& successor, const std::string& why) {
    return pack_texts({nobody_goes_over, cat("no rank goes over to ", successor.text(), ", ", why)});
}

Store::Instant half_a_minute() { return Clock::now() + std::chrono::seconds(30); }

/// The grace of which the sums below are still times.
Duration bounded(Duration grace) { return std::min(grace, Duration(std::chrono::hours(24 * 365))); }

}  // namespace

std::string check_successor(Rendezvous& rendezvous, const std::shared_ptr<Store>& first) {
    auto& second = *first->successor();
    const auto rank = rendezvous.rank();
    const auto one = [](const std::string& a, const std::string& b) { return a.empty() ? b : a; };
    const auto reached_within = [&](std::chrono::seconds time) {
        return second.reached(Clock::now() + time);
    };
    if (second.is_served_here())
        SealedStore(first).put(successor_server, std::to_string(rank), half_a_minute());
    const auto all = unpack_texts(rendezvous.all(
        "the start of the world",
        pack_texts({second.is_served_here() ? pack_texts({std::to_string(rank), second.words()}) : "",
                    second.why_not_served()}),
        [&](const std::string& a, const std::string& b) {
            const auto these = unpack_texts(a);
            const auto those = unpack_texts(b);
            return pack_texts({these.at(0) + those.at(0), one(these.at(1), those.at(1))});
        }));
    const auto& served = all.at(0);
    const auto& wrong = all.at(1);
    if (served.empty() && !wrong.empty()) throw UsageError(wrong);
    if (served.empty()) {
        auto other = std::string{};
        try {
            other = reached_within(std::chrono::seconds(1));
        } catch (const Error&) {
        }
        if (!other.empty())
            throw UsageError(
                cat(second.text(), " is served by ", other,
                    ", which is none of this start: an earlier one still runs, or another job has its "
                    "id; end that one, or give every start a job id of its own, such as "
                    "RANKMESH_JOB=$(uuidgen)"));
        throw UsageError(
            cat("no rank serves ", second.text(), ": none of ranks 1..", rendezvous.size() - 1,
                " runs at that host; name a host where one of them does, or leave the second out"));
    }
    const auto parts = unpack_texts(served);
    if (parts.size() != 2)
        throw UsageError(cat("more than one rank serves ", second.text(),
                             ": its host is another one for each of them; name it as all ranks find it"));
    second.set_place(read_number(parts[0]));
    auto why = std::string{};
    try {
        const auto words = reached_within(std::chrono::seconds(5));
        if (words != parts[1])
            why = cat("is answered by ", words, ", an earlier start of the job, and not by ", parts[1]);
    } catch (const Error& error) {
        why = cat("does not reach it: ", error.what());
    }
    if (!why.empty()) why = cat("rank ", parts[0], " serves ", second.text(), ", and rank ", rank, " ", why);
    if (const auto first_why = rendezvous.all("the start of the world", why, one); !first_why.empty())
        throw UsageError(
            cat(first_why, "; name a host and a port that all ranks reach, or leave the second out"));
    return cat("rank ", parts[0], " serves ", second.text());
}

int find_servers(Store& first) {
    auto found = std::vector<std::optional<std::string>>(2);
    try {
        found = first.get({successor_server, served_from_outside}, half_a_minute());
    } catch (const ServerLost&) {  // of which the next step tells
    }
    if (found[0]) first.successor()->set_place(read_number(*found[0]));
    return found[1] ? -1 : 0;
}

void forbid_failover(Successor& successor) noexcept {
    constexpr auto longest = std::chrono::milliseconds(500);
    try {
        static_cast<void>(successor.reached(Clock::now() + longest));
        SealedStore(successor.store())
            .put(outcome_key, refusal(successor, "since others went on without the rank that serves it"),
                 Clock::now() + longest);
    } catch (const std::exception&) {  // it has ended
    }
}

Failover::Failover(Successor& successor, Rank rank, const ServerLost& lost)
    : successor_(successor),
      own_(std::move(rank)),
      lost_(lost.gone),
      store_(std::make_shared<SealedStore>(successor_.store())) {}

GrownWorld Failover::world(Duration grace, const std::function<std::vector<int>()>& ended) {
    grace = bounded(grace);
    const auto both_gone = [&](const std::string& why) {
        auto lost = std::vector<int>{};
        for (auto place : {0, successor_.place()}) {
            const auto found = std::ranges::find(own_.places, place);
            if (found != own_.places.end()) lost.push_back(static_cast<int>(found - own_.places.begin()));
        }
        return PeerLost(cat(lost_, "; ", successor_.text(), " is gone as well: ", why,
                            "; the ranks cannot find each other any more"),
                        lost);
    };
    const auto own = pack_texts({successor_.identity(), ranks_to_string(own_.places), own_.about});
    auto outcome = std::string{};
    try {
        const auto until = from_now(std::max<Duration>(grace, least_search));
        const auto name = here_key(own_place());
        if (!store_->put(name, own, until) &&
            store_->get({name}, half_a_minute()).front().value_or(own) != own)
            throw UsageError(cat("another process goes over to ", successor_.text(), " as rank ", own_place(),
                                 " of the job '", store_->job(),
                                 "'; one of them has not heard that it was replaced"));
    } catch (const EngineFailure& error) {
        throw both_gone(error.what());
    } catch (const Timeout& error) {
        throw both_gone(error.what());
    }
    try {
        outcome = successor_.is_served_here() ? decided(grace, ended) : outcome_of_others(grace, ended);
    } catch (const EngineFailure& error) {
        throw both_gone(error.what());
    }
    const auto parts = unpack_texts(outcome);
    if (parts.size() == 2 && parts[0] == nobody_goes_over) throw EngineFailure(cat(lost_, "; ", parts[1]));
    auto listed = read_listed(parts, gather_prefix);
    if (!listed) Fields({}, "who goes on by the second store").throw_unreadable();
    const auto found = std::ranges::find(listed->secrets, successor_.identity());
    if (found == listed->secrets.end())
        throw Timeout(
            cat("rank ", own_.rank, " is none of the survivors: ", counted(listed->secrets.size(), "rank"),
                " went over to ", successor_.text(),
                " without it, since it came later than their grace, "
                "here ",
                to_text(grace), "; where ranks notice late what happened, give survivors() more time"),
            {}, {own_.rank});
    listed->world.rank = static_cast<int>(found - listed->secrets.begin());
    return std::move(listed->world);
}

void Failover::tell_ended(const std::function<std::vector<int>()>& ended) {
    for (auto each : ended()) {
        if (each == own_.rank || contains(told_, each)) continue;
        told_.push_back(each);
        store_->put(gone_key(own_.places[static_cast<std::size_t>(each)]), "", half_a_minute());
    }
}

std::string Failover::outcome_of_others(Duration grace, const std::function<std::vector<int>()>& ended) {
    const auto begin = Clock::now();
    // The rank that decides may come a grace later, and waits for another one.
    const auto until = begin + 3 * grace + std::chrono::seconds(5);
    for (;;) {
        tell_ended(ended);
        const auto now = Clock::now();
        if (auto found =
                store_->await({outcome_key, outcome_key}, now + longest_look, half_a_minute()).front())
            return *found;
        if (now < until) {
            if (!store_->waits()) pause_between_polls(begin, store_->longest_pause(), until);
            continue;
        }
        const auto decides = std::ranges::find(own_.places, successor_.place());
        auto missing = std::vector<int>{};
        if (decides != own_.places.end()) missing.push_back(static_cast<int>(decides - own_.places.begin()));
        throw Timeout(
            cat("the timeout expired: ", lost_, "; ", successor_.text(),
                " is there, but the rank that serves it",
                missing.empty() ? "" : cat(", rank ", missing.front(), ","), " has not said within ",
                to_text(std::chrono::round<std::chrono::milliseconds>(now - begin)),
                " who goes on: it has not called survivors(), or still reaches the first store; survivors() "
                "may be called again"),
            {own_.rank}, missing);
    }
}

std::string Failover::decided(Duration grace, const std::function<std::vector<int>()>& ended) {
    const auto begin = Clock::now();
    const auto until = begin + grace;
    auto listed = std::map<int, std::vector<std::string>>{};  // by place: identity, places, about
    auto expected = std::set<int>(own_.places.begin(), own_.places.end());
    auto lost = std::set<int>{0};  // the process with the first store, or another one that comes
    for (;;) {
        tell_ended(ended);
        auto places = std::vector<int>{};
        auto names = std::vector<std::string>{};
        // Also of processes that have entered a larger world of which this rank has not heard.
        for (int place = 0; place <= *expected.rbegin() + most_candidates; ++place) {
            if (listed.contains(place)) continue;
            places.push_back(place);
            names.push_back(here_key(place));
            names.push_back(gone_key(place));
        }
        const auto found = store_->get(names, half_a_minute());
        for (std::size_t i = 0; i < places.size(); ++i) {
            if (found[2 * i + 1]) lost.insert(places[i]);
            if (!found[2 * i]) continue;
            auto parts = unpack_texts(*found[2 * i]);
            auto fields = Fields({}, "what another rank says");
            if (parts.size() != 3) fields.throw_unreadable();
            const auto its = fields.ranks(parts[1], std::size_t{1} << 22);
            expected.insert(its.begin(), its.end());
            listed.emplace(places[i], std::move(parts));
        }
        const auto now = Clock::now();
        const auto all = std::ranges::all_of(
            expected, [&](int place) { return listed.contains(place) || lost.contains(place); });
        if (now >= until || (all && now >= begin + wait_for_ended)) break;
        pause_between_polls(begin, store_->longest_pause());
    }
    auto doubt = successor_.doubt();
    for (const auto end = Clock::now() + longest_end; !doubt.empty() && Clock::now() < end;) {
        std::this_thread::sleep_for(wait_for_ended);
        doubt = successor_.doubt();
    }
    auto outcome = std::string{};
    if (doubt.empty()) {
        auto world = Listed{};
        world.world.scope = over_prefix;
        for (auto& [place, said] : listed) {
            world.world.places.push_back(place);
            world.secrets.push_back(std::move(said[0]));
            world.world.abouts.push_back(std::move(said[2]));
        }
        outcome = to_text(world);
    } else {
        outcome = refusal(successor_, cat("since rank 0 may live and others go on with it: ", doubt,
                                          ", on the rank that serves the second"));
    }
    if (!store_->put(outcome_key, outcome, half_a_minute()))
        outcome = store_->get({outcome_key}, half_a_minute()).front().value_or(outcome);
    else if (doubt.empty())
        store_->put(opened, "", half_a_minute());
    auto read = std::vector<std::string>{};
    for (const auto& [place, said] : listed) read.push_back(here_key(place));
    for (auto place : lost) read.push_back(gone_key(place));
    store_->remove(read, half_a_minute());
    return outcome;
}

}  // namespace rankmesh::detail
