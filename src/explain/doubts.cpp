// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_doubts = 5;

/// Adds calls that have not ended on ranks that have made them.
void add_open_calls(const Evidence& evidence, std::vector<std::string>& doubts) {
    struct Open {
        const RecordedEntry* entry = nullptr;
        bool is_late = false;
        std::set<int> ranks;
    };
    auto calls = std::map<std::tuple<int, bool, std::int64_t>, Open>{};
    const auto add = [&](int rank, const FlightRecord& record, const RecordedEntry& entry) {
        auto& open = calls[{evidence.number_of(entry), entry.is_message, entry.number}];
        open.entry = &entry;
        open.is_late = open.is_late || Evidence::notes_ends_late(record, entry);
        open.ranks.insert(rank);
    };
    for (const auto& [rank, record] : evidence.records()) {
        for (const auto& entry : record->entries)
            if (!Evidence::is_over(entry)) add(rank, *record, entry);
        if (const auto* entry = evidence.whereabouts(rank).entry) add(rank, *record, *entry);
        for (const auto& status : record->statuses)
            if (!status.group && status.enqueued > status.completed)
                doubts.push_back(cat(evidence.places().rank(rank), " has made ", status.enqueued,
                                     " calls on a communicator that its record does not name, of which ",
                                     std::max(status.completed, std::int64_t{0}), " are over"));
    }
    for (const auto& [call, open] : calls) {
        const auto ranks = std::vector<int>(open.ranks.begin(), open.ranks.end());
        doubts.push_back(cat(evidence.text(*open.entry), " is not over in the ",
                             ranks.size() == 1 ? "record of " : "records of ", evidence.places().ranks(ranks),
                             open.is_late ? "; PyTorch's Gloo notes the end of a call a moment after it "
                                            "returned, and not whether it failed"
                                          : ""));
    }
}

/// Adds calls to which a rank came when the timeout of another was over: PyTorch's Gloo does not record that
/// they failed. Such a call can be right if ranks only enqueued it.
void add_late_ranks(const Evidence& evidence, std::vector<std::string>& doubts) {
    constexpr auto second = std::int64_t{1'000'000'000};
    for (const auto& communicator : evidence.communicators()) {
        auto first = std::map<std::int64_t, std::pair<int, const RecordedEntry*>>{};
        for (const auto& member : communicator.members)
            for (const auto* entry : member.collectives) {
                const auto [known, is_new] = first.try_emplace(entry->number, member.rank, entry);
                if (!is_new && entry->created_ns < known->second.second->created_ns)
                    known->second = {member.rank, entry};
            }
        for (const auto& member : communicator.members)
            for (const auto* entry : member.collectives) {
                const auto& [rank, other] = first.at(entry->number);
                const auto late = (entry->created_ns - other->created_ns) / second;
                if (!entry->is_end_assumed || other->timeout_ms == 0 || late <= other->timeout_ms / 1000)
                    continue;
                doubts.push_back(cat(evidence.places().rank(member.rank), " came to ", evidence.text(*entry),
                                     " ", late, " s after ", evidence.places().rank(rank),
                                     ", whose timeout is ", other->timeout_ms / 1000,
                                     " s: the call can have failed"));
            }
    }
}

/// Adds calls that only some members of a group have made, although no rank waits for them.
void add_uneven_calls(const Evidence& evidence, const Messages& messages, std::vector<std::string>& doubts) {
    const auto& places = evidence.places();
    for (const auto& communicator : evidence.communicators()) {
        const Member* least = nullptr;
        const Member* most = nullptr;
        for (const auto& member : communicator.members) {
            if (!member.record) continue;
            if (!least || member.last < least->last) least = &member;
            if (!most || member.last > most->last) most = &member;
        }
        if (least && least->last < most->last)
            doubts.push_back(cat(places.rank(most->rank), " has made ", most->last, " calls on ",
                                 communicator.text, ", and ", places.rank(least->rank), " ", least->last));
    }
    for (const auto& [key, stream] : messages.streams()) {
        const auto& [number, from, to] = key;
        if (!stream.is_whole || stream.sends.size() == stream.receives.size()) continue;
        doubts.push_back(cat(places.rank(from), " has sent ", stream.sends.size(), " messages to ",
                             places.rank(to), " on ",
                             evidence.communicators()[static_cast<std::size_t>(number)].text,
                             ", which has received ", stream.receives.size()));
    }
}

/// Adds groups whose members no record lists, and that are no group of the mesh.
void add_unknown_groups(const Evidence& evidence, std::vector<std::string>& doubts) {
    if (evidence.places().text().empty()) return;  // the size of the world is a doubt already
    for (const auto& communicator : evidence.communicators())
        if (communicator.is_inferred && evidence.places().axes_of(communicator.ranks).empty())
            doubts.push_back(cat("no record lists the members of ", communicator.label, ": ",
                                 evidence.places().ranks(communicator.ranks),
                                 " made calls on it, and others may not have come to it"));
}

}  // namespace

std::vector<std::string> doubts(const Evidence& evidence, const Messages& messages) {
    auto all = std::vector<std::string>{};
    auto none = evidence.absent();
    auto unread = std::vector<int>{};
    std::ranges::copy_if(none, std::back_inserter(unread), [&](int rank) { return evidence.unread(rank); });
    std::erase_if(none, [&](int rank) { return evidence.unread(rank); });
    if (!none.empty()) all.push_back(cat("no record of ", evidence.places().ranks(none)));
    if (!unread.empty())
        all.push_back(cat(unread.size() == 1 ? "the record of " : "the records of ",
                          evidence.places().ranks(unread), " cannot be read"));
    if (all.empty() && !evidence.knows_world())
        all.emplace_back("no record says how many ranks the job has, and no mesh was given");
    if (std::ranges::any_of(evidence.records(), [](const auto& one) { return one.second->is_log; }))
        all.emplace_back(
            "logs and reports do not say which calls have ended, and name only calls that did not");
    add_late_ranks(evidence, all);
    const auto before = all.size();
    add_open_calls(evidence, all);
    add_uneven_calls(evidence, messages, all);
    const auto runs = std::ranges::find_if(evidence.records(), [](const auto& one) {
        return one.second->every_s > 0 && one.second->reason == "request";
    });
    if (all.size() > before && runs != evidence.records().end())
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(before),
                   cat("the job may run: its ranks write records every ", runs->second->every_s,
                       " s, not at the same moment; 'rankmesh watch FOLDER' says which calls stand"));
    add_unknown_groups(evidence, all);
    all.insert(all.end(), evidence.notes().begin(), evidence.notes().end());
    if (all.size() > most_doubts) {
        const auto more = all.size() - most_doubts;
        all.resize(most_doubts);
        all.push_back(cat("and ", more, " more of this kind"));
    }
    return all;
}

}  // namespace rankmesh::detail::explaining
