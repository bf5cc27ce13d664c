// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/store_rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

constexpr int children = 8;

std::vector<int> first_ranks(int size) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

}  // namespace

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size,
                                 Duration deadline)
    : Rendezvous(rank, size), store_(std::move(store)), scope_(std::move(scope)), deadline_(deadline) {}

StoreRendezvous::StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration deadline)
    : StoreRendezvous(std::move(store), "", rank, size, deadline) {
    if (size == 1 || store_->put(full(cat("claim.", rank)), "")) return;
    throw Misuse(
        cat("rank ", rank, " of the job '", store_->job(), "' is in ", store_->text(),
            " already: two processes have that rank, or an earlier job had that id; give every start "
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
    if (inner) store_->put(full(note("here", rank())), "");
    const auto presence = [&](int rank) {
        return note(std::int64_t{rank} * children + 1 < size() ? "here" : "up", rank);
    };
    for (auto child = first; child < std::min<std::int64_t>(first + children, size()); ++child)
        text = combine(text, wait(phase, note("up", static_cast<int>(child)), {}, presence, until));
    const auto down = cat(step, "down");
    if (rank() == 0) {
        store_->put(full(down), text);
    } else {
        store_->put(full(note("up", rank())), text);
        text = wait(phase, down, {}, presence, until);
        store_->remove(full(note("up", rank())));  // which the parent has read
    }
    if (inner) store_->remove(full(note("here", rank())));
    // Every rank has come to this step, so nobody reads what was written before the last one. What was
    // written since then may be read after this one.
    for (const auto& name : old_litter_) store_->remove(name);
    old_litter_ = std::exchange(litter_, {});
    if (rank() == 0) litter_.push_back(full(down));
    return text;
}

void StoreRendezvous::publish(const std::string& name, const std::string& text) {
    const auto own = full(cat(name, ".", rank()));
    store_->put(own, text);
    litter_.push_back(own);
}

std::string StoreRendezvous::fetch(const std::string& phase, int from, const std::string& name,
                                   std::span<const int> ranks, Instant until) {
    return wait(
        phase, cat(name, ".", from), {ranks.begin(), ranks.end()},
        [&](int rank) { return cat(name, ".", rank); }, until);
}

void StoreRendezvous::send(int to, const std::string& text) {
    store_->put(full(cat("letter.", rank(), ".", to, ".", sent_[to]++)), text);
}

std::string StoreRendezvous::receive(int from) {
    const auto letter = cat("letter.", from, ".", rank(), ".", received_[from]++);
    auto text = wait(
        "join", letter, {from}, [&](int) { return letter; }, from_now(deadline_));
    store_->remove(full(letter));
    return text;
}

void StoreRendezvous::leave(const std::string& why) noexcept {
    try {
        if (size() > 1) store_->put(full("left"), cat(rank(), " ", why));
    } catch (const std::exception&) {  // then they wait until their deadline
    }
}

std::unique_ptr<Rendezvous> StoreRendezvous::sub(const std::vector<int>& ranks) {
    const auto position = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    auto scope = std::string("sub");
    for (auto each : ranks) append(scope, cat("-", each));
    // The name of a file has an end: long lists are told apart by their hash.
    if (scope.size() > 64) {
        auto hash = std::uint64_t{0xcbf29ce484222325U};
        for (auto each : ranks) hash = (hash ^ static_cast<std::uint64_t>(each)) * 0x100000001b3U;
        scope = cat("sub#", hash);
    }
    append(scope, cat(".", subs_[ranks]++, "."));
    return std::unique_ptr<Rendezvous>(
        new StoreRendezvous(store_, full(scope), position, static_cast<int>(ranks.size()), deadline_));
}

/// The text of a note, once it is there. `ranks`: who is waited for, all if none; `presence` is the note that
/// each of them has written if it came.
std::string StoreRendezvous::wait(const std::string& phase, const std::string& name,
                                  const std::vector<int>& ranks, const Notes& presence, Instant until) {
    auto pause = std::chrono::microseconds(50);
    for (;;) {
        if (auto text = store_->get(full(name))) return *text;
        if (const auto left = store_->get(full("left"))) {
            const auto gone = std::stoi(*left);
            throw Lost(
                cat(left->substr(left->find(' ') + 1), "; ", phase, " can not be completed on rank ", rank()),
                {gone});
        }
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) break;
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
        pause = std::min(pause * 2, std::chrono::microseconds(4000));
    }
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    for (auto each : ranks.empty() ? first_ranks(size()) : ranks)
        (each == rank() || store_->get(full(presence(each))) ? arrived : missing).push_back(each);
    throw Deadline(cat("the deadline of ", to_text(deadline_), " passed in ", phase, " on rank ", rank(),
                       ": arrived ", ranks_to_string(arrived), ", missing ", ranks_to_string(missing)),
                   arrived, missing);
}

}  // namespace rankmesh::detail
