// SPDX-License-Identifier: Apache-2.0
#include "explain/evidence.hpp"

#include <algorithm>
#include <limits>

namespace rankmesh::detail::explaining {

namespace {

constexpr int most_listed = 1 << 20;  // most ranks to check for a record
constexpr std::string_view unrecorded = "a call without an entry";

/// Returns where the description of a group of PyTorch on rankmesh's backend says that it is of the mesh
/// `world=4`; npos: of another mesh.
std::size_t world_in(const RecordedGroup& group) { return group.description.find(" of mesh world="); }

std::string axes_of(const RecordedGroup& group, const Places& places) {
    if (!group.axes.empty() && world_in(group) == std::string::npos) return group.axes;
    const auto axes = places.axes_of(group.ranks);
    return axes.empty() ? group.axes : axes;
}

std::string label_of(const RecordedGroup& group, const std::string& axes, const Places& places,
                     bool is_torch) {
    const auto of_world = world_in(group);
    if (!is_torch && !group.description.empty() &&
        (of_world == std::string::npos || places.axes_of(group.ranks).empty()))
        return excerpt(group.description.substr(0, of_world), 200);
    if (!axes.empty()) return cat(in_quotes(axes), " of mesh ", excerpt(places.text(), 200));
    const auto& name =
        group.description.empty() || group.description == "undefined" ? group.name : group.description;
    return in_quotes(name);
}

/// The ranks of each group, sorted once.
class Groups {
public:
    /// Returns a group in which this record has calls although its rank is not a member; null: none.
    const RecordedGroup* of_others(const FlightRecord& record) {
        const RecordedGroup* checked = nullptr;
        for (const auto& entry : record.entries) {
            const auto* group = entry.group.get();
            if (group == checked || group->ranks.empty()) continue;
            checked = group;
            auto [known, is_new] = sorted_.try_emplace(group, group->ranks);
            if (is_new) std::ranges::sort(known->second);
            if (!std::ranges::binary_search(known->second, record.rank)) return group;
        }
        return nullptr;
    }

private:
    std::unordered_map<const RecordedGroup*, std::vector<int>> sorted_;
};

}  // namespace

const RecordedEntry* Member::find(std::int64_t number) const {
    const auto found = std::ranges::lower_bound(collectives, number, {}, &RecordedEntry::number);
    return found != collectives.end() && (*found)->number == number ? *found : nullptr;
}

bool Member::is_whole() const {
    const auto begins = [](const auto& entries) { return entries.empty() || entries.front()->number <= 1; };
    return begins(messages) && (collectives.empty() ? last == 0 : begins(collectives));
}

const Member* Communicator::find(int rank) const {
    const auto found = std::ranges::lower_bound(members, rank, {}, &Member::rank);
    return found != members.end() && found->rank == rank ? &*found : nullptr;
}

Evidence::Evidence(std::span<const FlightRecord> records, std::span<const UnreadFile> unread, Places places)
    : places_(std::move(places)), unread_(unread.begin(), unread.end()) {
    auto groups = Groups();
    for (const auto& record : records) {
        if (const auto* group = groups.of_others(record)) {
            unread_.push_back({record.file,
                               cat(excerpt(record.file), " has calls on ",
                                   label_of(*group, group->axes, places_, record.is_torch), " ",
                                   few(group->ranks), ", in which its rank, ", record.rank, ", is not"),
                               record.rank});
            continue;
        }
        const auto [known, is_new] = by_rank_.try_emplace(record.rank, &record);
        if (!is_new)
            notes_.push_back(cat(excerpt(record.file), " is of rank ", record.rank, " as ",
                                 excerpt(known->second->file), " is, and is left out"));
    }
    for (const auto& file : unread_)
        if (file.rank && !by_rank_.contains(*file.rank)) unread_of_.try_emplace(*file.rank, &file);
    for (const auto& [rank, record] : by_rank_)
        if (record->reason == "timeout")
            for (const auto other : record->missing)
                if (other != rank) missed_.insert(other);
    for (const auto& [rank, record] : by_rank_) add(*record);
    world_ = places_.world();
    knows_world_ = world_ > 0;
    auto all = std::set<int>{};
    for (const auto& [rank, record] : by_rank_) {
        all.insert(rank);
        world_ = std::max({world_, rank + 1, record->least_world_size, record->world_size.value_or(0)});
        knows_world_ = knows_world_ || record->world_size;
    }
    for (const auto& communicator : communicators_)
        for (const auto rank : communicator.ranks) world_ = std::max(world_, rank + 1);
    add_members_of_world();
    for (auto& communicator : communicators_) {
        communicator.made_by_all = std::numeric_limits<std::int64_t>::max();
        for (auto& member : communicator.members) {
            std::ranges::stable_sort(member.collectives, {}, &RecordedEntry::number);
            if (member.record) communicator.made_by_all = std::min(communicator.made_by_all, member.last);
        }
        if (communicator.axes.empty() && communicator.group->ranks.empty())
            if (const auto axes = places_.axes_of(communicator.ranks); !axes.empty())
                name(communicator, axes, true);
        all.insert(communicator.ranks.begin(), communicator.ranks.end());
    }
    for (const auto& [rank, record] : by_rank_) whereabouts_[rank] = find_whereabouts(*record);
    infer_members();
    tell_kinds_apart();
    tell_labels_apart();
    for (auto& communicator : communicators_) {
        communicator.text = cat(communicator.label, " ", few(communicator.ranks),
                                communicator.is_inferred ? " (inferred)" : "");
        all.insert(communicator.likely.begin(), communicator.likely.end());
    }
    ranks_.assign(all.begin(), all.end());
    read_reports();
}

std::vector<int> Evidence::absent() const {
    auto ranks = std::vector<int>{};
    for (int rank = 0; rank < std::min(world_, most_listed); ++rank)
        if (!record(rank)) ranks.push_back(rank);
    return ranks;
}

int Evidence::add(const std::shared_ptr<const RecordedGroup>& group) {
    if (const auto known = numbers_.find(group.get()); known != numbers_.end()) return known->second;
    auto sorted = group->ranks;
    std::ranges::sort(sorted);
    const auto [known, is_new] =
        by_name_.try_emplace({group->name, sorted}, static_cast<int>(communicators_.size()));
    if (is_new) {
        auto& communicator = communicators_.emplace_back();
        communicator.group = group;
        communicator.ranks = group->ranks;
        communicator.is_inferred = sorted.empty();
        for (const auto rank : sorted) {
            auto& member = communicator.members.emplace_back();
            member.rank = rank;
            member.record = record(rank);
        }
    }
    return numbers_[group.get()] = known->second;
}

void Evidence::name(Communicator& communicator, const std::string& axes, bool is_torch) {
    const auto& group = *communicator.group;
    communicator.axes = axes;
    communicator.label = label_of(group, axes, places_, is_torch);
    communicator.kind = !axes.empty()                      ? axes
                        : group.description == "undefined" ? std::string{}
                                                           : group.description;
}

void Evidence::add(const FlightRecord& record) {
    const auto member = [&](const std::shared_ptr<const RecordedGroup>& group) -> Member* {
        auto& communicator = communicators_[static_cast<std::size_t>(add(group))];
        if (communicator.label.empty()) name(communicator, axes_of(*group, places_), record.is_torch);
        const auto found = std::ranges::lower_bound(communicator.members, record.rank, {}, &Member::rank);
        if (found != communicator.members.end() && found->rank == record.rank) return &*found;
        if (!group->ranks.empty()) return nullptr;
        const auto place = std::ranges::lower_bound(communicator.ranks, record.rank);
        communicator.ranks.insert(place, record.rank);
        auto& added = *communicator.members.insert(found, Member{});
        added.rank = record.rank;
        added.record = &record;
        return &added;
    };
    for (const auto& group : record.groups) member(group);
    for (const auto& status : record.statuses)
        if (auto* of = status.group ? member(status.group) : nullptr) {
            of->last = std::max(of->last, status.enqueued);
            of->completed = std::max(of->completed, status.completed);
        }
    for (const auto& entry : record.entries) {
        if (const auto [known, is_new] = agreements_.try_emplace(entry.call.get()); is_new) {
            const auto [number, is_first] = agreement_numbers_.try_emplace(
                agreement_of(*entry.call), static_cast<int>(known_agreements_.size()));
            if (is_first) known_agreements_.push_back(number->first);
            known->second = number->second;
        }
        auto* of = member(entry.group);
        if (!of) continue;
        if (is_late(record, entry)) {
            if (!entry.is_message) of->last = std::min(of->last, entry.number - 1);
            continue;
        }
        if (entry.is_message) {
            of->messages.push_back(&entry);
            continue;
        }
        of->collectives.push_back(&entry);
        of->last = std::max(of->last, entry.number);
        if (is_over(entry)) of->completed = std::max(of->completed, entry.number);
    }
}

const Communicator& Evidence::communicator_of(const RecordedEntry& entry) const {
    return communicators_[static_cast<std::size_t>(number_of(entry))];
}

const FlightRecord* Evidence::record(int rank) const {
    const auto known = by_rank_.find(rank);
    return known == by_rank_.end() ? nullptr : known->second;
}

int Evidence::place(int rank) const {
    return static_cast<int>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
}

const UnreadFile* Evidence::unread(int rank) const {
    const auto known = unread_of_.find(rank);
    return known == unread_of_.end() ? nullptr : known->second;
}

bool Evidence::is_device(const RecordedEntry& entry) {
    // nccl, nccl2, nccl-lazy, ncclx, xccl, hccl, ...; all but oneCCL's ccl are of devices.
    const auto at = entry.call->backend.find("ccl");
    return at != std::string::npos && at > 0;
}

bool Evidence::is_unrecorded(const RecordedEntry& entry) { return entry.call->operation == unrecorded; }

/// Returns true for a call that failed at once because other ranks had timed out. Such a call does not show
/// where the rank was before.
bool Evidence::is_late(const FlightRecord& record, const RecordedEntry& entry) const {
    constexpr auto at_once_ns = 50'000'000;  // a few ticks of the clock of records
    if (entry.state != RecordedState::failed || entry.completed_ns == 0 ||
        entry.completed_ns - entry.created_ns > at_once_ns)
        return false;
    const auto is_anothers = [&](const std::vector<int>& arrived) {
        return !arrived.empty() && std::ranges::find(arrived, record.rank) == arrived.end();
    };
    return missed_.contains(record.rank) || (record.reason == "timeout" && is_anothers(record.arrived)) ||
           (record.reason == "peer_lost" && !missed_.empty() &&
            std::ranges::all_of(record.lost, [&](int rank) { return left_by_consequence(rank); }));
}

bool Evidence::left_by_consequence(int rank) const {
    const auto* of = record(rank);
    return of && (of->reason == "timeout" || of->reason == "peer_lost" || of->reason == "ended later");
}

bool Evidence::is_told_ended(int rank) const {
    const auto* of = record(rank);
    return of && (of->reason == "ended" || (of->reason == "error" && !of->error_at.empty()));
}

bool Evidence::gave_up_somewhere(int rank) const {
    const auto* of = record(rank);
    return of && of->is_log && left_by_consequence(rank) && of->entries.empty() && of->statuses.empty();
}

bool Evidence::has_only_logs() const {
    return std::ranges::all_of(by_rank_, [](const auto& one) { return one.second->is_log; });
}

/// Recorders such as that of PyTorch's Gloo note a failed call, or one that was only issued, as over. Returns
/// the first such call that cannot be complete because a member with a record has not made it; null: none.
const RecordedEntry* Evidence::find_failed(const FlightRecord& record) const {
    for (const auto& entry : record.entries) {
        if (!entry.is_end_assumed || entry.is_message || ends_early(*entry.call)) continue;
        const auto& communicator = communicator_of(entry);
        if (entry.number > communicator.made_by_all || !communicator.likely.empty()) return &entry;
    }
    return nullptr;
}

Whereabouts Evidence::find_whereabouts(const FlightRecord& record) {
    auto result = Whereabouts{};
    const RecordedEntry* failed = nullptr;
    for (const auto& entry : record.entries) {
        if (is_over(entry)) {
            result.last = &entry;
            failed = nullptr;
        } else if (is_late(record, entry)) {
            if (!result.late) result.late = &entry;
        } else if (entry.state == RecordedState::failed) {
            if (!failed) failed = &entry;
        } else if (!result.entry && (record.is_torch || entry.state == RecordedState::started)) {
            result.entry = &entry;
        }
    }
    if (!result.entry) result.entry = failed;
    if (!record.is_torch) return result;
    if (!result.entry) result.entry = find_failed(record);
    // The status is the only source if the record does not have the entries.
    for (const auto& status : record.statuses) {
        if (result.entry || !status.group || status.enqueued <= status.completed) continue;
        auto call = RecordedOperation{};
        call.operation = unrecorded;
        auto& entry = unrecorded_.emplace_back();
        entry.number = status.enqueued;
        entry.group = status.group;
        entry.call = std::make_shared<const RecordedOperation>(std::move(call));
        entry.state = RecordedState::started;
        result.entry = &entry;
    }
    return result;
}

std::string Evidence::text(const RecordedEntry& entry) const {
    return cat(excerpt(words_of(*entry.call)), entry.is_message ? ", message " : ", call ", entry.number,
               " on ", communicator_of(entry).text);
}

}  // namespace rankmesh::detail::explaining
