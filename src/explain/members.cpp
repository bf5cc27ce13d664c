// SPDX-License-Identifier: Apache-2.0
// The members of groups whose ranks no record lists, what tells groups apart, and what the errors of ranks
// say about others.

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "explain/evidence.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr int most_added = 1 << 16;  // most members to add to the group of all ranks

/// Returns the ranks with which a clause begins, such as `rank 1`, `the ranks {1, 2}` or `rank 3 [dp=1
/// tp=1]`, and what it says of them. The ranks are empty if it begins otherwise.
std::pair<std::vector<int>, std::string_view> subject_of(std::string_view clause) {
    while (clause.starts_with(' ')) clause.remove_prefix(1);
    if (clause.starts_with("the ")) clause.remove_prefix(4);
    if (!clause.starts_with("rank")) return {};
    auto ranks = std::string{};
    auto end = clause.find(' ');
    for (; end < clause.size(); ++end) {
        if (clause[end] == '[')
            end = std::min(clause.find(']', end), clause.size() - 1);
        else if (std::string_view("0123456789{}., ").find(clause[end]) == std::string_view::npos)
            break;
        else if (clause[end] != '{' && clause[end] != '}')
            ranks += clause[end];
    }
    auto words = clause.substr(std::min(end, clause.size()));
    words = words.substr(0, words.find(": rank "));  // of MPI: where the reporter waits
    try {
        return {parse_ranks(cat("{", ranks, "}")), words};
    } catch (const UsageError&) {
        return {};
    }
}

/// Returns the description of a group, else its name, which no description equals.
std::string name_of(const Communicator& communicator) {
    const auto& group = *communicator.group;
    return group.description.empty() || group.description == "undefined" ? cat("\n", group.name)
                                                                         : group.description;
}

}  // namespace

/// PyTorch's Gloo does not record the ranks of a group, but those of the group of all ranks are known.
void Evidence::add_members_of_world() {
    for (auto& communicator : communicators_) {
        const auto& group = *communicator.group;
        if (!group.ranks.empty() || group.name != "0" || group.description != "default_pg" ||
            world_ > most_added)
            continue;
        for (int rank = 0; rank < world_; ++rank) {
            const auto place = std::ranges::lower_bound(communicator.members, rank, {}, &Member::rank);
            if (place != communicator.members.end() && place->rank == rank) continue;
            auto& added = *communicator.members.insert(place, Member{});
            added.rank = rank;
            added.record = record(rank);
        }
        communicator.ranks.clear();
        for (const auto& member : communicator.members) communicator.ranks.push_back(member.rank);
        communicator.is_inferred = !knows_world_;
    }
}

/// Infers the other members of a group whose ranks no record lists. It does so in two cases: all ranks with
/// calls on the group wait in one of them; or the group is not of the mesh, and its last call is the last
/// call of each rank concerned.
void Evidence::infer_members() {
    const auto last = last_inferred();
    const auto of_names = namesakes();
    auto inferred = std::map<Communicator*, std::vector<int>>{};
    for (auto& communicator : communicators_) {
        if (!communicator.is_inferred || communicator.group->is_of_process) continue;
        const auto waits = [&](int rank) {
            const auto of = whereabouts_.find(rank);
            const auto* entry = of == whereabouts_.end() ? nullptr : of->second.entry;
            return entry && !entry->is_message && &communicator_of(*entry) == &communicator &&
                   entry->number <= communicator.made_by_all;
        };
        auto likely = likely_members(communicator, of_names.at(name_of(communicator)));
        const auto ends_here = [&](int rank) {
            return last.contains(rank) && last.at(rank) == &communicator;
        };
        const auto ends_so = [&](int rank) { return last.contains(rank); };
        if (std::ranges::any_of(communicator.ranks, waits) ||
            (std::ranges::all_of(communicator.ranks, ends_here) && std::ranges::all_of(likely, ends_so)))
            inferred[&communicator] = std::move(likely);
    }
    for (auto& [communicator, likely] : inferred) {
        communicator->likely = std::move(likely);
        if (communicator->likely.empty() || places_.text().empty()) continue;
        communicator->ranks.insert(communicator->ranks.end(), communicator->likely.begin(),
                                   communicator->likely.end());
        std::ranges::sort(communicator->ranks);
        if (const auto axes = places_.axes_of(communicator->ranks); !axes.empty())
            name(*communicator, axes, true);
    }
    // A call that others have not made cannot be complete.
    for (auto& [rank, whereabouts] : whereabouts_)
        if (!whereabouts.entry) whereabouts = find_whereabouts(*by_rank_.at(rank));
}

/// Returns the groups on which ranks made their last call, if they are inferred and no groups of the mesh,
/// and if no record says that the call has succeeded.
std::map<int, const Communicator*> Evidence::last_inferred() const {
    auto last = std::map<int, const Communicator*>{};
    for (const auto& [rank, record] : by_rank_) {
        if (record->entries.empty()) continue;
        const auto& entry = record->entries.back();
        const auto& communicator = communicator_of(entry);
        if (communicator.is_inferred && !entry.is_message && (entry.is_end_assumed || !is_over(entry)) &&
            places_.axes_of(communicator.ranks).empty())
            last[rank] = &communicator;
    }
    return last;
}

/// Returns the groups by their description; those without one are alone.
std::map<std::string, Evidence::Namesakes> Evidence::namesakes() const {
    auto all = std::map<std::string, Namesakes>{};
    for (const auto& communicator : communicators_) {
        auto& known = all[name_of(communicator)];
        known.largest = std::max(known.largest, communicator.ranks.size());
        known.ranks.insert(communicator.ranks.begin(), communicator.ranks.end());
        places_.add_axes(communicator.ranks, known.axes);
    }
    return all;
}

/// Returns the other ranks of the smallest group of the mesh with the ranks that made calls. Without a mesh:
/// the ranks without a record, if the group is smaller than others of its name.
std::vector<int> Evidence::likely_members(const Communicator& communicator, const Namesakes& others) const {
    auto likely = places_.group_of(communicator.ranks.front(), others.axes);
    if (places_.text().empty() && others.largest > communicator.ranks.size()) likely = absent();
    std::erase_if(likely, [&](int rank) { return others.ranks.contains(rank); });
    return likely;
}

/// Two groups of the same ranks have one label by their axes; their own names tell them apart.
void Evidence::tell_labels_apart() {
    auto seen = std::map<std::pair<std::string, std::vector<int>>, int>{};
    for (const auto& communicator : communicators_) ++seen[{communicator.label, communicator.ranks}];
    for (auto& communicator : communicators_) {
        const auto& group = *communicator.group;
        if (seen.at({communicator.label, communicator.ranks}) > 1 && group.axes.empty() &&
            !communicator.axes.empty())
            communicator.label = cat(
                in_quotes(group.description.empty() || group.description == "undefined" ? group.name
                                                                                        : group.description),
                " along ", communicator.label);
    }
}

/// Communicators that share ranks are not equivalent even along the same axes, such as PyTorch's group of all
/// ranks and a group over a whole mesh.
void Evidence::tell_kinds_apart() {
    for (const auto by_description : {true, false}) {
        auto seen = std::set<std::pair<std::string, int>>{};
        auto shared = std::set<std::string>{};
        for (const auto& communicator : communicators_)
            for (const auto rank : communicator.ranks)
                if (!seen.emplace(communicator.kind, rank).second) shared.insert(communicator.kind);
        for (auto& communicator : communicators_)
            if (!communicator.kind.empty() && shared.contains(communicator.kind))
                communicator.kind =
                    by_description ? cat(communicator.kind, " ", communicator.group->description) : "";
    }
}

std::pair<std::string, int> Evidence::reported(int rank) const {
    const auto known = reported_.find(rank);
    return known == reported_.end() ? std::pair<std::string, int>{} : known->second;
}

/// Reads clauses such as `rank 1 has ended this communicator` and `rank 3 [dp=1 tp=1] does not answer` of the
/// errors of ranks that missed or lost others.
void Evidence::read_reports() {
    for (const auto& [reporter, record] : by_rank_) {
        auto concerned = std::set<int>(record->missing.begin(), record->missing.end());
        concerned.insert(record->lost.begin(), record->lost.end());
        if (concerned.empty()) continue;
        auto rest = std::string_view(record->error);
        if (rest.starts_with("rankmesh: ")) rest.remove_prefix(10);
        while (!rest.empty()) {
            const auto clause = rest.substr(0, rest.find(';'));
            rest.remove_prefix(std::min(clause.size() + 1, rest.size()));
            const auto [ranks, words] = subject_of(clause);
            for (const auto rank : ranks)
                if (concerned.contains(rank)) reported_.try_emplace(rank, error_text(words, 200), reporter);
        }
    }
}

}  // namespace rankmesh::detail::explaining
