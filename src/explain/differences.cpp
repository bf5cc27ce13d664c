// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <rankmesh/core/name.hpp>

#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_words = 3;

/// Returns the calls of one member from a number on, as agreement numbers.
std::vector<std::vector<int>> calls_from(const Evidence& evidence, const Member& member, std::int64_t number,
                                         std::size_t most) {
    auto calls = std::vector<std::vector<int>>{};
    auto last = number - 1;
    for (auto entry = std::ranges::lower_bound(member.collectives, number, {}, &RecordedEntry::number);
         entry != member.collectives.end(); ++entry) {
        if ((*entry)->number != last && calls.size() == most) break;
        if ((*entry)->number != last) calls.emplace_back();
        last = (*entry)->number;
        calls.back().push_back(evidence.agreement(**entry));
    }
    return calls;
}

/// Returns true if both lists are not empty and equal as far as both reach.
bool overlap(const std::vector<std::vector<int>>& a, std::size_t from_a,
             const std::vector<std::vector<int>>& b, std::size_t from_b) {
    if (from_a >= a.size() || from_b >= b.size()) return false;
    const auto count = std::min(a.size() - from_a, b.size() - from_b);
    return std::equal(a.begin() + static_cast<std::ptrdiff_t>(from_a),
                      a.begin() + static_cast<std::ptrdiff_t>(from_a + count),
                      b.begin() + static_cast<std::ptrdiff_t>(from_b));
}

/// Returns how a list differs from another: a call omitted, made twice, or two calls swapped; "": none of
/// these.
std::string pattern_of(const Evidence& evidence, const Member& member, const Member& other,
                       std::int64_t number) {
    constexpr std::size_t most = 32;
    const auto a = calls_from(evidence, member, number, most);
    const auto b = calls_from(evidence, other, number, most);
    const auto call = [&](std::int64_t of) {
        const auto* entry = other.find(of);
        return entry ? cat("call ", of, ", ", excerpt(words_of(*entry->call))) : cat("call ", of);
    };
    if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0] &&
        (a.size() == 2 || b.size() == 2 || overlap(a, 2, b, 2)))
        return cat("calls ", number, " and ", number + 1, " were made in the other order");
    for (std::size_t left_out = 1; left_out <= 3; ++left_out)
        if (overlap(a, 0, b, left_out))
            return left_out == 1
                       ? cat(call(number), " was left out: what follows fits the next one")
                       : cat("calls ", number, " to ", number + static_cast<std::int64_t>(left_out) - 1,
                             " were left out: what follows fits those behind");
    for (std::size_t more = 1; more <= 3; ++more)
        if (overlap(a, more, b, 0))
            return more == 1
                       ? cat("call ", number, " is one too many: the next one is what the others called")
                       : cat("calls ", number, " to ", number + static_cast<std::int64_t>(more) - 1,
                             " are too many: what follows is what the others called");
    return {};
}

/// A set of members that made the same call.
struct Class {
    std::vector<int> agreements;
    std::vector<const Member*> members;

    std::vector<int> ranks() const {
        auto ranks = std::vector<int>{};
        for (const auto* member : members) ranks.push_back(member->rank);
        return ranks;
    }
};

/// The first call on which members differ.
struct Difference {
    const Communicator* communicator = nullptr;
    std::int64_t number = 0;
    std::int64_t created_ns = 0;
    std::vector<Class> classes;  ///< sorted by size, largest first
};

std::optional<Difference> difference_on(const Evidence& evidence, const Communicator& communicator) {
    struct Cursor {
        const Member* member;
        std::size_t at;
    };
    auto pending = std::map<std::int64_t, std::vector<Cursor>>{};  // by the number of the next call
    const auto add = [&](const Cursor& next) {
        const auto& calls = next.member->collectives;
        if (next.at < calls.size()) pending[calls[next.at]->number].push_back(next);
    };
    for (const auto& member : communicator.members) add({&member, 0});
    auto calls = std::vector<int>{};
    while (!pending.empty()) {
        const auto [number, cursors] = std::move(*pending.begin());
        pending.erase(pending.begin());
        auto result = Difference{.communicator = &communicator, .number = number, .classes = {}};
        auto places = std::map<std::vector<int>, std::size_t>{};  // of classes
        for (auto [member, at] : cursors) {
            const auto created = member->collectives[at]->created_ns;
            if (result.created_ns == 0 || created < result.created_ns) result.created_ns = created;
            calls.clear();
            for (; at < member->collectives.size() && member->collectives[at]->number == number; ++at)
                calls.push_back(evidence.agreement(*member->collectives[at]));
            const auto [known, is_new] = places.try_emplace(calls, result.classes.size());
            if (is_new) result.classes.push_back({calls, {}});
            result.classes[known->second].members.push_back(member);
            add({member, at});
        }
        if (result.classes.size() < 2) continue;
        for (auto& one : result.classes) std::ranges::sort(one.members, {}, &Member::rank);
        std::ranges::stable_sort(result.classes, {}, [](const Class& one) {
            return std::pair(-std::ssize(one.members), one.members.front()->rank);
        });
        return result;
    }
    return std::nullopt;
}

/// If the members alone cannot decide, moves the class to the front with which other groups along the same
/// axes agree.
bool tells_who_is_right(const Evidence& evidence, Difference& difference) {
    auto& classes = difference.classes;
    if (classes[0].members.size() > classes[1].members.size()) return true;
    if (difference.communicator->kind.empty()) return false;
    auto votes = std::vector<std::size_t>(classes.size());
    for (const auto& other : evidence.communicators()) {
        if (&other == difference.communicator || other.kind != difference.communicator->kind) continue;
        for (const auto& member : other.members) {
            const auto calls = calls_from(evidence, member, difference.number, 1);
            const auto* entry = member.find(difference.number);
            if (!entry) continue;
            const auto known = std::ranges::find(classes, calls.front(), &Class::agreements);
            if (known != classes.end()) ++votes[static_cast<std::size_t>(known - classes.begin())];
        }
    }
    const auto most = std::ranges::max_element(votes);
    if (*most == 0 || std::ranges::count(votes, *most) > 1) return false;
    std::swap(classes[0], classes[static_cast<std::size_t>(most - votes.begin())]);
    return true;
}

const RecordedEntry& entry_of(const Class& one, std::int64_t number) {
    return *one.members.front()->find(number);
}

Finding finding_of(const Evidence& evidence, Difference difference) {
    const auto is_told = tells_who_is_right(evidence, difference);
    const auto& [communicator, number, created, classes] = difference;
    const auto words = [&, call = number](const Class& one) {
        return excerpt(words_of(*entry_of(one, call).call));
    };
    auto ranks = std::vector<int>{};
    for (const auto& one : classes)
        if (!is_told || &one != &classes.front())
            for (const auto* member : one.members) ranks.push_back(member->rank);
    std::ranges::sort(ranks);
    auto finding = finding_on(Finding::Kind::calls_differ, *communicator, number, ranks);
    const auto& places = evidence.places();
    auto& text = finding.text;
    if (is_told) {
        for (std::size_t i = 1; i < classes.size() && i <= most_words; ++i)
            text += cat(i == 1 ? "" : ", ", places.ranks(classes[i].ranks()), " called ", words(classes[i]));
        if (classes.size() - 1 > most_words) text += cat(", and others called something else again");
        text += cat(" as call ", number, " on ", communicator->text, ", where ",
                    places.ranks(classes[0].ranks()), " called ", words(classes[0]));
    } else {
        text = cat("call ", number, " on ", communicator->text, " is not the same on all its ranks: ");
        for (std::size_t i = 0; i < classes.size() && i <= most_words; ++i)
            text += cat(i == 0 ? "" : ", ", places.ranks(classes[i].ranks()), " called ", words(classes[i]));
    }
    const auto other = differences(evidence.agreement(classes[0].agreements.front()),
                                   evidence.agreement(classes[1].agreements.front()));
    if (!other.empty()) text += cat("; ", detail::listed(other), other.size() == 1 ? " differs" : " differ");
    if (!is_told)
        finding.details.emplace_back(
            "as many called the one as the other, so records do not tell which is right");
    else if (classes[0].members.size() <= classes[1].members.size())
        finding.details.push_back(
            cat("the other groups along ",
                in_quotes(communicator->axes.empty() ? communicator->kind : communicator->axes), " called ",
                words(classes[0])));
    for (std::size_t i = 1; is_told && i < classes.size() && i <= most_words; ++i)
        if (const auto pattern =
                pattern_of(evidence, *classes[i].members.front(), *classes[0].members.front(), number);
            !pattern.empty())
            finding.details.push_back(cat("on ", places.ranks(classes[i].ranks()), " ", pattern));
    return finding;
}

/// Returns a number for the neighbours of a send_recv, equal for equal distances; 0: another message.
std::int64_t neighbours(const RecordedEntry& entry, int rank) {
    const auto& group = entry.group->ranks;
    const auto me = std::ranges::find(group, rank) - group.begin();
    const auto size = std::ssize(group);
    if (!entry.call->argument || !entry.call->source || me == size) return 0;
    const auto distance = [&](std::int64_t peer) { return ((peer - me) % size + size) % size; };
    return 1 + distance(*entry.call->argument) * size + distance(*entry.call->source);
}

}  // namespace

std::vector<Finding> differing_calls(const Evidence& evidence) {
    auto found = std::vector<Difference>{};
    for (const auto& communicator : evidence.communicators())
        if (auto difference = difference_on(evidence, communicator)) found.push_back(std::move(*difference));
    std::ranges::stable_sort(found, {}, &Difference::created_ns);
    auto findings = std::vector<Finding>{};
    for (auto& difference : found) findings.push_back(finding_of(evidence, std::move(difference)));
    return findings;
}

std::optional<ListDifference> first_difference(const Evidence& evidence, const std::vector<int>& ranks,
                                               bool peers) {
    // A ring buffer keeps the last calls on each communicator; calls before `from` may be lost.
    auto from = std::int64_t{0};
    auto records = std::vector<const FlightRecord*>{};
    for (const auto rank : ranks) {
        const auto* record = evidence.record(rank);
        if (!record || record->entries.empty()) continue;
        records.push_back(record);
        from = std::max(from, record->is_torch ? record->entries.front().id : 0);
        auto seen = std::set<std::pair<int, bool>>{};
        for (const auto& entry : record->entries)
            if (seen.insert({evidence.number_of(entry), entry.is_message}).second && entry.number > 1)
                from = std::max(from, entry.id);
    }
    if (records.size() < 3) return std::nullopt;  // two records cannot outvote each other
    auto at = std::vector<std::size_t>{};
    for (const auto* record : records)
        at.push_back(
            static_cast<std::size_t>(std::ranges::lower_bound(record->entries, from, {}, &RecordedEntry::id) -
                                     record->entries.begin()));
    const Communicator* checked = nullptr;
    // Groups along the same axes are equivalent. If the axes of a group are not known, all these ranks must
    // be members.
    using Called = std::tuple<std::string, int, bool, std::int64_t>;
    while (true) {
        auto classes = std::map<Called, std::vector<std::size_t>>{};
        for (std::size_t i = 0; i < records.size(); ++i) {
            if (at[i] == records[i]->entries.size()) continue;
            const auto& entry = records[i]->entries[at[i]];
            const auto& communicator = evidence.communicator_of(entry);
            const auto is_alone = communicator.kind.empty();
            if (is_alone && &communicator != checked &&
                !std::ranges::all_of(records, [&](const FlightRecord* record) {
                    return communicator.find(record->rank) != nullptr;
                }))
                return std::nullopt;
            if (is_alone) checked = &communicator;
            const auto what = !entry.is_message ? evidence.agreement(entry)
                              : peers           ? neighbours(entry, records[i]->rank)
                                                : 0;
            classes[{communicator.kind, is_alone ? evidence.number_of(entry) : -1, entry.is_message, what}]
                .push_back(i);
        }
        if (classes.empty()) return std::nullopt;
        if (classes.size() == 1) {
            for (const auto i : classes.begin()->second) ++at[i];
            continue;
        }
        const auto most =
            std::ranges::max_element(classes, {}, [](const auto& one) { return one.second.size(); });
        auto result = ListDifference{};
        auto others = std::vector<int>{};
        const RecordedEntry* theirs = nullptr;
        const RecordedEntry* mine = nullptr;
        for (const auto& [called, members] : classes)
            for (const auto i : members) {
                const auto& entry = records[i]->entries[at[i]];
                if (&called == &most->first) {
                    others.push_back(records[i]->rank);
                    theirs = &entry;
                } else {
                    result.ranks.push_back(records[i]->rank);
                    mine = mine ? mine : &entry;
                }
            }
        if (result.ranks.size() >= others.size()) return std::nullopt;
        std::ranges::sort(result.ranks);
        std::ranges::sort(others);
        const auto call = [&](const RecordedEntry& entry) {
            return cat(excerpt(words_of(*entry.call)), " on ", evidence.communicator_of(entry).label);
        };
        result.text = cat(evidence.places().ranks(result.ranks), " called ", call(*mine), " as number ",
                          mine->id + 1, " of all ", result.ranks.size() == 1 ? "its" : "their",
                          " calls, where ", evidence.places().ranks(others), " called ", call(*theirs));
        return result;
    }
}

}  // namespace rankmesh::detail::explaining
