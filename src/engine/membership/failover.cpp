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
#include "engine/random_bytes.hpp"
#include "engine/store/sealed_store.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// The time for which a rank that is known to have ended is waited for: perhaps only its connection has.
constexpr auto wait_for_ended = std::chrono::milliseconds(50);
/// The time that a process takes at most to end once its connections are closed.
constexpr auto longest_end = std::chrono::seconds(5);
/// The least time for which a rank looks for the second store.
constexpr auto least_search = std::chrono::seconds(2);
/// How long a rank asks for the outcome at a time.
constexpr auto longest_look = std::chrono::milliseconds(250);
/// For `grace`, so that a deadline computed from it is still a time.
constexpr auto longest_grace = Duration(std::chrono::hours(24 * 365));

/// Entries of the first store: the rank that serves the second, and that no rank serves the first any more.
constexpr auto second_server = "second";
constexpr auto served_from_outside = "served from outside";
/// Entries of the second store, by which ranks fail over. The first outcome that is set stands.
constexpr auto outcome_key = "gather.outcome";
constexpr auto gather_prefix = "gather.";
std::string here_key(int place) { return cat(gather_prefix, "here.", place); }
std::string gone_key(int place) { return cat(gather_prefix, "gone.", place); }
/// The prefix of the entries of the world that goes on.
constexpr auto world_prefix = "over.";
/// Begins an outcome by which no rank fails over.
constexpr auto refused = "refused";

Store::Instant half_a_minute() { return Clock::now() + std::chrono::seconds(30); }

/// The rank at a place, -1 if there is none.
int rank_at(const std::vector<int>& places, int place) {
    const auto found = std::ranges::find(places, place);
    return found == places.end() ? -1 : static_cast<int>(found - places.begin());
}

}  // namespace

FailoverStore::FailoverStore(std::shared_ptr<ServedStore> first, Second second)
    : first_(std::move(first)), second_(std::move(second)), identity_(new_secret()) {}

/// Runs a request of the first store. If the store is lost, the error names the second one.
template <class Request>
auto FailoverStore::by_first(const Request& request) {
    try {
        return request();
    } catch (const ServerLost& lost) {
        throw ServerLost(lost.gone, cat("; survivors() of the whole world goes on by ", second_.name));
    }
}

bool FailoverStore::set(const std::string& name, const std::string& text, Instant until) {
    return by_first([&] { return first_->set(name, text, until); });
}

std::vector<std::optional<std::string>> FailoverStore::get(const std::vector<std::string>& names,
                                                           Instant until) {
    return by_first([&] { return first_->get(names, until); });
}

std::vector<std::optional<std::string>> FailoverStore::wait(const std::vector<std::string>& names,
                                                            Instant longest, Instant until) {
    return by_first([&] { return first_->wait(names, longest, until); });
}

void FailoverStore::set_sealed(const std::string& name, const std::string& text, Instant until) {
    by_first([&] { return SealedStore(first_).set(name, text, until); });
}

std::string FailoverStore::ping_second(std::chrono::milliseconds longest) {
    return second_.store->ping(Clock::now() + longest);
}

std::string FailoverStore::check(Rendezvous& rendezvous) {
    const auto rank = rendezvous.rank();
    const auto either = [](const std::string& a, const std::string& b) { return a.empty() ? b : a; };
    const auto own = second_.store->served_as();
    if (!own.empty()) set_sealed(second_server, std::to_string(rank), half_a_minute());
    const auto all = unpack_texts(rendezvous.all(
        "the start of the world",
        pack_texts({own.empty() ? "" : pack_texts({std::to_string(rank), own}), second_.why_not_served}),
        [&](const std::string& a, const std::string& b) {
            const auto these = unpack_texts(a);
            const auto those = unpack_texts(b);
            return pack_texts({these.at(0) + those.at(0), either(these.at(1), those.at(1))});
        }));
    const auto servers = unpack_texts(all.at(0));  // the rank and the name of each
    const auto& why_not_served = all.at(1);
    if (servers.empty() && !why_not_served.empty()) throw UsageError(why_not_served);
    if (servers.empty()) throw_not_served(rendezvous.size());
    if (servers.size() != 2)
        throw UsageError(cat("more than one rank serves ", second_.name,
                             ": its host is another one for each of them; name it as all ranks find it"));
    second_.place = read_number(servers[0]);
    auto why = std::string{};
    try {
        const auto answered = ping_second(std::chrono::seconds(5));
        if (answered != servers[1])
            why = cat("is answered by ", answered, ", an earlier start of the job, and not by ", servers[1]);
    } catch (const Error& error) {
        why = cat("does not reach it: ", error.what());
    }
    const auto serves = cat("rank ", servers[0], " serves ", second_.name);
    if (!why.empty()) why = cat(serves, ", and rank ", rank, " ", why);
    if (const auto first_why = rendezvous.all("the start of the world", why, either); !first_why.empty())
        throw UsageError(
            cat(first_why, "; name a host and a port that all ranks reach, or leave the second out"));
    return serves;
}

void FailoverStore::throw_not_served(int size) {
    auto other = std::string{};
    try {
        other = ping_second(std::chrono::seconds(1));
    } catch (const Error&) {
    }
    if (!other.empty())
        throw UsageError(
            cat(second_.name, " is served by ", other,
                ", which is none of this start: an earlier one still runs, or another job has its "
                "id; end that one, or give every start a job id of its own, such as "
                "RANKMESH_JOB=$(uuidgen)"));
    throw UsageError(cat("no rank serves ", second_.name, ": none of ranks 1..", size - 1,
                         " runs at that host; name a host where one of them does, or leave the second out"));
}

int FailoverStore::find_servers() {
    try {
        const auto found = SealedStore(first_).get({second_server, served_from_outside}, half_a_minute());
        if (found[0]) second_.place = read_number(*found[0]);
        if (found[1]) first_place_ = -1;
    } catch (const ServerLost&) {  // the next request throws it again
    }
    return first_place_;
}

std::string FailoverStore::shrink(const std::vector<int>& before, const std::vector<int>& after, bool writes,
                                  Instant until) {
    const auto leaves = [&](int place) { return contains(before, place) && !contains(after, place); };
    if (leaves(first_place_)) {
        first_place_ = -1;  // whoever takes its place does not serve
        if (writes) set_sealed(served_from_outside, "", until);
    }
    if (!leaves(second_.place)) return {};
    second_.place = -1;
    if (writes) {
        remove({second_server}, until);
        forbid();
    }
    return cat(second_.name, " is lost with the rank that serves it: the end of rank 0 ends the job");
}

/// Forbids failover. The rank that serves the second store may live, and ranks go on without it.
void FailoverStore::forbid() noexcept {
    constexpr auto longest = std::chrono::milliseconds(500);
    try {
        ping_second(longest);
        SealedStore(second_.store)
            .set(outcome_key, refusal("since others went on without the rank that serves it"),
                 Clock::now() + longest);
    } catch (const std::exception&) {  // it has ended
    }
}

std::string FailoverStore::refusal(const std::string& why) const {
    return pack_texts({refused, cat("no rank goes over to ", second_.name, ", ", why)});
}

/// The agreement, through the second store, of the ranks that fail over.
class FailoverStore::Agreement {
public:
    using Ended = std::function<std::vector<int>()>;

    Agreement(FailoverStore& stores, const Member& member, Duration grace, const Ended& ended,
              std::string lost)
        : stores_(stores),
          member_(member),
          grace_(std::min(grace, longest_grace)),
          ended_(ended),
          lost_(std::move(lost)),
          store_(std::make_shared<SealedStore>(stores.second_.store)) {}

    NextWorld world();
    const std::shared_ptr<Store>& store() const { return store_; }

private:
    void announce();
    std::string decide();
    std::string outcome_of_others();
    std::string outcome_of(std::map<int, std::vector<std::string>> here);
    void note_ended();
    [[noreturn]] void throw_both_lost(const std::string& why) const;
    [[noreturn]] void throw_undecided(Clock::time_point begin) const;

    FailoverStore& stores_;
    const Member& member_;
    const Duration grace_;
    const Ended& ended_;
    const std::string lost_;  // how the first store was lost
    const std::shared_ptr<Store> store_;
    std::vector<int> noted_;  // ranks that this one has noted to have ended
};

FailoverStore::Outcome FailoverStore::fail_over(const Member& member, Duration grace,
                                                const std::function<std::vector<int>()>& ended,
                                                const ServerLost& lost) {
    auto agreement = Agreement(*this, member, grace, ended, lost.gone);
    auto world = agreement.world();
    const auto size = world.places.size();
    auto said = cat(lost.gone, "; ", counted(size, "rank"), size == 1 ? " goes" : " go", " on by ",
                    second_.store->text(), ", the second one");
    const auto server = rank_at(world.places, second_.place);
    return {std::move(world), agreement.store(), server, std::move(said)};
}

NextWorld FailoverStore::Agreement::world() {
    auto outcome = std::string{};
    try {
        announce();
    } catch (const Timeout& error) {
        throw_both_lost(error.what());
    } catch (const EngineFailure& error) {
        throw_both_lost(error.what());
    }
    try {
        outcome = stores_.second_.store->served_as().empty() ? outcome_of_others() : decide();
    } catch (const EngineFailure& error) {
        throw_both_lost(error.what());
    }
    const auto parts = unpack_texts(outcome);
    if (parts.size() == 2 && parts[0] == refused) throw EngineFailure(cat(lost_, "; ", parts[1]));
    auto listed = read_listed(parts, gather_prefix);
    if (!listed) Fields({}, "who goes on by the second store").throw_unreadable();
    const auto found = std::ranges::find(listed->secrets, stores_.identity_);
    if (found == listed->secrets.end())
        throw Timeout(cat("rank ", member_.rank, " is none of the survivors: ",
                          counted(listed->secrets.size(), "rank"), " went over to ", stores_.second_.name,
                          " without it, since it came later than their grace, here ", to_text(grace_),
                          "; where ranks notice late what happened, give survivors() more time"),
                      {}, {member_.rank});
    listed->world.rank = static_cast<int>(found - listed->secrets.begin());
    return std::move(listed->world);
}

/// Sets the entry of this rank's place.
void FailoverStore::Agreement::announce() {
    const auto own = pack_texts({stores_.identity_, ranks_to_string(member_.places), member_.about});
    const auto name = here_key(member_.place());
    if (store_->set(name, own, from_now(std::max<Duration>(grace_, least_search)))) return;
    if (store_->get({name}, half_a_minute()).front().value_or(own) == own) return;
    throw UsageError(cat("another process goes over to ", stores_.second_.name, " as rank ", member_.place(),
                         " of the job '", store_->job(),
                         "'; one of them has not heard that it was replaced"));
}

void FailoverStore::Agreement::throw_both_lost(const std::string& why) const {
    auto lost = std::vector<int>{};
    for (auto place : {0, stores_.second_.place})
        if (const auto rank = rank_at(member_.places, place); rank >= 0) lost.push_back(rank);
    throw PeerLost(cat(lost_, "; ", stores_.second_.name, " is gone as well: ", why,
                       "; the ranks cannot find each other any more"),
                   lost);
}

/// Notes for all ranks which ranks this one knows to have ended.
void FailoverStore::Agreement::note_ended() {
    for (auto each : ended_()) {
        if (each == member_.rank || contains(noted_, each)) continue;
        noted_.push_back(each);
        store_->set(gone_key(member_.places[static_cast<std::size_t>(each)]), "", half_a_minute());
    }
}

std::string FailoverStore::Agreement::outcome_of_others() {
    const auto begin = Clock::now();
    // The rank that decides may come a grace later, and waits for another one.
    const auto until = begin + 3 * grace_ + std::chrono::seconds(5);
    for (;;) {
        note_ended();
        const auto now = Clock::now();
        if (auto found =
                store_->wait({outcome_key, outcome_key}, now + longest_look, half_a_minute()).front())
            return *found;
        if (now >= until) throw_undecided(begin);
        if (!store_->can_wait()) pause_between_polls(begin, store_->longest_pause(), until);
    }
}

void FailoverStore::Agreement::throw_undecided(Clock::time_point begin) const {
    const auto decides = rank_at(member_.places, stores_.second_.place);
    throw Timeout(
        cat("the timeout expired: ", lost_, "; ", stores_.second_.name,
            " is there, but the rank that serves it", decides < 0 ? "" : cat(", rank ", decides, ","),
            " has not said within ",
            to_text(std::chrono::round<std::chrono::milliseconds>(Clock::now() - begin)),
            " who goes on: it has not called survivors(), or still reaches the first store; survivors() "
            "may be called again"),
        {member_.rank}, decides < 0 ? std::vector<int>{} : std::vector{decides});
}

/// Waits for the ranks of all worlds that somebody knows of, and decides.
std::string FailoverStore::Agreement::decide() {
    const auto begin = Clock::now();
    const auto until = begin + grace_;
    auto here = std::map<int, std::vector<std::string>>{};  // by place: identity, places, about
    auto expected = std::set<int>(member_.places.begin(), member_.places.end());
    auto lost = std::set<int>{0};  // the process with the first store, or another one that comes
    for (;;) {
        note_ended();
        auto places = std::vector<int>{};
        auto names = std::vector<std::string>{};
        // Also places of processes that have entered a larger world, unknown to this rank.
        for (int place = 0; place <= *expected.rbegin() + most_candidates; ++place) {
            if (here.contains(place)) continue;
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
            here.emplace(places[i], std::move(parts));
        }
        const auto now = Clock::now();
        const auto all = std::ranges::all_of(
            expected, [&](int place) { return here.contains(place) || lost.contains(place); });
        if (now >= until || (all && now >= begin + wait_for_ended)) break;
        pause_between_polls(begin, store_->longest_pause());
    }
    auto read = std::vector<std::string>{};
    for (const auto& [place, said] : here) read.push_back(here_key(place));
    for (auto place : lost) read.push_back(gone_key(place));
    auto outcome = outcome_of(std::move(here));
    store_->remove(read, half_a_minute());
    return outcome;
}

/// Sets the outcome: the world of the ranks that are `here`, unless the first store may still be served.
std::string FailoverStore::Agreement::outcome_of(std::map<int, std::vector<std::string>> here) {
    auto doubt = stores_.first_->doubt();
    for (const auto end = Clock::now() + longest_end; !doubt.empty() && Clock::now() < end;) {
        std::this_thread::sleep_for(wait_for_ended);
        doubt = stores_.first_->doubt();
    }
    auto outcome = std::string{};
    if (doubt.empty()) {
        auto listed = Listed{};
        listed.world.scope = world_prefix;
        for (auto& [place, said] : here) {
            listed.world.places.push_back(place);
            listed.secrets.push_back(std::move(said[0]));
            listed.world.abouts.push_back(std::move(said[2]));
        }
        outcome = to_text(listed);
    } else {
        outcome = stores_.refusal(cat("since rank 0 may live and others go on with it: ", doubt,
                                      ", on the rank that serves the second"));
    }
    if (!store_->set(outcome_key, outcome, half_a_minute()))
        return store_->get({outcome_key}, half_a_minute()).front().value_or(outcome);
    if (doubt.empty()) store_->set(failed_over, "", half_a_minute());
    return outcome;
}

}  // namespace rankmesh::detail
