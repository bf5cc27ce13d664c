// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/explain/read.hpp>

#include "explain/read/fields.hpp"
#include "explain/read/torch_dump.hpp"

namespace rankmesh {

using detail::cat;
using formats::Json;

namespace of_record {

RecordedState state_of(const std::string& text) {
    if (text == "completed") return RecordedState::completed;
    if (text == "started") return RecordedState::started;
    if (text == "failed") return RecordedState::failed;
    if (text == "scheduled") return RecordedState::scheduled;
    wrong("state", "state, which are scheduled, started, completed and failed");
}

/// Reads `nccl:send 0->1`: backend, operation, and the peer as a group rank. Hooks write `recv 1<-?` for any
/// rank.
void read_name(const std::string& name, RecordedOperation& call) {
    const auto blank = std::min(name.find(' '), name.size());
    const auto colon = name.substr(0, blank).rfind(':');
    call.backend = colon == std::string::npos ? std::string{} : name.substr(0, colon);
    const auto begin = colon == std::string::npos ? 0 : colon + 1;
    if (call.operation.empty()) call.operation = name.substr(begin, blank - begin);
    if (call.argument) return;
    for (const auto* arrow : {"->", "<-"})
        if (const auto at = name.find(arrow, blank); at != std::string::npos)
            if (const auto peer = detail::number_in<std::int64_t>(std::string_view(name).substr(at + 2)))
                call.argument = peer;
}

RecordedOperation call_of(const Json& entry) {
    auto call = RecordedOperation{};
    call.operation = text_or(entry, "operation");
    call.reduction = text_or(entry, "reduction");
    call.argument = find_whole(entry, "argument");
    call.source = find_whole(entry, "source");
    call.tag = whole_or(entry, "tag", 0);
    call.has_open_edges = text_or(entry, "edge") == "open";
    const auto name = text_or(entry, "profiling_name");
    read_name(name, call);
    if (call.operation.empty()) throw UsageError("has an entry without a 'profiling_name'");
    call.has_unknown_peer =
        is_message(call.operation) && !call.argument && !entry.contains("operation") && !name.ends_with("?");
    call.input_sizes = sizes_of(entry, "input_sizes");
    call.output_sizes = sizes_of(entry, "output_sizes");
    call.input_dtypes = texts_of(entry, "input_dtypes");
    call.output_dtypes = texts_of(entry, "output_dtypes");
    return call;
}

/// Returns true for PyTorch's group of all ranks.
bool is_world(const RecordedGroup& group) { return group.name == "0" && group.description == "default_pg"; }

}  // namespace of_record

/// Data that is kept once and shared by all records.
struct RecordReader::Known {
    template <class Value>
    using Shared = std::shared_ptr<const Value>;
    template <class Value>
    struct Less {
        bool operator()(const Shared<Value>& a, const Shared<Value>& b) const { return *a < *b; }
    };
    template <class Value>
    using All = std::set<Shared<Value>, Less<Value>>;

    All<RecordedOperation> operations;
    All<RecordedGroup> groups;

    template <class Value>
    static Shared<Value> one(All<Value>& known, Value value) {
        return *known.insert(std::make_shared<const Value>(std::move(value))).first;
    }
};

/// One record while it is read.
class RecordReader::Reading {
public:
    Reading(Known& known, const Json& json, const std::string& file) : known_(known), json_(json) {
        record_.file = file;
        record_.is_torch = !json.contains("rankmesh");
        recorder_ = of_record::recorder_of(json);
    }

    FlightRecord read() {
        read_head();
        if (const auto* config = of_record::find(json_, "pg_config"))
            for (const auto& [name, value] : of_record::object(*config, "pg_config")) read_group(name, value);
        if (const auto* entries = of_record::find(json_, "entries"))
            for (const auto& entry : of_record::list(*entries, "entries")) read_entry(entry);
        std::ranges::stable_sort(record_.entries, {}, &RecordedEntry::id);
        if (record_.is_torch) of_record::number_calls(recorder_, record_);
        if (record_.is_torch) of_record::end_batches(record_);
        if (const auto* statuses = of_record::find(json_, "pg_status"))
            for (const auto& [name, value] : of_record::object(*statuses, "pg_status"))
                read_status(name, value);
        return std::move(record_);
    }

private:
    using Group = std::shared_ptr<const RecordedGroup>;

    void read_head();
    void read_group(const std::string& name, const Json& value);
    void read_entry(const Json& value);
    void read_status(const std::string& name, const Json& value);
    void add_group(RecordedGroup group, const std::string& as);
    Group group_of(const Json& entry);
    /// Returns true if the status of the entry's group says that the call is over.
    bool is_over_by_status(const Json& entry, std::int64_t number) const;

    Known& known_;
    const Json& json_;
    FlightRecord record_;
    of_record::Recorder recorder_;
    std::map<std::string, Group> groups_;  // by name; of version 1 also by `pg_id`
    std::map<std::string, Group> group_of_id_;
    std::map<std::string, std::int64_t> newest_;  // by `pg_id`, counted like the status
};

RecordReader::RecordReader() : known_(std::make_unique<Known>()) {}
RecordReader::~RecordReader() = default;

FlightRecord RecordReader::read(std::string_view bytes, const std::string& file) {
    try {
        const auto json = of_record::parsed(bytes);
        if (!json.is_object() || !json.contains("version") ||
            !(json.contains("entries") || json.contains("pg_config")))
            throw UsageError("is no flight record: it has no 'version' with 'entries' or 'pg_config'");
        return Reading(*known_, json, file).read();
    } catch (const UsageError& error) {
        throw UsageError(cat(detail::excerpt(file), " ", error.what()));
    }
}

void RecordReader::Reading::read_head() {
    using namespace of_record;
    if (const auto rank = find_whole(json_, "rank"))
        record_.rank = rank_of(*rank, "rank");
    else if (const auto named = rank_in_name(record_.file.substr(record_.file.rfind('/') + 1)))
        record_.rank = *named;
    else
        throw UsageError("says no rank, and its name has no number; dumps are named as in nccl_trace_rank_3");
    if (const auto size = find_whole(json_, "world_size")) {
        if (*size < 1 || *size > most_world) wrong("world_size", cat("number of 1 to ", most_world));
        record_.world_size = static_cast<int>(*size);
    }
    record_.started_ns = find_whole(json_, "started_ns");
    record_.written_ns = find_whole(json_, "written_ns");
    record_.pid = whole_or(json_, "pid", 0);
    record_.every_s = whole_or(json_, "every_s", 0);
    record_.engine = text_or(json_, "engine");
    record_.host = text_or(json_, "host");
    record_.reason = text_or(json_, "reason");
    record_.error = text_or(json_, "error");
    record_.arrived = ranks_or_none(json_, "arrived");
    record_.missing = ranks_or_none(json_, "missing");
    record_.lost = ranks_or_none(json_, "lost");
    record_.differ = ranks_or_none(json_, "outside");
    if (const auto* meshes = find(json_, "meshes"))
        for (const auto& mesh : list(*meshes, "meshes")) {
            object(mesh, "meshes");
            record_.meshes.push_back(
                {text_or(mesh, "name"), text_or(mesh, "mesh"), ranks_or_none(mesh, "placed")});
        }
}

void RecordReader::Reading::add_group(RecordedGroup group, const std::string& as) {
    auto kept = Known::one(known_.groups, std::move(group));
    groups_[as] = kept;
    record_.groups.push_back(std::move(kept));
}

void RecordReader::Reading::read_group(const std::string& name, const Json& value) {
    using namespace of_record;
    const auto* ranks =
        value.is_object() ? find(value, "ranks") : &value;  // version 1.4 lists only the ranks
    auto members = ranks ? ranks_of(*ranks, "ranks") : std::vector<int>{};
    if (name.empty()) {  // PyTorch's Gloo records a group without its name
        for (const auto rank : members)
            record_.least_world_size = std::max(record_.least_world_size, rank + 1);
        return;
    }
    // PyTorch numbers the ranks of a group in ascending order.
    if (record_.is_torch) std::ranges::sort(members);
    const auto id = value.is_object() ? std::nullopt : detail::number_in<std::int64_t>(name);
    auto group = RecordedGroup{.name = id ? name_of_group(record_, *id, members) : name,
                               .description = value.is_object() ? text_or(value, "desc") : "",
                               .axes = value.is_object() ? text_or(value, "axes") : "",
                               .ranks = std::move(members)};
    if (id && group.name == "0") group.description = "default_pg";
    if (record_.is_torch && is_world(group) && !group.ranks.empty())
        record_.world_size = group.ranks.back() + 1;
    add_group(std::move(group), name);
}

RecordReader::Reading::Group RecordReader::Reading::group_of(const Json& entry) {
    using namespace of_record;
    auto names = std::vector<std::string>{};
    const auto* group = find(entry, "process_group");
    const auto id = find_whole(entry, "pg_id");
    if (group && group->is_string())
        names = {group->text()};
    else if (group)
        names = texts_of(entry, "process_group");
    else if (recorder_.major == 1 && id)
        names = {std::to_string(*id)};
    if (names.empty()) throw UsageError("has an entry without a 'process_group'");
    auto known = groups_.find(names.front());
    if (known == groups_.end()) {
        auto added = RecordedGroup{.name = names.front(),
                                   .description = names.size() > 1 ? names[1] : "",
                                   .is_of_process = !group && *id != 0};
        if (!group) added.name = name_of_group(record_, *id, {});
        if (!group && *id == 0) added.description = "default_pg";
        add_group(std::move(added), names.front());
        known = groups_.find(names.front());
    }
    if (id) group_of_id_[std::to_string(*id)] = known->second;
    return known->second;
}

bool RecordReader::Reading::is_over_by_status(const Json& entry, std::int64_t number) const {
    using namespace of_record;
    const auto* statuses = find(json_, "pg_status");
    const auto id = find_whole(entry, "pg_id");
    const auto* status =
        statuses && id && statuses->is_object() ? find(*statuses, std::to_string(*id)) : nullptr;
    return status && status->is_object() && whole_or(*status, "last_completed_collective", -1) >= number;
}

void RecordReader::Reading::read_entry(const Json& value) {
    using namespace of_record;
    object(value, "entries");
    auto& entry = record_.entries.emplace_back();
    entry.state = state_of(text_or(value, "state", "scheduled"));
    entry.group = group_of(value);
    entry.call = Known::one(known_.operations, call_of(value));
    const auto& call = *entry.call;
    entry.id = whole_or(value, "record_id", std::ssize(record_.entries) - 1);
    entry.is_message = flag_or(value, "is_p2p", false) || (record_.is_torch && is_message(call.operation));
    const auto counts_together = record_.is_torch && recorder_.counts_messages_with_collectives();
    entry.number = whole_or(value,
                            recorder_.major == 1                   ? "seq_id"
                            : entry.is_message && !counts_together ? "p2p_seq_id"
                                                                   : "collective_seq_id",
                            0);
    entry.blocking = flag_or(value, "blocking", true);
    entry.created_ns = whole_or(value, "time_created_ns", 0);
    entry.completed_ns = whole_or(value, "time_discovered_completed_ns", 0);
    entry.timeout_ms = whole_or(value, "timeout_ms", 0);
    if (const auto* duration = find(value, "duration_ms"); duration && duration->is_number_float())
        entry.duration_ns = static_cast<std::int64_t>(std::clamp(duration->get<double>(), 0.0, 1e12) * 1e6);
    if (const auto id = find_whole(value, "pg_id")) {
        auto& newest = newest_[std::to_string(*id)];
        newest = std::max({newest, entry.number, whole_or(value, "op_id", 0)});
    }
    if (record_.is_torch && entry.state != RecordedState::completed && flag_or(value, "retired", false) &&
        (retires_what_was_issued(recorder_, call.backend) || is_over_by_status(value, entry.number))) {
        entry.state = RecordedState::completed;
        entry.is_end_assumed = true;
    }
}

void RecordReader::Reading::read_status(const std::string& name, const Json& value) {
    using namespace of_record;
    object(value, "pg_status");
    auto status = RecordedStatus{.group = nullptr,
                                 .enqueued = whole_or(value, "last_enqueued_collective", 0),
                                 .completed = whole_or(value, "last_completed_collective", 0)};
    // PyTorch's status can also count messages; use it only if entries do not reach as far.
    if (record_.is_torch && newest_[name] >= status.enqueued) return;
    const auto& by = record_.is_torch ? group_of_id_ : groups_;
    if (const auto known = by.find(name); known != by.end())
        status.group = known->second;
    else if (const auto world =
                 std::ranges::find_if(record_.groups, [](const auto& group) { return is_world(*group); });
             record_.is_torch && name == "0" && world != record_.groups.end())
        status.group = *world;
    record_.statuses.push_back(std::move(status));
}

}  // namespace rankmesh
