// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/room.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <rankmesh/core/text.hpp>

#include "engine/arithmetic.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {

Room::Room(std::vector<int> ranks) : ranks_(std::move(ranks)), next_(ranks_.size(), 0) {}

std::uint64_t Room::post(int position, const Call& call, const Label& label) {
    const auto lock = std::lock_guard(mutex_);
    if (poison_) throw_poison(label);
    const auto p = static_cast<std::size_t>(position);
    const auto number = next_[p]++;
    if (number - first_ == rounds_.size()) rounds_.emplace_back().calls.resize(ranks_.size());
    auto& round = this->round(number);
    round.calls[p] = call;
    if (++round.posted == static_cast<int>(ranks_.size())) {
        compare(round, label);
        if (round.disagreement.empty()) perform(round);
        round.done = true;
        changed_.notify_all();
    }
    return number;
}

void Room::wait(int position, std::uint64_t number, const Label& label, Duration deadline) {
    auto lock = std::unique_lock(mutex_);
    const auto ended = [&] { return round(number).done || poison_; };
    const auto until = from_now(deadline);
    if (!changed_.wait_until(lock, until, ended)) {
        auto arrived = std::vector<int>{};
        auto missing = std::vector<int>{};
        for (std::size_t p = 0; p < ranks_.size(); ++p)
            (round(number).calls[p] ? arrived : missing).push_back(ranks_[p]);
        poison_ = {
            .why = cat("the deadline of ", to_text(deadline), " passed on rank ",
                       ranks_[static_cast<std::size_t>(position)], " in ",
                       to_string(*round(number).calls[static_cast<std::size_t>(position)]), ", call number ",
                       number, " on ", label.text(), ", group ", ranks_to_string(ranks_), ": arrived ",
                       ranks_to_string(arrived), ", missing ", ranks_to_string(missing)),
            .lost = {},
            .arrived = arrived,
            .missing = missing};
        changed_.notify_all();
    }
    auto& own = round(number);
    if (!own.done) throw_poison(label);
    const auto disagreement = own.disagreement;
    const auto odd_ranks = own.odd_ranks;
    collect(own);
    if (!disagreement.empty()) throw Disagreement(disagreement, odd_ranks);
}

void Room::collect(Round& round) {
    const auto members = static_cast<int>(ranks_.size());
    if (++round.collected < members) return;
    for (; !rounds_.empty() && rounds_.front().collected == members; ++first_) rounds_.pop_front();
}

bool Room::done(std::uint64_t number) {
    const auto lock = std::lock_guard(mutex_);
    return poison_ || round(number).done;
}

void Room::withdraw(int position, std::uint64_t number, const Label& label) noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (poison_) return;  // nobody will touch the buffers: work is done under the lock
    if (round(number).done) return collect(round(number));
    const auto rank = ranks_[static_cast<std::size_t>(position)];
    poison_ = {
        .why = cat("rank ", rank, " left by an exception with a pending ",
                   to_string(*round(number).calls[static_cast<std::size_t>(position)]), " on ", label.text()),
        .lost = {rank},
        .arrived = {},
        .missing = {}};
    changed_.notify_all();
}

void Room::poison(int rank, const std::string& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (poison_) return;
    poison_ = {.why = why, .lost = {rank}, .arrived = {}, .missing = {}};
    changed_.notify_all();
}

void Room::throw_poison(const Label& label) const {
    if (poison_->lost.empty())
        throw Deadline(cat(poison_->why, "; ", label.text(), " can not be used any more"), poison_->arrived,
                       poison_->missing);
    throw Lost(cat(poison_->why, "; ", label.text(), ", group ", ranks_to_string(ranks_),
                   ", can not be used any more"),
               poison_->lost);
}

void Room::compare(Round& round, const Label& label) {
    const auto same = [&](const std::optional<Call>& call) {
        const auto& first = *round.calls[0];
        return call->operation == first.operation && call->dtype == first.dtype &&
               call->reduction == first.reduction && call->edge == first.edge &&
               call->argument == first.argument && call->in_count == first.in_count;
    };
    if (std::ranges::all_of(round.calls, same)) return;
    auto classes = std::map<std::string, std::vector<int>>{};
    for (std::size_t p = 0; p < ranks_.size(); ++p) classes[to_string(*round.calls[p])].push_back(ranks_[p]);
    auto sorted = std::vector<std::pair<std::string, std::vector<int>>>(classes.begin(), classes.end());
    std::ranges::stable_sort(sorted, [](auto& a, auto& b) { return a.second.size() > b.second.size(); });
    round.disagreement = cat("the ranks of ", label.text(), " call different operations:");
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        append(round.disagreement,
               cat(i > 0 ? ";" : "", " ", ranks_to_string(sorted[i].second), " ", sorted[i].first));
        if (i > 0)
            round.odd_ranks.insert(round.odd_ranks.end(), sorted[i].second.begin(), sorted[i].second.end());
    }
    std::ranges::sort(round.odd_ranks);
}

void Room::perform(Round& round) {
    const auto n = ranks_.size();
    const auto& calls = round.calls;
    const auto& first = *calls[0];
    const auto width = size_of(first.dtype);
    const auto bytes = [](const void* data, std::size_t offset) {
        return static_cast<const char*>(data) + offset;
    };
    const auto copy = [](void* out, std::size_t offset, const void* in, std::size_t count) {
        if (count > 0) std::memmove(static_cast<char*>(out) + offset, in, count);
    };
    // The reduction over all members of the elements begin..begin+count of their inputs, in member order.
    const auto reduced = [&](std::size_t begin, std::size_t count) {
        auto result = std::vector<char>(count * width);
        copy(result.data(), 0, bytes(calls[0]->in, begin * width), result.size());
        for (std::size_t p = 1; p < n; ++p)
            reduce_into(first.reduction, first.dtype, bytes(calls[p]->in, begin * width), result.data(),
                        count);
        if (first.reduction == Reduction::mean)
            divide(first.dtype, result.data(), count, static_cast<int>(n));
        return result;
    };
    switch (first.operation) {
        case Operation::all_reduce: {
            const auto result = reduced(0, first.in_count);
            for (const auto& call : calls) copy(call->out, 0, result.data(), result.size());
            break;
        }
        case Operation::all_gather:
            for (const auto& call : calls)
                for (std::size_t p = 0; p < n; ++p)
                    copy(call->out, p * first.in_bytes(), calls[p]->in, first.in_bytes());
            break;
        case Operation::reduce_scatter:
            for (std::size_t p = 0; p < n; ++p) {
                const auto result = reduced(p * first.out_count, first.out_count);
                copy(calls[p]->out, 0, result.data(), result.size());
            }
            break;
        case Operation::broadcast:
            for (const auto& call : calls)
                copy(call->out, 0, calls[static_cast<std::size_t>(first.argument)]->in, first.out_bytes());
            break;
        case Operation::all_to_all: {
            const auto part = first.in_bytes() / n;
            for (std::size_t to = 0; to < n; ++to)
                for (std::size_t from = 0; from < n; ++from)
                    copy(calls[to]->out, from * part, bytes(calls[from]->in, to * part), part);
            break;
        }
        case Operation::shift: {
            const auto size = static_cast<std::int64_t>(n);
            for (std::int64_t to = 0; to < size; ++to) {
                auto from = to - first.argument;
                if (first.edge == Edge::wrap) from = (from % size + size) % size;
                if (from < 0 || from >= size) continue;
                copy(calls[static_cast<std::size_t>(to)]->out, 0, calls[static_cast<std::size_t>(from)]->in,
                     first.in_bytes());
            }
            break;
        }
        case Operation::barrier:
            break;
    }
}

}  // namespace rankmesh::detail
