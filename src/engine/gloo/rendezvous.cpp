// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/rendezvous.hpp"

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

Rendezvous::Rendezvous(std::shared_ptr<FileStore> store, std::string scope, int rank, int size,
                       Duration deadline)
    : store_(std::move(store)), scope_(std::move(scope)), rank_(rank), size_(size), deadline_(deadline) {}

void Rendezvous::claim() {
    if (size_ == 1 || store_->put(full(cat("claim.", rank_)), "")) return;
    throw Misuse(
        cat("rank ", rank_, " of the job '", store_->job(), "' is in the store '", store_->folder(),
            "' already: two processes have that rank, or an earlier job had that id; give every start "
            "a job id of its own, such as RANKMESH_JOB=$(uuidgen)"));
}

std::string Rendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size_ == 1) return text;
    const auto until = from_now(deadline_);
    const auto step = cat("step.", steps_++, ".");
    const auto note = [&](const char* kind, int rank) { return cat(step, kind, ".", rank); };
    const auto first = std::int64_t{rank_} * children + 1;
    const auto inner = first < size_;
    // Who has children can not tell them up before they come, but is here.
    if (inner) store_->put(full(note("here", rank_)), "");
    const auto presence = [&](int rank) {
        return note(std::int64_t{rank} * children + 1 < size_ ? "here" : "up", rank);
    };
    for (auto child = first; child < std::min<std::int64_t>(first + children, size_); ++child)
        text = combine(text, wait(phase, note("up", static_cast<int>(child)), {}, presence, until));
    const auto down = cat(step, "down");
    if (rank_ == 0) {
        store_->put(full(down), text);
    } else {
        store_->put(full(note("up", rank_)), text);
        text = wait(phase, down, {}, presence, until);
        store_->remove(full(note("up", rank_)));  // which the parent has read
    }
    if (inner) store_->remove(full(note("here", rank_)));
    // Every rank has come to this step, so nobody reads what was written before the last one. What was
    // written since then may be read after this one.
    for (const auto& name : old_litter_) store_->remove(name);
    old_litter_ = std::exchange(litter_, {});
    if (rank_ == 0) litter_.push_back(full(down));
    return text;
}

void Rendezvous::publish(const std::string& name, const std::string& text) {
    const auto own = full(cat(name, ".", rank_));
    store_->put(own, text);
    litter_.push_back(own);
}

std::string Rendezvous::fetch(const std::string& phase, int from, const std::string& name,
                              std::span<const int> ranks, std::chrono::steady_clock::time_point until) {
    return wait(
        phase, cat(name, ".", from), {ranks.begin(), ranks.end()},
        [&](int rank) { return cat(name, ".", rank); }, until);
}

void Rendezvous::send(int to, const std::string& text) {
    store_->put(full(cat("letter.", rank_, ".", to, ".", sent_[to]++)), text);
}

std::string Rendezvous::receive(int from) {
    const auto letter = cat("letter.", from, ".", rank_, ".", received_[from]++);
    auto text = wait(
        "join", letter, {from}, [&](int) { return letter; }, from_now(deadline_));
    store_->remove(full(letter));
    return text;
}

void Rendezvous::leave(const std::string& why) noexcept {
    try {
        if (size_ > 1) store_->put(full("left"), cat(rank_, " ", why));
    } catch (const std::exception&) {  // then they wait until their deadline
    }
}

/// The text of a note, once it is there. `ranks`: who is waited for, all if none; `presence` is the note that
/// each of them has written if it came.
std::string Rendezvous::wait(const std::string& phase, const std::string& name, const std::vector<int>& ranks,
                             const Notes& presence, std::chrono::steady_clock::time_point until) {
    auto pause = std::chrono::microseconds(50);
    for (;;) {
        if (auto text = store_->get(full(name))) return *text;
        if (const auto left = store_->get(full("left"))) {
            const auto rank = std::stoi(*left);
            throw Lost(
                cat(left->substr(left->find(' ') + 1), "; ", phase, " can not be completed on rank ", rank_),
                {rank});
        }
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) break;
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
        pause = std::min(pause * 2, std::chrono::microseconds(4000));
    }
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    for (auto rank : ranks.empty() ? first_ranks(size_) : ranks)
        (rank == rank_ || store_->get(full(presence(rank))) ? arrived : missing).push_back(rank);
    throw Deadline(cat("the deadline of ", to_text(deadline_), " passed in ", phase, " on rank ", rank_,
                       ": arrived ", ranks_to_string(arrived), ", missing ", ranks_to_string(missing)),
                   arrived, missing);
}

}  // namespace rankmesh::detail
