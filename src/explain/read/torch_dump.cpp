// SPDX-License-Identifier: Apache-2.0
#include "explain/read/torch_dump.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <rankmesh/core/detail/number.hpp>

#include "explain/read/fields.hpp"

namespace rankmesh::of_record {

namespace {

/// Torchcomms' hook describes a communicator by its backend, and writes an empty status.
bool is_of_torchcomms(const Json& dump) {
    const auto* status = find(dump, "pg_status");
    const auto* entries = find(dump, "entries");
    if (!status || !status->is_object() || status->size() > 0 || !entries || !entries->is_array())
        return false;
    if (entries->size() == 0 || !entries->begin()->is_object()) return false;
    const auto& first = *entries->begin();
    const auto* group = find(first, "process_group");
    const auto names =
        group && group->is_array() ? texts_of(first, "process_group") : std::vector<std::string>{};
    return names.size() == 2 && !names[1].empty() &&
           text_or(first, "profiling_name").starts_with(cat(names[1], ":"));
}

}  // namespace

Recorder recorder_of(const Json& dump) {
    const auto version = text_or(dump, "version");
    const auto dot = version.find('.');
    const auto major = detail::number_in<int>(std::string_view(version).substr(0, dot));
    const auto minor = detail::number_in<int>(
        std::string_view(version).substr(dot == std::string::npos ? version.size() : dot + 1));
    if (!major || !minor) wrong("version", "version such as 2.10");
    if (*major < 1 || *major > 2 || (*major == 2 && *minor > 10))
        throw UsageError(
            cat("is of version ", version,
                " of PyTorch's flight recorder, and versions 1.0 to 2.10 are known; a later rankmesh "
                "may read it"));
    return {*major, is_of_torchcomms(dump)};
}

std::string name_of_group(const FlightRecord& record, std::int64_t id, const std::vector<int>& ranks) {
    if (id == 0) return "0";
    if (ranks.empty()) return cat("group ", id, " of rank ", record.rank);
    const auto alike =
        std::ranges::count(record.groups, ranks, [](const auto& group) { return group->ranks; });
    return cat("group ", alike + 1, " of these ranks");
}

bool retires_what_was_issued(const Recorder& recorder, const std::string& backend) {
    constexpr auto recorders =
        std::to_array<std::string_view>({"nccl", "xccl", "hccl", "mccl", "bccl", "cncl"});
    return recorder.is_torchcomms || std::ranges::find(recorders, backend) == recorders.end();
}

bool is_message(const std::string& operation) {
    return operation == "send" || operation == "recv" || operation == "batch_op_issue";
}

void number_calls(const Recorder& recorder, FlightRecord& record) {
    if (!recorder.counts_messages_with_collectives()) return;
    using Kind = std::pair<const RecordedGroup*, bool>;
    auto messages = std::set<std::pair<const RecordedGroup*, std::int64_t>>{};
    for (const auto& entry : record.entries)
        if (entry.is_message) messages.emplace(entry.group.get(), entry.number);
    struct Counter {
        std::set<std::int64_t> numbers;
        std::set<Kind> kinds;
    };
    auto counters = std::map<const RecordedGroup*, Counter>{};
    const auto counter_of = [&](const RecordedEntry& entry) -> Counter& {
        return counters[recorder.is_torchcomms ? nullptr : entry.group.get()];
    };
    for (auto& entry : record.entries) {
        // The end of a batch of messages.
        if (entry.call->operation == "coalesced" && messages.contains({entry.group.get(), entry.number}))
            entry.is_message = true;
        counter_of(entry).numbers.insert(entry.number);
        counter_of(entry).kinds.emplace(entry.group.get(), entry.is_message);
    }
    const auto begin = recorder.is_torchcomms ? 0 : 1;
    auto last = std::map<Kind, std::pair<std::int64_t, std::int64_t>>{};  // the recorder's number, and ours
    for (auto& entry : record.entries) {
        const auto& [numbers, kinds] = counter_of(entry);
        const auto lost = *numbers.rbegin() - begin + 1 - std::ssize(numbers);
        if (kinds.size() == 1) {
            entry.number += 1 - begin;
            continue;
        }
        if (lost > 0)
            throw UsageError(
                cat("counts ",
                    recorder.is_torchcomms ? "the calls of all communicators" : "messages and collectives",
                    " together and no longer has ", lost, " of them, so the others cannot be matched; raise ",
                    recorder.is_torchcomms ? "TORCHCOMM_FR_BUFFER_SIZE" : "TORCH_NCCL_TRACE_BUFFER_SIZE"));
        const auto [known, is_first] =
            last.try_emplace({entry.group.get(), entry.is_message}, entry.number, std::int64_t{1});
        if (!is_first && known->second.first != entry.number)
            known->second = {entry.number, known->second.second + 1};
        entry.number = known->second.second;
    }
}

void end_batches(FlightRecord& record) {
    auto ends = std::map<std::tuple<const RecordedGroup*, bool, std::int64_t>, const RecordedEntry*>{};
    const auto key = [](const RecordedEntry& entry) {
        return std::tuple(entry.group.get(), entry.is_message, entry.number);
    };
    for (const auto& entry : record.entries)
        if (entry.call->operation.ends_with("coalesced")) ends[key(entry)] = &entry;
    for (auto& entry : record.entries)
        if (const auto end = ends.find(key(entry)); end != ends.end()) {
            entry.state = end->second->state;
            entry.completed_ns = end->second->completed_ns;
        }
    std::erase_if(record.entries, [](const RecordedEntry& entry) {
        return entry.is_message && entry.call->operation == "coalesced";
    });
}

}  // namespace rankmesh::of_record
