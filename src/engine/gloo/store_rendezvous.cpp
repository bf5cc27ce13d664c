// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/store_rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/first_ranks.hpp"
#include "engine/host.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

constexpr int children = 8;
/// How long a store may take for what is asked of it as the deadline passes, or by who leaves.
constexpr auto grace = std::chrono::milliseconds(500);

}  // namespace

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                                 Duration deadline)
    : Rendezvous(rank, size),
      store_(std::move(store)),
      scope_(std::move(scope)),
      deadline_(deadline),
      muster_(store_, scope_, rank, size, deadline) {}

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration deadline)
    : StoreRendezvous(std::move(store), "", rank, size, deadline) {
    const auto until = from_now(deadline);
    const auto claim = cat("claim.", rank);
    if (size == 1 || store_->put(claim, cat("process ", getpid(), " on ", host_name()), until)) return;
    throw Misuse(cat("rank ", rank, " of the job '", store_->job(), "' is in ", store_->text(),
                     " already, of ", store_->get({claim}, until).front().value_or("a process that is gone"),
                     ": two processes have that rank, or an earlier job had that id; give every start "
                     "a job id of its own, such as RANKMESH_JOB=$(uuidgen)"));
}

std::string StoreRendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size() == 1) return text;
    const auto until = from_now(deadline_);
    const auto step = cat("step.", steps_++, ".");
    const auto note = [&](const char* kind, int rank) { return cat(step, kind, ".", rank); };
    const auto first = std::int64_t{rank()} * children + 1;
    const auto inner = first < size();
    // Who has children can not tell them up before they come, but is here.
    if (inner) store_->put(full(note("here", rank())), "", until);
    const auto presence = [&](int rank) {
        return note(std::int64_t{rank} * children + 1 < size() ? "here" : "up", rank);
    };
    auto from_children = std::vector<std::string>{};
    for (auto child = first; child < std::min<std::int64_t>(first + children, size()); ++child)
        from_children.push_back(note("up", static_cast<int>(child)));
    if (inner)
        for (const auto& each : wait(phase, from_children, {}, presence, until)) text = combine(text, each);
    const auto down = cat(step, "down");
    if (rank() == 0) {
        store_->put(full(down), text, until);
    } else {
        store_->put(full(note("up", rank())), text, until);
        text = wait(phase, {down}, {}, presence, until).front();
    }
    // Every rank has come to this step, so nobody reads what was written before the last one. What was
    // written since then may be read after this one.
    auto read = std::exchange(old_litter_, std::exchange(litter_, {}));
    if (rank() == 0)
        litter_.push_back(full(down));
    else
        read.push_back(full(note("up", rank())));  // which the parent has read
    if (inner) read.push_back(full(note("here", rank())));
    if (!read.empty()) store_->remove(read, until);
    return text;
}

void StoreRendezvous::publish(const std::string& name, const std::string& text) {
    const auto own = full(cat(name, ".", rank()));
    store_->put(own, text, from_now(deadline_));
    litter_.push_back(own);
}

std::vector<std::string> StoreRendezvous::fetch(const std::string& phase, std::span<const int> from,
                                                const std::string& name, std::span<const int> ranks,
                                                Instant until) {
    const auto note = [&](int rank) { return cat(name, ".", rank); };
    auto notes = std::vector<std::string>{};
    for (auto each : from) notes.push_back(note(each));
    return wait(phase, notes, {ranks.begin(), ranks.end()}, note, until);
}

void StoreRendezvous::send(int to, const std::string& text) {
    store_->put(full(cat("letter.", rank(), ".", to, ".", sent_[to]++)), text, from_now(deadline_));
}

std::string StoreRendezvous::receive(int from) {
    const auto until = from_now(deadline_);
    const auto letter = cat("letter.", from, ".", rank(), ".", received_[from]++);
    auto text = wait(
        "join", {letter}, {from}, [&](int) { return letter; }, until);
    store_->remove({full(letter)}, until);
    return std::move(text.front());
}

void StoreRendezvous::leave(const std::string& why) noexcept {
    try {
        if (size() > 1) store_->put(full("left"), cat(rank(), " ", why), from_now(grace));
        muster_.stay_away(from_now(grace));
    } catch (const std::exception&) {  // then they wait until their deadline
    }
}

std::unique_ptr<Rendezvous> StoreRendezvous::sub(const std::vector<int>& ranks) {
    const auto position = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    return std::unique_ptr<Rendezvous>(new StoreRendezvous(store_, full(scope_of_next(ranks)), position,
                                                           static_cast<int>(ranks.size()), deadline_));
}

Rendezvous::Rest StoreRendezvous::survivors(Duration longest,
                                            const std::function<std::vector<int>()>& ended) {
    auto ranks = muster_.survivors(longest, ended);
    const auto position = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    const auto scope = full(cat("rest.", muster_.rounds(), "."));
    const auto size = static_cast<int>(ranks.size());
    return {std::move(ranks),
            std::unique_ptr<Rendezvous>(new StoreRendezvous(store_, scope, position, size, deadline_))};
}

/// The texts of notes, once all of them are there. `ranks`: who is waited for, all if none; `presence` is the
/// note that each of them has written if it came.
std::vector<std::string> StoreRendezvous::wait(const std::string& phase,
                                               const std::vector<std::string>& names,
                                               const std::vector<int>& ranks, const Notes& presence,
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
        // A look that begins just before the deadline may end.
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
            throw Lost(
                cat(left->substr(left->find(' ') + 1), "; ", phase, " can not be completed on rank ", rank()),
                {gone});
        }
        const auto now = Clock::now();
        if (now >= until) break;
        const auto pause =
            std::clamp<std::chrono::nanoseconds>((now - begin) / 4, shortest_pause, store_->longest_pause());
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
    }
    if (!absent.empty()) throw_missing(phase, ranks.empty() ? first_ranks(size()) : ranks, presence);
    return texts;
}

void StoreRendezvous::throw_missing(const std::string& phase, const std::vector<int>& ranks,
                                    const Notes& presence) {
    auto notes = std::vector<std::string>{};
    for (auto each : ranks) notes.push_back(full(presence(each)));
    const auto there = store_->get(notes, from_now(grace));
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    for (std::size_t i = 0; i < ranks.size(); ++i)
        (ranks[i] == rank() || there[i] ? arrived : missing).push_back(ranks[i]);
    throw_deadline(phase, deadline_, arrived, missing);
}

}  // namespace rankmesh::detail
