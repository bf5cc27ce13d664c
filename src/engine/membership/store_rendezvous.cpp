// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/store_rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"
#include "engine/host.hpp"
#include "engine/membership/failover.hpp"
#include "engine/store/sealed_store.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr int children = 8;
/// The time that a store has for a request made when a timeout expires, or by a rank that leaves.
constexpr auto grace = std::chrono::milliseconds(500);
/// The most failures of a world that are told: all ranks may fail, and the first tell why.
constexpr auto most_failures = std::size_t{64};

/// The prefix of the keys of the world that all ranks make after so many others.
std::string scope_of(int world) { return world == 0 ? "" : cat("world.", world, "."); }

std::string claim_of(int rank) { return cat("claim.", rank); }

/// The ranks to which a failure is due.
const std::vector<int>& blamed(const Failure& failure) {
    return failure.kind == Failure::Kind::timeout ? failure.missing : failure.lost;
}

/// Where a number stands in a list, -1 if it does not.
int place_in(const std::vector<int>& list, int number) {
    const auto found = std::ranges::find(list, number);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

}  // namespace

/// The worlds of the same ranks that `sub` has made, one after the other.
struct StoreRendezvous::Series {
    std::mutex mutex;
    int made = 0;
    std::set<int> used;                             // that this rank has not destroyed yet
    std::map<int, std::vector<std::string>> stale;  // the entries of this rank that the others have left

    /// The first world that this rank still uses.
    int first_used() {
        const auto lock = std::lock_guard(mutex);
        return used.empty() ? made : *used.begin();
    }
    /// The entries of this rank in worlds before that one.
    std::vector<std::string> take_before(int world) {
        const auto lock = std::lock_guard(mutex);
        auto keys = std::vector<std::string>{};
        while (!stale.empty() && stale.begin()->first < world) {
            const auto& first = stale.begin()->second;
            keys.insert(keys.end(), first.begin(), first.end());
            stale.erase(stale.begin());
        }
        return keys;
    }
};

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                                 Duration timeout, std::shared_ptr<Series> series,
                                 std::optional<std::vector<int>> places)
    : Rendezvous(rank, size),
      store_(std::move(store)),
      scope_(std::move(scope)),
      timeout_(timeout),
      survivor_agreement_(store_, scope_, rank, size, timeout),
      places_(std::move(places)),
      series_(std::move(series)) {
    if (!series_) return;
    const auto lock = std::lock_guard(series_->mutex);
    number_ = series_->made++;
    series_->used.insert(number_);
}

StoreRendezvous::~StoreRendezvous() {
    if (!series_) return;
    const auto lock = std::lock_guard(series_->mutex);
    series_->used.erase(number_);
    auto& stale = series_->stale[number_] = std::move(old_stale_keys_);
    stale.insert(stale.end(), stale_keys_.begin(), stale_keys_.end());
}

template <class Body>
auto StoreRendezvous::served(const std::string& phase, Body&& body) const {
    const auto why = [&](const Error& error) {
        return cat(error.what(), "; ", phase, " cannot be completed on rank ", rank());
    };
    try {
        return body();
    } catch (const ServerLost& lost) {
        if (server_ >= 0) throw PeerLost(why(lost), {server_});
        if (!store_->successor()) throw;
        throw PeerLost(why(lost), {});  // none of these, and they go on without it
    } catch (const ServerSilent& silent) {
        if (server_ < 0 || !silent.missing.empty()) throw;
        throw ServerSilent(why(silent), {}, {server_});
    }
}

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration timeout,
                                 int world)
    : StoreRendezvous(store ? std::make_shared<SealedStore>(std::move(store)) : nullptr, scope_of(world),
                      rank, size, timeout, nullptr, std::nullopt) {
    if (world > 0) start_later(world);
    world_ = world;
    server_ = 0;
    claim_ = full(claim_of(rank));
    claimed_ = std::chrono::steady_clock::now();
    const auto until = from_now(timeout);
    const auto& claim = claim_;
    if (size == 1 || served(start(), [&] {
            return store_->put(claim, cat("process ", getpid(), " on ", host_name()), until);
        }))
        return;
    throw UsageError(cat("rank ", rank, " of the job '", store_->job(), "' is in ", store_->text(),
                         " already, of ",
                         store_->get({claim}, until).front().value_or("a process that is gone"),
                         ": two processes have that rank, or an earlier job had that id; give every start "
                         "a job id of its own, such as RANKMESH_JOB=$(uuidgen)"));
}

std::string StoreRendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size() == 1) return text;
    if (!series_) return served(phase, [&] { return step(phase, std::move(text), combine); });
    // Each says as well which of the earlier worlds of these ranks it still uses: the entries of those that
    // nobody does can go.
    const auto split = [](const std::string& said) {
        auto fields = Fields(said, "what the ranks of a world tell each other");
        const auto world = fields.number();
        return std::pair(static_cast<int>(world), said.substr(said.find(' ') + 1));
    };
    const auto both = [&](const auto& a, const auto& b) {
        const auto [world_a, text_a] = split(a);
        const auto [world_b, text_b] = split(b);
        return cat(std::min(world_a, world_b), " ", combine(text_a, text_b));
    };
    const auto said = served(phase, [&] { return step(phase, cat(series_->first_used(), " ", text), both); });
    auto [world, result] = split(said);
    if (const auto keys = series_->take_before(world); !keys.empty())
        store_->remove(keys, from_now(timeout_));
    return std::move(result);
}

/// One step along the tree.
std::string StoreRendezvous::step(const std::string& phase, std::string text, const Combine& combine) {
    const auto until = from_now(timeout_);
    const auto prefix = cat("step.", steps_++, ".");
    const auto entry = [&](const char* kind, int rank) { return cat(prefix, kind, ".", rank); };
    const auto first = std::int64_t{rank()} * children + 1;
    const auto inner = first < size();
    // A rank with children cannot pass on their texts before they arrive, but announces its own arrival.
    if (inner) store_->put(full(entry("here", rank())), "", until);
    const auto arrival_key = [&](int rank) {
        return entry(std::int64_t{rank} * children + 1 < size() ? "here" : "up", rank);
    };
    const auto down = cat(prefix, "down");
    const auto last_key = [&](int rank) { return rank == 0 ? down : entry("up", rank); };
    // Those that have the texts of all their children, and have not passed them on.
    const auto stuck = [&] {
        auto keys = std::vector<std::string>{};
        for (int each = 0; each < size(); ++each) keys.push_back(full(last_key(each)));
        const auto passed_on = store_->get(keys, from_now(grace));
        auto holding = std::vector<int>{};
        auto lacks_a_child = std::vector<bool>(keys.size());
        for (auto each = size() - 1; each >= 0; --each) {
            const auto i = static_cast<std::size_t>(each);
            if (passed_on[i]) continue;
            if (each > 0) lacks_a_child[static_cast<std::size_t>((each - 1) / children)] = true;
            if (!lacks_a_child[i] && each != rank()) holding.push_back(each);
        }
        std::ranges::reverse(holding);
        return holding;
    };
    auto from_children = std::vector<std::string>{};
    for (auto child = first; child < std::min<std::int64_t>(first + children, size()); ++child)
        from_children.push_back(entry("up", static_cast<int>(child)));
    if (inner)
        for (const auto& each : wait_in_step(phase, from_children, {}, arrival_key, last_key, stuck, until))
            text = combine(text, each);
    if (rank() == 0) {
        store_->put(full(down), text, until);
    } else {
        store_->put(full(entry("up", rank())), text, until);
        text = wait_in_step(phase, {down}, {}, arrival_key, last_key, stuck, until).front();
    }
    {
        const auto lock = std::lock_guard(failing_);
        gave_up_ = std::nullopt;
    }
    // Every rank has arrived at this step, so nobody reads what was written before the last one. What was
    // written since then may still be read after this one.
    auto read = std::exchange(old_stale_keys_, std::exchange(stale_keys_, {}));
    if (rank() == 0)
        stale_keys_.push_back(full(down));
    else
        read.push_back(full(entry("up", rank())));  // which the parent has read
    if (inner) read.push_back(full(entry("here", rank())));
    if (!read.empty()) store_->remove(read, until);
    return text;
}

void StoreRendezvous::publish(const std::string& name, const std::string& text) {
    const auto own = own_entry(name);
    if (!served("join", [&] { return store_->put(own, text, from_now(timeout_)); }))
        throw EngineFailure(cat("the entry '", own, "' of the job '", store_->job(), "' is in ",
                                store_->text(),
                                " already; start the job again under another id, such as "
                                "RANKMESH_JOB=$(uuidgen)"));
    stale_keys_.push_back(own);
}

void StoreRendezvous::withdraw(const std::string& name) noexcept {
    const auto own = own_entry(name);
    std::erase(stale_keys_, own);
    std::erase(old_stale_keys_, own);
    store_->remove({own}, from_now(grace));
}

std::vector<std::string> StoreRendezvous::fetch(const std::string& phase, std::span<const int> from,
                                                const std::string& name, std::span<const int> ranks,
                                                Instant until) {
    const auto entry = [&](int rank) { return cat(name, ".", rank); };
    auto entries = std::vector<std::string>{};
    for (auto each : from) entries.push_back(entry(each));
    return wait(phase, entries, {ranks.begin(), ranks.end()}, entry, entry, {}, until);
}

void StoreRendezvous::send(int to, const std::string& text) {
    const auto message = full(cat("message.", rank(), ".", to, ".", sent_[to]++));
    served("join", [&] { return store_->put(message, text, from_now(timeout_)); });
}

std::string StoreRendezvous::receive(int from, const std::string& where) {
    const auto until = from_now(timeout_);
    const auto message = cat("message.", from, ".", rank(), ".", received_[from]++);
    const auto key = [&](int) { return message; };
    auto text = wait_in_step("join", {message}, {from}, key, key, {}, until, where);
    store_->remove({full(message)}, until);
    return std::move(text.front());
}

void StoreRendezvous::post(int to, const std::string& text) {
    const auto message = full(cat("post.", rank(), ".", to, ".", posted_[to]++));
    served("a group", [&] { return store_->put(message, text, from_now(timeout_)); });
}

std::vector<std::pair<int, std::string>> StoreRendezvous::collect(const std::string& phase,
                                                                  std::span<const int> from, Instant until) {
    const auto ranks = std::vector(from.begin(), from.end());
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        auto names = std::vector<std::string>{};
        for (auto each : ranks) names.push_back(full(cat("post.", each, ".", rank(), ".", collected_[each])));
        names.push_back(next_failure());
        auto found = served(phase, [&] { return store_->get(names, std::max(until, from_now(grace))); });
        auto heard = std::vector<std::pair<int, std::string>>{};
        auto read = std::vector<std::string>{};
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            if (!found[i]) continue;
            heard.emplace_back(ranks[i], std::move(*found[i]));
            ++collected_[ranks[i]];
            read.push_back(names[i]);
        }
        if (!read.empty()) store_->remove(read, from_now(grace));
        if (!heard.empty()) return heard;
        // What a rank wrote before it failed is there now, though it was not when it was looked for.
        if (found.back() && read_failures()) continue;
        if (has_failed()) throw_relayed(phase, ranks, true);
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) return {};
        pause_between_polls(begin, store_->longest_pause(), until);
    }
}

void StoreRendezvous::leave(const Failure& why) noexcept {
    try {
        const auto lock = std::lock_guard(failing_);
        left_ = why.why;
        // Where it leaves because of another rank, that one is the reason.
        fail({}, gave_up_.value_or(why));
        survivor_agreement_.stay_away(from_now(grace));
    } catch (const std::exception&) {  // the others wait until their timeout
    }
}

void StoreRendezvous::fail(const std::string& where, const Failure& failure) noexcept {
    if (size() == 1) return;
    try {
        const auto lock = std::lock_guard(failing_);
        do read_failures();
        while (failures_.size() < most_failures &&
               !store_->put(next_failure(), FailureNote{rank(), where, failure}.text(), from_now(grace)));
        gave_up_ = failure;
    } catch (const std::exception&) {  // the others wait until their timeout
    }
}

void StoreRendezvous::give_up(const std::string& where, const Failure& failure) noexcept {
    try {
        store_->put(full(cat("gave_up.", where, ".", rank())), FailureNote{rank(), where, failure}.text(),
                    from_now(grace));
        const auto lock = std::lock_guard(failing_);
        gave_up_ = failure;
    } catch (const std::exception&) {  // it is taken for the cause
    }
}

std::optional<Failure> StoreRendezvous::cause(const std::string& where,
                                              const Failure& failure) const noexcept {
    try {
        auto found = std::optional<Failure>{};
        auto asked = blamed(failure);
        for (auto left = size(); left > 0 && !asked.empty(); --left) {
            const auto each = asked.back();
            asked.pop_back();
            const auto text = store_->get({full(cat("gave_up.", where, ".", each))}, from_now(grace)).front();
            if (!text) continue;
            auto told = FailureNote::from(*text, size()).failure;
            // Two that wait for each other are no cause of each other's.
            if (contains(blamed(told), each) || contains(blamed(told), rank())) continue;
            asked = blamed(told);
            found = std::move(told);
        }
        return found;
    } catch (const std::exception&) {  // then it is the failure that is known
        return std::nullopt;
    }
}

std::string StoreRendezvous::next_failure() const {
    const auto lock = std::lock_guard(failing_);
    return full(cat("failed.", failures_.size()));
}

bool StoreRendezvous::has_failed() const {
    const auto lock = std::lock_guard(failing_);
    return left_ || !failures_.empty();
}

/// Reads the failures that were told since; true if there were any.
bool StoreRendezvous::read_failures() {
    const auto lock = std::lock_guard(failing_);
    for (auto any = false;; any = true) {
        const auto text = store_->get({next_failure()}, from_now(grace)).front();
        if (!text) return any;
        failures_.push_back(FailureNote::from(*text, size()));
    }
}

void StoreRendezvous::throw_if_failed(const std::string& phase, const std::vector<int>& ranks) {
    if (size() == 1) return;
    const auto lock = std::lock_guard(failing_);
    try {
        read_failures();
    } catch (const ServerSilent&) {  // it is asked again
        return;
    } catch (const ServerLost&) {
        if (!contains(ranks, server_)) return;
        served(phase, [] { throw; });
    }
    // Where ranks wait for each other their timeouts expire together: one of them knows who is missing.
    const auto* told = relayed_about(ranks, false);
    if (told && told->failure.kind == Failure::Kind::timeout) {
        std::this_thread::sleep_for(moment);
        read_failures();
    }
    throw_relayed(phase, ranks, false);
}

/// The first failure that was told by, or is due to, one of `ranks`, null if there is none. `of_this`: also
/// one that is due to this rank.
const FailureNote* StoreRendezvous::relayed_about(const std::vector<int>& ranks, bool of_this) const {
    const auto concerns = [&](const FailureNote& told) {
        if (told.rank == rank() || (!of_this && contains(blamed(told.failure), rank()))) return false;
        return std::ranges::any_of(
            ranks, [&](int each) { return each == told.rank || contains(blamed(told.failure), each); });
    };
    const auto found = std::ranges::find_if(failures_, concerns);
    return found == failures_.end() ? nullptr : &*found;
}

/// Throws such a failure, or what it is due to, and PeerLost where this rank itself has left.
void StoreRendezvous::throw_relayed(const std::string& phase, const std::vector<int>& ranks, bool of_this) {
    const auto lock = std::lock_guard(failing_);
    if (left_) throw PeerLost(cat(*left_, "; ", phase, " cannot be completed on rank ", rank()), {rank()});
    const auto* told = relayed_about(ranks, of_this);
    if (!told) return;
    auto failure = told->failure;
    if (!told->where.empty()) {
        if (auto caused = cause(told->where, failure)) failure = *std::move(caused);
    }
    gave_up_ = std::move(failure);
    RelayedFailure::raise(*gave_up_, cat(phase, " cannot be completed on rank ", rank()));
}

std::unique_ptr<Rendezvous> StoreRendezvous::sub(const std::vector<int>& ranks) {
    const auto group_rank = place_in(ranks, rank());
    auto& series = series_of_subs_[ranks];
    if (!series) series = std::make_shared<Series>();
    auto part = std::unique_ptr<StoreRendezvous>(
        new StoreRendezvous(store_, full(scope_of_next(ranks)), group_rank, static_cast<int>(ranks.size()),
                            timeout_, series, std::vector<int>{}));
    part->follow(*this, place_in(ranks, server_));
    return part;
}

Rendezvous::Survivors StoreRendezvous::survivors(Duration longest,
                                                 const std::function<std::vector<int>()>& ended,
                                                 const std::function<std::string()>& about) {
    auto ranks = std::vector<int>{};
    try {
        ranks = survivor_agreement_.survivors(longest, ended);
    } catch (const ServerLost& lost) {
        // A world that sub() has made does not go over.
        if (!store_->successor() || growing().places().empty()) throw;
        return fail_over(longest, ended, about(), lost);
    }
    const auto group_rank = place_in(ranks, rank());
    const auto scope = full(cat("rest.", survivor_agreement_.rounds(), "."));
    const auto size = static_cast<int>(ranks.size());
    auto places = std::vector<int>{};
    if (const auto& known = growing().places(); !known.empty())
        for (auto each : ranks) places.push_back(known[static_cast<std::size_t>(each)]);
    auto rest = std::unique_ptr<StoreRendezvous>(
        new StoreRendezvous(store_, scope, group_rank, size, timeout_, nullptr, std::move(places)));
    rest->follow(*this, place_in(ranks, server_));
    if (group_rank == 0) rest->stale_keys_ = growing().take_leftovers();
    auto said = std::string{};
    if (store_) {
        remove_stale();  // all of them are here, so none is in a step of this world
        if (store_->successor()) said = leave_servers_behind(ranks, group_rank == 0);
    }
    return {std::move(ranks), std::move(rest), std::nullopt, std::move(said)};
}

/// Notes, before a world of these ranks goes on, which of those that serve the stores is none of them; what a
/// user must know of it.
std::string StoreRendezvous::leave_servers_behind(const std::vector<int>& ranks, bool writes) {
    auto& second = *store_->successor();
    if (writes && server_ >= 0 && !contains(ranks, server_))
        store_->put(served_from_outside, "", from_now(timeout_));
    const auto serves_second = place_in(growing().places(), second.place());
    if (serves_second < 0 || contains(ranks, serves_second)) return {};
    second.set_place(-1);  // whoever takes its place does not serve
    if (writes) {
        store_->remove({successor_server}, from_now(timeout_));
        forbid_failover(second);
    }
    return cat(second.text(), " is lost with the rank that serves it: the end of rank 0 ends the job");
}

/// The survivors by the second store, where the first is lost in any step of any of them: also those for whom
/// the world has shrunk or grown already.
Rendezvous::Survivors StoreRendezvous::fail_over(Duration longest,
                                                 const std::function<std::vector<int>()>& ended,
                                                 const std::string& about, const ServerLost& lost) {
    const auto& places = growing().places();
    auto& second = *store_->successor();
    auto going = Failover(second, {places, rank(), about}, lost);
    auto world = going.world(longest, ended);
    auto rest = Survivors{};
    for (auto each : first_ranks(size()))
        if (contains(world.places, places[static_cast<std::size_t>(each)])) rest.ranks.push_back(each);
    rest.said =
        cat(lost.gone, "; ", counted(world.places.size(), "rank"), world.places.size() == 1 ? " goes" : " go",
            " on by ", going.store()->text(), ", the second one");
    auto moved = std::unique_ptr<StoreRendezvous>(new StoreRendezvous(going.store(), world.scope, world.rank,
                                                                      static_cast<int>(world.places.size()),
                                                                      timeout_, nullptr, world.places));
    moved->server_ = place_in(world.places, second.place());
    rest.rendezvous = std::move(moved);
    rest.moved = std::move(world);
    return rest;
}

Rendezvous::Grown StoreRendezvous::grow(const Growth& asked, const std::function<std::vector<int>()>& ended) {
    const auto grow = [&] { return growing().grow(asked, ended); };
    auto world = store_ && store_->successor() ? served("grow", grow) : grow();
    const auto size = static_cast<int>(world.places.size());
    auto larger = std::unique_ptr<StoreRendezvous>(
        new StoreRendezvous(store_, world.scope, world.rank, size, timeout_, nullptr, world.places));
    larger->follow(
        *this,
        server_ < 0 ? -1 : place_in(world.places, growing().places()[static_cast<std::size_t>(server_)]));
    // Everybody has read it once all have taken two steps of the larger world.
    if (rank() == 0) {
        larger->stale_keys_ = growing().take_leftovers();
        larger->stale_keys_.push_back(world.outcome);
    }
    remove_stale();  // all ranks have arrived, so what was written for earlier steps is read
    return {std::move(world), std::move(larger)};
}

/// Removes what this rank has written for steps that nobody takes any more.
void StoreRendezvous::remove_stale() {
    auto read = std::exchange(old_stale_keys_, {});
    read.insert(read.end(), stale_keys_.begin(), stale_keys_.end());
    stale_keys_.clear();
    if (!read.empty()) store_->remove(read, from_now(timeout_));
}

GrowAgreement& StoreRendezvous::growing() {
    if (!grow_agreement_)
        grow_agreement_.emplace(store_, scope_, rank(), size(), places_ ? *places_ : first_ranks(size()));
    return *grow_agreement_;
}

std::unique_ptr<StoreRendezvous> StoreRendezvous::of_part(std::shared_ptr<Store> store, std::string scope,
                                                          int rank, int size, Duration timeout) {
    return std::unique_ptr<StoreRendezvous>(
        new StoreRendezvous(std::make_shared<SealedStore>(std::move(store)), std::move(scope), rank, size,
                            timeout, nullptr, std::vector<int>{}));
}

Rendezvous::Grown StoreRendezvous::rejoin(std::shared_ptr<Store> store, std::optional<int> place,
                                          const std::string& about, Duration timeout) {
    store = std::make_shared<SealedStore>(std::move(store));
    auto world = enter(*store, place, about, timeout);
    const auto size = static_cast<int>(world.places.size());
    auto larger = std::unique_ptr<StoreRendezvous>(
        new StoreRendezvous(store, world.scope, world.rank, size, timeout, nullptr, world.places));
    if (store->successor()) larger->server_ = place_in(world.places, find_servers(*store));
    return {std::move(world), std::move(larger)};
}

/// The same as `wait`, in a step of all ranks, which hear of its end if this one's timeout expires.
std::vector<std::string> StoreRendezvous::wait_in_step(const std::string& phase,
                                                       const std::vector<std::string>& names,
                                                       const std::vector<int>& ranks,
                                                       const Entries& arrival_key, const Entries& last_key,
                                                       const Stuck& stuck, Instant until,
                                                       const std::string& where) {
    try {
        return wait(phase, names, ranks, arrival_key, last_key, stuck, until);
    } catch (const RelayedFailure& heard) {
        if (!ranks.empty()) give_up(where, heard.failure);
        if (!has_failed()) fail({}, heard.failure);  // this rank is the first that knows
        throw;
    } catch (const Timeout& timeout) {
        const auto failure = Failure::of(timeout);
        // Some ranks that do not come may wait for others themselves; of all ranks it is known who has come.
        const auto cause = ranks.empty() ? std::nullopt : give_up_for_cause(where, failure);
        fail({}, cause.value_or(failure));
        if (cause) RelayedFailure::raise(*cause, cat(phase, " cannot be completed on rank ", rank()));
        throw;
    } catch (const PeerLost& lost) {
        if (!contains(lost.ranks, rank())) fail({}, Failure::of(lost));
        throw;
    }
}

/// Throws PeerLost, as a RelayedFailure error, if some of these ranks have ended before they wrote their last
/// key of a step, or what they ended because of.
void StoreRendezvous::throw_if_ended(const std::string& phase, const std::vector<int>& ranks,
                                     const Entries& last_key) {
    auto lost = ended();
    std::erase_if(lost, [&](int each) { return !contains(ranks, each); });
    if (lost.empty()) return;
    std::ranges::sort(lost);
    auto keys = std::vector<std::string>{};
    for (auto each : lost) keys.push_back(full(last_key(each)));
    keys.push_back(next_failure());
    const auto written = store_->get(keys, from_now(grace));
    // A rank that ended because of another one wrote so before.
    if (written.back() && read_failures()) return throw_relayed(phase, ranks, true);
    auto next = written.begin();
    std::erase_if(lost, [&](int) { return (next++)->has_value(); });
    if (lost.empty()) return;
    const auto why = cat(
        lost.size() == 1 ? cat("rank ", lost.front(), " has") : cat("ranks ", ranks_to_string(lost), " have"),
        " ended");
    RelayedFailure::raise({.kind = Failure::Kind::gone, .why = why, .lost = lost},
                          cat(phase, " cannot be completed on rank ", rank()));
}

/// The texts of entries, once all of them exist. `ranks`: the ranks that are waited for, all if empty;
/// `arrival_key` is the key that each of them has written if it arrived, `last_key` the one after which it is
/// not waited for; `stuck` may be empty.
std::vector<std::string> StoreRendezvous::wait(const std::string& phase,
                                               const std::vector<std::string>& names,
                                               const std::vector<int>& ranks, const Entries& arrival_key,
                                               const Entries& last_key, const Stuck& stuck, Instant until) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    // A store that waits by itself is asked anew each time.
    const auto period = store_->waits() ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(100);
    auto next_look = watches() ? begin + period : Instant::max();
    const auto awaited = [&] { return ranks.empty() ? first_ranks(size()) : ranks; };  // seldom asked for
    auto texts = std::vector<std::string>(names.size());
    auto absent = std::vector<std::size_t>(names.size());
    std::iota(absent.begin(), absent.end(), std::size_t{0});
    auto late = std::vector<int>{};
    auto seen = std::string{};
    auto extended = false;
    while (!absent.empty()) {
        auto wanted = std::vector<std::string>{};
        for (auto each : absent) wanted.push_back(full(names[each]));
        wanted.push_back(next_failure());
        // A request that begins just before the timeout may complete.
        auto found = served(phase, [&] {
            return store_->await(wanted, std::min(until, next_look), std::max(until, Clock::now()) + grace);
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
        // What a rank wrote before it failed is there now, though it was not when it was looked for.
        if (found.back() && read_failures()) continue;
        if (has_failed()) throw_relayed(phase, awaited(), true);
        const auto now = Clock::now();
        if (now >= next_look) {
            throw_if_ended(phase, awaited(), last_key);
            next_look = now + period;
        }
        if (now >= until) {
            late = missing(awaited(), arrival_key);
            if (!late.empty()) seen = made_fewer_worlds(late);
            // The last to arrive have come just before: the others pass on what they wrote.
            if (!late.empty() || std::exchange(extended, true)) break;
            until = now + grace;
        }
        if (store_->waits()) continue;
        pause_between_polls(begin, store_->longest_pause(), until);
    }
    if (absent.empty()) return texts;
    if (late.empty() && stuck) {
        late = stuck();
        if (!late.empty())
            seen = cat(late.size() == 1 ? cat("rank ", late.front()) : cat("ranks ", ranks_to_string(late)),
                       " arrived and then did not go on: stopped, cut off or gone");
    }
    auto arrived = awaited();
    std::erase_if(arrived, [&](int each) { return contains(late, each); });
    throw_timeout(phase, timeout_, arrived, late, seen);
}

void StoreRendezvous::follow(const StoreRendezvous& before, int server) {
    server_ = server;
    claim_ = before.claim_;
    claimed_ = before.claimed_;
}

/// The ranks among these that have not written the key that they write when they arrive. Throws EngineFailure
/// where the store has lost what they wrote.
std::vector<int> StoreRendezvous::missing(std::vector<int> ranks, const Entries& arrival_key) {
    auto entries = std::vector<std::string>{};
    for (auto each : ranks) entries.push_back(full(arrival_key(each)));
    // Redis lets an entry go after a day.
    const auto knows_own =
        !claim_.empty() && std::chrono::steady_clock::now() - claimed_ < std::chrono::hours(20);
    if (knows_own) entries.push_back(claim_);
    const auto there = store_->get(entries, from_now(grace));
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

/// Says which of these ranks have come to the world before this one, and not to this one; "" if none.
std::string StoreRendezvous::made_fewer_worlds(const std::vector<int>& ranks) {
    if (world_ == 0) return {};
    auto claims = std::vector<std::string>{};
    for (const auto& scope : {scope_of(world_ - 1), scope_})
        for (auto each : ranks) claims.push_back(scope + claim_of(each));
    const auto found = store_->get(claims, from_now(grace));
    auto behind = std::vector<int>{};
    for (std::size_t i = 0; i < ranks.size(); ++i)
        if (found[i] && !found[ranks.size() + i]) behind.push_back(ranks[i]);
    if (behind.empty()) return {};
    return cat(behind.size() == 1 ? cat("rank ", behind.front(), " has")
                                  : cat("ranks ", ranks_to_string(behind), " have"),
               " made ", counted(static_cast<std::size_t>(world_), "world"),
               " so far: all ranks make the same worlds, in the same order");
}

}  // namespace rankmesh::detail
