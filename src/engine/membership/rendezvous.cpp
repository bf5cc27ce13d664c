// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/rendezvous.hpp"

#include <unistd.h>

#include <mutex>
#include <set>

#include "engine/hash.hpp"
#include "engine/store/sealed_store.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

/// The worlds of the same ranks that `sub` has made, one after the other.
struct Rendezvous::Series {
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

Rendezvous::Rendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout,
                       std::shared_ptr<Series> series, std::optional<std::vector<int>> places)
    : rank_(rank),
      size_(size),
      store_(std::move(store)),
      scope_(std::move(scope)),
      timeout_(timeout),
      failures_(std::make_shared<FailureBoard>(store_, scope_, rank, size)),
      survivor_agreement_(store_, scope_, rank, size, timeout),
      places_(std::move(places)),
      series_(std::move(series)) {
    if (!series_) return;
    const auto lock = std::lock_guard(series_->mutex);
    number_ = series_->made++;
    series_->used.insert(number_);
}

Rendezvous::~Rendezvous() {
    if (!series_) return;
    const auto lock = std::lock_guard(series_->mutex);
    series_->used.erase(number_);
    auto& stale = series_->stale[number_] = std::move(old_stale_keys_);
    stale.insert(stale.end(), stale_keys_.begin(), stale_keys_.end());
}

Rendezvous::Rendezvous(std::shared_ptr<Store> store, const NextWorld& world, int server, Duration timeout)
    : Rendezvous(std::move(store), world.scope, world.rank, static_cast<int>(world.places.size()), timeout,
                 nullptr, world.places) {
    server_ = server;
}

Rendezvous::Rendezvous(const std::shared_ptr<Store>& store, int rank, int size, Duration timeout, int world)
    : Rendezvous(store ? std::make_shared<SealedStore>(store) : nullptr, scope_of(world), rank, size, timeout,
                 nullptr, std::nullopt) {
    if (world > 0) start_ = cat("the start of world ", world + 1, " of this process");
    world_ = world;
    server_ = 0;
    claim_ = full(claim_of(rank));
    claimed_ = std::chrono::steady_clock::now();
    const auto until = from_now(timeout);
    const auto& claim = claim_;
    if (size == 1 || served(start(), [&] {
            return store_->set(claim, cat("process ", getpid(), " on ", host_name()), until);
        }))
        return;
    throw UsageError(cat("rank ", rank, " of the job '", store_->job(), "' is in ", store_->text(),
                         " already, of ",
                         store_->get({claim}, until).front().value_or("a process that is gone"),
                         ": two processes have that rank, or an earlier job had that id; give every start "
                         "a job id of its own, such as RANKMESH_JOB=$(uuidgen)"));
}

std::string Rendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size() == 1) return text;
    if (!series_) return served(phase, [&] { return step(phase, std::move(text), combine); });
    // Each rank also says which earlier world of these ranks it still uses. If no rank uses a world, its
    // entries can go.
    const auto split = [](const std::string& message) {
        auto fields = Fields(message, "what the ranks of a world tell each other");
        const auto world = static_cast<int>(fields.number());
        return std::pair(world, std::string(fields.rest()));
    };
    const auto combine_messages = [&](const auto& a, const auto& b) {
        const auto [world_a, text_a] = split(a);
        const auto [world_b, text_b] = split(b);
        return cat(std::min(world_a, world_b), " ", combine(text_a, text_b));
    };
    auto [world, result] = split(
        served(phase, [&] { return step(phase, cat(series_->first_used(), " ", text), combine_messages); }));
    if (const auto keys = series_->take_before(world); !keys.empty())
        store_->remove(keys, from_now(timeout_));
    return std::move(result);
}

/// One step along the tree.
std::string Rendezvous::step(const std::string& phase, std::string text, const Combine& combine) {
    const auto until = from_now(timeout_);
    const auto prefix = cat("step.", steps_++, ".");
    const auto entry = [&](const char* kind, int rank) { return cat(prefix, kind, ".", rank); };
    const auto first = std::int64_t{rank()} * children_of_a_rank + 1;
    const auto inner = first < size();
    // A rank with children cannot pass on their texts before they arrive, but announces its own arrival.
    if (inner) store_->set(full(entry("here", rank())), "", until);
    const auto down = cat(prefix, "down");
    auto wait = Wait{.phase = phase, .names = {}, .until = until, .arrival = {}, .last = {}};
    wait.arrival = [&](int rank) {
        return entry(std::int64_t{rank} * children_of_a_rank + 1 < size() ? "here" : "up", rank);
    };
    wait.last = [&](int rank) { return rank == 0 ? down : entry("up", rank); };
    wait.stuck = [&] { return stuck_in(wait.last); };
    for (auto child = first; child < std::min<std::int64_t>(first + children_of_a_rank, size()); ++child)
        wait.names.push_back(entry("up", static_cast<int>(child)));
    if (inner)
        for (const auto& each : wait_in_step(wait)) text = combine(text, each);
    if (rank() == 0) {
        store_->set(full(down), text, until);
    } else {
        store_->set(full(entry("up", rank())), text, until);
        wait.names = {down};
        text = wait_in_step(wait).front();
    }
    failures_->forget_cause();
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

void Rendezvous::publish(const std::string& name, const std::string& text) {
    const auto own = own_entry(name);
    if (!served("join", [&] { return store_->set(own, text, from_now(timeout_)); }))
        throw EngineFailure(cat("the entry '", own, "' of the job '", store_->job(), "' is in ",
                                store_->text(),
                                " already; start the job again under another id, such as "
                                "RANKMESH_JOB=$(uuidgen)"));
    stale_keys_.push_back(own);
}

void Rendezvous::withdraw(const std::string& name) noexcept {
    const auto own = own_entry(name);
    std::erase(stale_keys_, own);
    std::erase(old_stale_keys_, own);
    store_->remove({own}, from_now(request_grace));
}

std::vector<std::string> Rendezvous::fetch(const std::string& phase, std::span<const int> from,
                                           const std::string& name, std::span<const int> ranks,
                                           Instant until) {
    const auto entry = [&](int rank) { return cat(name, ".", rank); };
    auto entries = std::vector<std::string>{};
    for (auto each : from) entries.push_back(entry(each));
    return wait({.phase = phase,
                 .names = std::move(entries),
                 .until = until,
                 .arrival = entry,
                 .last = entry,
                 .ranks = {ranks.begin(), ranks.end()}});
}

void Rendezvous::send(int to, const std::string& text) {
    const auto message = full(cat("message.", rank(), ".", to, ".", sent_[to]++));
    served("join", [&] { return store_->set(message, text, from_now(timeout_)); });
}

std::string Rendezvous::receive(int from, const std::string& where) {
    const auto until = from_now(timeout_);
    const auto message = cat("message.", from, ".", rank(), ".", received_[from]++);
    const auto key = [&](int) { return message; };
    auto text = wait_in_step({.phase = "join",
                              .names = {message},
                              .until = until,
                              .arrival = key,
                              .last = key,
                              .ranks = {from},
                              .where = where});
    store_->remove({full(message)}, until);
    return std::move(text.front());
}

void Rendezvous::post(int to, const std::string& text) {
    const auto message = full(cat("post.", rank(), ".", to, ".", posted_[to]++));
    served("a group", [&] { return store_->set(message, text, from_now(timeout_)); });
}

std::vector<std::pair<int, std::string>> Rendezvous::collect(const std::string& phase,
                                                             std::span<const int> from, Instant until) {
    const auto ranks = std::vector(from.begin(), from.end());
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        auto names = std::vector<std::string>{};
        for (auto each : ranks) names.push_back(full(cat("post.", each, ".", rank(), ".", collected_[each])));
        names.push_back(failures_->next_key());
        auto found =
            served(phase, [&] { return store_->get(names, std::max(until, from_now(request_grace))); });
        auto heard = std::vector<std::pair<int, std::string>>{};
        auto read = std::vector<std::string>{};
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            if (!found[i]) continue;
            heard.emplace_back(ranks[i], std::move(*found[i]));
            ++collected_[ranks[i]];
            read.push_back(names[i]);
        }
        if (!read.empty()) store_->remove(read, from_now(request_grace));
        if (!heard.empty()) return heard;
        // What a rank wrote before it failed is there now, though it was not when it was looked for.
        if ((found.back() || failures_->is_of_part()) && failures_->read(true)) continue;
        failures_->throw_if_about(phase, ranks, true);
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) return {};
        pause_between_polls(begin, store_->longest_pause(), until);
    }
}

void Rendezvous::leave(const Failure& why) noexcept {
    failures_->leave(why);
    try {
        survivor_agreement_.stay_away(from_now(request_grace));
    } catch (const std::exception&) {  // the others wait until their timeout
    }
}

void Rendezvous::throw_if_failed(const std::string& phase, const std::vector<int>& ranks) {
    if (size() == 1) return;
    try {
        failures_->read(true);
    } catch (const ServerSilent&) {  // it is asked again
        return;
    } catch (const ServerLost&) {
        if (!contains(ranks, server_)) return;
        served(phase, [] { throw; });
    }
    failures_->throw_best_about(phase, ranks);
}

std::unique_ptr<Rendezvous> Rendezvous::sub(const std::vector<int>& ranks) {
    const auto group_rank = position_of(ranks, rank());
    auto& series = series_of_subs_[ranks];
    if (!series) series = std::make_shared<Series>();
    auto part = std::unique_ptr<Rendezvous>(new Rendezvous(store_, full(scope_of_next(ranks)), group_rank,
                                                           static_cast<int>(ranks.size()), timeout_, series,
                                                           std::vector<int>{}));
    part->follow(*this, position_of(ranks, server_));
    part->failures_->be_part_of(failures_, ranks);
    part->start_ = cat("the start of a world of ranks ", ranks_to_string(ranks));
    return part;
}

Rendezvous::Survivors Rendezvous::survivors(Duration grace, const Ended& ended) {
    auto ranks = survivor_agreement_.survivors(grace, ended);
    const auto group_rank = position_of(ranks, rank());
    const auto scope = full(cat("rest.", survivor_agreement_.rounds(), "."));
    const auto size = static_cast<int>(ranks.size());
    auto places = std::vector<int>{};
    if (const auto& known = growing().places(); !known.empty())
        for (auto each : ranks) places.push_back(known[static_cast<std::size_t>(each)]);
    auto rest = std::unique_ptr<Rendezvous>(
        new Rendezvous(store_, scope, group_rank, size, timeout_, nullptr, std::move(places)));
    rest->follow(*this, position_of(ranks, server_));
    if (group_rank == 0) rest->stale_keys_ = growing().take_leftovers();
    if (store_) remove_stale();  // all of them are here, so none is in a step of this world
    return {std::move(ranks), std::move(rest)};
}

Rendezvous::Grown Rendezvous::grow(const Growth& asked, const Ended& ended) {
    const auto renewal = [&, next = Instant{}]() mutable -> const Failure* {
        const auto now = std::chrono::steady_clock::now();
        if (now < next) return nullptr;
        next = now + std::chrono::milliseconds(100);
        failures_->read(true);
        return failures_->renewal();
    };
    auto world = served("grow", [&] { return growing().grow(asked, ended, renewal); });
    const auto server =
        server_ < 0 ? -1 : position_of(world.places, growing().places()[static_cast<std::size_t>(server_)]);
    auto larger = std::unique_ptr<Rendezvous>(new Rendezvous(store_, world, server, timeout_));
    larger->follow(*this, server);
    // Everybody has read it once all have taken two steps of the larger world.
    if (rank() == 0) {
        larger->stale_keys_ = growing().take_leftovers();
        larger->stale_keys_.push_back(world.outcome);
    }
    remove_stale();  // all ranks have arrived, so what was written for earlier steps is read
    return {std::move(world), std::move(larger)};
}

std::string Rendezvous::scope_of_next(const std::vector<int>& ranks) {
    auto scope = std::string("sub");
    for (auto each : ranks) append(scope, cat("-", each));
    // Keys have a maximum length: a long list of ranks is replaced by its hash.
    if (scope.size() > 64) scope = cat("sub#", hash(scope));
    return cat(scope, ".", subs_[ranks]++, ".");
}

/// Removes what this rank has written for steps that nobody takes any more.
void Rendezvous::remove_stale() {
    auto read = std::exchange(old_stale_keys_, {});
    read.insert(read.end(), stale_keys_.begin(), stale_keys_.end());
    stale_keys_.clear();
    if (!read.empty()) store_->remove(read, from_now(timeout_));
}

GrowAgreement& Rendezvous::growing() {
    if (!grow_agreement_)
        grow_agreement_.emplace(store_, scope_, rank(), size(), places_ ? *places_ : first_ranks(size()));
    return *grow_agreement_;
}

std::unique_ptr<Rendezvous> Rendezvous::of_part(std::shared_ptr<Store> store, std::string scope, int rank,
                                                int size, Duration timeout) {
    return std::unique_ptr<Rendezvous>(new Rendezvous(std::make_shared<SealedStore>(std::move(store)),
                                                      std::move(scope), rank, size, timeout, nullptr,
                                                      std::vector<int>{}));
}

Rendezvous::Grown Rendezvous::rejoin(const std::shared_ptr<Store>& store, std::optional<int> place,
                                     const std::string& about, Duration timeout) {
    const auto sealed = std::make_shared<SealedStore>(store);
    auto world = enter(*sealed, place, about, timeout);
    auto larger = std::unique_ptr<Rendezvous>(new Rendezvous(sealed, world, -1, timeout));
    return {std::move(world), std::move(larger)};
}

void Rendezvous::follow(const Rendezvous& before, int server) {
    server_ = server;
    claim_ = before.claim_;
    claimed_ = before.claimed_;
}

}  // namespace rankmesh::detail
