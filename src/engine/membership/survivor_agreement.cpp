// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/survivor_agreement.hpp"


#include <rankmesh/core/ranks.hpp>

#include "engine/fields.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

/// The time for which a rank known to have ended is waited for: perhaps only its connection has ended.
constexpr auto ended_wait = std::chrono::milliseconds(50);

std::vector<int> SurvivorAgreement::survivors(Duration grace,
                                              const std::function<std::vector<int>()>& ended) {
    if (ranks_.empty()) ranks_ = first_ranks(size_);  // seldom asked for
    if (!store_) return ranks_;
    const auto next = [&] {
        if (std::ranges::binary_search(ranks_, rank_)) ranks_ = round(grace, ended);
        if (std::ranges::binary_search(ranks_, rank_)) return;
        throw Timeout(
            cat("rank ", rank_, " is none of the survivors: ", ranks_to_string(ranks_),
                " went on without it, since it came later than their grace, here ", to_text(grace),
                ", or they lost their connections to it; where ranks notice late what happened, give "
                "survivors() more time"),
            ranks_, {rank_});
    };
    next();
    // If all ranks of a list arrive at the next round, all have seen the list.
    for (auto before = std::vector<int>{}; before != ranks_;) {
        before = ranks_;
        next();
    }
    return ranks_;
}

std::vector<int> SurvivorAgreement::round(Duration grace, const std::function<std::vector<int>()>& ended) {
    const auto number = rounds_++;
    const auto list = cat(scope_, "survivors.", number);
    const auto here = [&](int rank) { return cat(scope_, "here.", number, ".", rank); };
    store_->set(here(rank_), "", from_now(timeout_));

    const auto begin = std::chrono::steady_clock::now();
    const auto patience = from_now(grace) - begin;
    const auto until = begin + patience;
    auto came = std::vector{rank_};
    auto open = ranks_;  // ranks that have not arrived, as far as this rank has seen
    std::erase(open, rank_);
    auto leader = ranks_.begin();  // the lowest rank that is not known to be absent, which gathers
    auto replaced = until + patience;
    for (;;) {
        for (auto rank : ended()) say_gone(rank, from_now(timeout_));
        const auto now = std::chrono::steady_clock::now();
        const auto gathers = *leader == rank_;
        const auto watched = gathers ? open : std::vector{*leader};
        auto names = std::vector{list};
        for (auto rank : watched) names.insert(names.end(), {here(rank), gone(rank)});
        const auto found = store_->get(names, from_now(timeout_));
        if (found[0]) {
            // A rank that polls for it later finds the list first.
            store_->remove({here(rank_)}, from_now(timeout_));
            return Fields({}, "the list of the survivors").ranks(*found[0], ranks_.size());
        }
        auto all_gone = true;  // all that have not arrived
        if (gathers) open.clear();
        for (std::size_t i = 0; i < watched.size() && gathers; ++i) {
            const auto is_here = found[1 + 2 * i].has_value();
            (is_here ? came : open).push_back(watched[i]);
            all_gone = all_gone && (is_here || found[2 + 2 * i]);
        }
        if (gathers && (open.empty() || now >= until || (all_gone && now >= begin + ended_wait))) {
            std::ranges::sort(came);
            if (store_->set(list, ranks_to_string(came), from_now(timeout_))) continue;
        }
        if (!gathers && (found[2] || (now >= until && (now >= replaced || !found[1])))) {
            ++leader;
            replaced = now + 2 * patience;
            continue;
        }
        pause_between_polls(begin, store_->longest_pause());
    }
}

}  // namespace rankmesh::detail
