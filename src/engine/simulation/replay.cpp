// SPDX-License-Identifier: Apache-2.0
#include "engine/simulation/replay.hpp"

#include <algorithm>

#include <rankmesh/core/error.hpp>

#include "engine/hash.hpp"

namespace rankmesh::detail {

/// Begins a step; true if it is new.
bool Replay::Run::begin(std::string_view name) {
    trace_ = hash(name, trace_);
    return ++steps_ > progress().done;
}

/// Throws EngineFailure if the steps up to this one are others than before.
void Replay::Run::check(std::string_view name) const {
    const auto& known = replay_.progress_[static_cast<std::size_t>(rank_)];
    if (steps_ == known.done && trace_ != known.trace)
        throw EngineFailure(cat("rank ", rank_, " takes other steps when its join runs again: step ", steps_,
                                " is '", name, "' now"));
}

void Replay::Run::end(double time, std::uint32_t rounds) {
    progress() = {.done = steps_, .rounds = rounds, .trace = trace_, .time = time};
}

bool Replay::Run::write(const std::string& name, std::string_view text, double cost, double delay) {
    if (!begin(name)) {
        check(name);
        return false;
    }
    auto& entry = replay_.entries_[name];
    if (entry.written)
        throw EngineFailure(cat("rank ", rank_, " writes '", name, "', which is there already"));
    const auto time = progress().time + cost;
    entry.text = text;
    entry.written = true;
    entry.time = time + delay;
    entry.rounds = progress().rounds + 1;
    for (const auto each : entry.waiting) replay_.ready_.push_back(each);
    entry.waiting = {};
    end(time, progress().rounds);
    return true;
}

bool Replay::Run::read(std::span<const std::string> names, std::vector<std::string>& texts, double cost) {
    auto time = progress().time;
    auto rounds = progress().rounds;
    auto all = std::uint64_t{0};
    for (const auto& name : names) all = hash(name, all);
    const auto is_new = begin(std::string_view(reinterpret_cast<const char*>(&all), sizeof all));
    if (!is_new) check(names.front());
    for (const auto& name : names) {
        auto& entry = replay_.entries_[name];
        if (!entry.written) {
            entry.waiting.push_back(rank_);
            throw Blocked{};
        }
        texts.push_back(entry.text);
        time = std::max(time, entry.time);
        rounds = std::max(rounds, entry.rounds);
    }
    if (is_new) end(time + cost, rounds);
    return is_new;
}

void Replay::Run::finish() const {
    const auto known = replay_.progress_[static_cast<std::size_t>(rank_)].done;
    if (steps_ < known)
        throw EngineFailure(cat("rank ", rank_, " takes other steps when its join runs again: it ends after ",
                                steps_, " of ", known));
}

bool Replay::Run::pass(std::string_view name, double cost) {
    if (!begin(name)) return false;
    end(progress().time + cost, progress().rounds);
    return true;
}

void Replay::run(const std::function<void(Run&)>& program) {
    for (auto rank = static_cast<int>(progress_.size()) - 1; rank >= 0; --rank) ready_.push_back(rank);
    while (!ready_.empty()) {
        auto run = Run(*this, ready_.front());
        ready_.pop_front();
        try {
            program(run);
            run.finish();
        } catch (const Blocked&) {
        }
    }
}

std::vector<std::pair<int, std::string>> Replay::waiting() const {
    auto all = std::vector<std::pair<int, std::string>>{};
    for (const auto& [name, entry] : entries_)
        for (const auto rank : entry.waiting) all.emplace_back(rank, name);
    std::ranges::sort(all);
    return all;
}

bool Creations::add(int rank, std::size_t number, const ChannelRequest& request) {
    auto& made = made_[static_cast<std::size_t>(rank)];
    if (number < made.size()) return false;
    const auto& ranks = request.label->ranks;
    // The positions are those of a table, which the key names: ranks have agreed on it.
    const auto id = hash(to_string(ranks.group), hash(request.key));
    const auto next = static_cast<std::uint32_t>(groups_.size());
    const auto [found, is_new] = numbers_.try_emplace(id, next);
    if (is_new) groups_.push_back({.size = ranks.size()});
    made.push_back(found->second);
    return true;
}

std::vector<Creations::Stuck> Creations::match(std::vector<Replay::Progress>& progress,
                                               const std::function<double(int size)>& cost) {
    auto next = std::vector<std::uint32_t>(made_.size());  // by rank: how many of its groups are made
    auto before = std::vector<int>(made_.size(), -1);      // by rank: who arrived before it
    auto ready = first_ranks(static_cast<int>(made_.size()));
    while (!ready.empty()) {
        const auto rank = ready.back();
        const auto i = static_cast<std::size_t>(rank);
        ready.pop_back();
        if (next[i] == made_[i].size()) continue;
        auto& group = groups_[made_[i][next[i]]];
        group.time = std::max(group.time, progress[i].time);
        group.rounds = std::max(group.rounds, progress[i].rounds);
        before[i] = group.last;
        group.last = rank;
        if (++group.arrived < group.size) continue;
        const auto time = group.time + cost(group.size);
        for (auto member = group.last; member >= 0;) {
            const auto m = static_cast<std::size_t>(member);
            progress[m].time = time;
            progress[m].rounds = group.rounds;
            ++next[m];
            ready.push_back(member);
            member = before[m];
        }
    }
    auto stuck = std::vector<Stuck>{};
    for (std::size_t i = 0; i < made_.size(); ++i)
        if (next[i] < made_[i].size()) stuck.push_back({static_cast<int>(i), next[i], made_[i][next[i]]});
    return stuck;
}

}  // namespace rankmesh::detail
