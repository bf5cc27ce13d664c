// SPDX-License-Identifier: Apache-2.0
#include "engine/rendezvous/store_rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/host.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr int children = 8;
/// The time that a store has for a request made when a timeout expires, or by a rank that leaves.
constexpr auto grace = std::chrono::milliseconds(500);

}  // namespace

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                                 Duration timeout)
    : Rendezvous(rank, size),
      store_(std::move(store)),
      scope_(std::move(scope)),
      timeout_(timeout),
      survivor_agreement_(store_, scope_, rank, size, timeout) {}

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration timeout)
    : StoreRendezvous(std::move(store), "", rank, size, timeout) {
    const auto until = from_now(timeout);
    const auto claim = cat("claim.", rank);
    if (size == 1 || store_->put(claim, cat("process ", getpid(), " on ", host_name()), until)) return;
    throw UsageError(cat("rank ", rank, " of the job '", store_->job(), "' is in ", store_->text(),
                         " already, of ",
                         store_->get({claim}, until).front().value_or("a process that is gone"),
                         ": two processes have that rank, or an earlier job had that id; give every start "
                         "a job id of its own, such as RANKMESH_JOB=$(uuidgen)"));
}

std::string StoreRendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size() == 1) return text;
    const auto until = from_now(timeout_);
    const auto step = cat("step.", steps_++, ".");
    const auto entry = [&](const char* kind, int rank) { return cat(step, kind, ".", rank); };
    const auto first = std::int64_t{rank()} * children + 1;
    const auto inner = first < size();
    // A rank with children cannot pass on their texts before they arrive, but announces its own arrival.
    if (inner) store_->put(full(entry("here", rank())), "", until);
    const auto arrival_key = [&](int rank) {
        return entry(std::int64_t{rank} * children + 1 < size() ? "here" : "up", rank);
    };
    auto from_children = std::vector<std::string>{};
    for (auto child = first; child < std::min<std::int64_t>(first + children, size()); ++child)
        from_children.push_back(entry("up", static_cast<int>(child)));
    if (inner)
        for (const auto& each : wait(phase, from_children, {}, arrival_key, until))
            text = combine(text, each);
    const auto down = cat(step, "down");
    if (rank() == 0) {
        store_->put(full(down), text, until);
    } else {
        store_->put(full(entry("up", rank())), text, until);
        text = wait(phase, {down}, {}, arrival_key, until).front();
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
    const auto own = full(cat(name, ".", rank()));
    store_->put(own, text, from_now(timeout_));
    stale_keys_.push_back(own);
}

std::vector<std::string> StoreRendezvous::fetch(const std::string& phase, std::span<const int> from,
                                                const std::string& name, std::span<const int> ranks,
                                                Instant until) {
    const auto entry = [&](int rank) { return cat(name, ".", rank); };
    auto entries = std::vector<std::string>{};
    for (auto each : from) entries.push_back(entry(each));
    return wait(phase, entries, {ranks.begin(), ranks.end()}, entry, until);
}

void StoreRendezvous::send(int to, const std::string& text) {
    store_->put(full(cat("message.", rank(), ".", to, ".", sent_[to]++)), text, from_now(timeout_));
}

std::string StoreRendezvous::receive(int from) {
    const auto until = from_now(timeout_);
    const auto message = cat("message.", from, ".", rank(), ".", received_[from]++);
    auto text = wait(
        "join", {message}, {from}, [&](int) { return message; }, until);
    store_->remove({full(message)}, until);
    return std::move(text.front());
}

void StoreRendezvous::leave(const std::string& why) noexcept {
    try {
        if (size() > 1) store_->put(full("left"), cat(rank(), " ", why), from_now(grace));
        survivor_agreement_.stay_away(from_now(grace));
    } catch (const std::exception&) {  // the others wait until their timeout
    }
}

std::unique_ptr<Rendezvous> StoreRendezvous::sub(const std::vector<int>& ranks) {
    const auto group_rank = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    return std::unique_ptr<Rendezvous>(new StoreRendezvous(store_, full(scope_of_next(ranks)), group_rank,
                                                           static_cast<int>(ranks.size()), timeout_));
}

Rendezvous::Rest StoreRendezvous::survivors(Duration longest,
                                            const std::function<std::vector<int>()>& ended) {
    auto ranks = survivor_agreement_.survivors(longest, ended);
    const auto group_rank = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    const auto scope = full(cat("rest.", survivor_agreement_.rounds(), "."));
    const auto size = static_cast<int>(ranks.size());
    return {std::move(ranks),
            std::unique_ptr<Rendezvous>(new StoreRendezvous(store_, scope, group_rank, size, timeout_))};
}

/// The texts of entries, once all of them exist. `ranks`: the ranks that are waited for, all if empty;
/// `arrival_key` is the key that each of them has written if it arrived.
std::vector<std::string> StoreRendezvous::wait(const std::string& phase,
                                               const std::vector<std::string>& names,
                                               const std::vector<int>& ranks, const Entries& arrival_key,
                                               Instant until) {
    using Clock = std::chrono::steady_clock;
    constexpr auto shortest_pause = std::chrono::microseconds(50);
    const auto begin = Clock::now();
    auto texts = std::vector<std::string>(names.size());
    auto absent = std::vector<std::size_t>(names.size());
    std::iota(absent.begin(), absent.end(), std::size_t{0});
    while (!absent.empty()) {
        auto wanted = std::vector<std::string>{};
        for (auto each : absent) wanted.push_back(full(names[each]));
        wanted.push_back(full("left"));
        // A request that begins just before the timeout may complete.
        auto found = store_->get(wanted, std::max(until, from_now(grace)));
        auto still = std::vector<std::size_t>{};
        for (std::size_t i = 0; i < absent.size(); ++i) {
            if (found[i])
                texts[absent[i]] = std::move(*found[i]);
            else
                still.push_back(absent[i]);
        }
        absent = std::move(still);
        if (absent.empty()) break;
        if (const auto& left = found.back()) {
            const auto gone = std::stoi(*left);
            throw PeerLost(
                cat(left->substr(left->find(' ') + 1), "; ", phase, " cannot be completed on rank ", rank()),
                {gone});
        }
        const auto now = Clock::now();
        if (now >= until) break;
        const auto pause =
            std::clamp<std::chrono::nanoseconds>((now - begin) / 4, shortest_pause, store_->longest_pause());
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
    }
    if (!absent.empty()) throw_missing(phase, ranks.empty() ? first_ranks(size()) : ranks, arrival_key);
    return texts;
}

void StoreRendezvous::throw_missing(const std::string& phase, const std::vector<int>& ranks,
                                    const Entries& arrival_key) {
    auto entries = std::vector<std::string>{};
    for (auto each : ranks) entries.push_back(full(arrival_key(each)));
    const auto there = store_->get(entries, from_now(grace));
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    for (std::size_t i = 0; i < ranks.size(); ++i)
        (ranks[i] == rank() || there[i] ? arrived : missing).push_back(ranks[i]);
    throw_timeout(phase, timeout_, arrived, missing);
}

}  // namespace rankmesh::detail
