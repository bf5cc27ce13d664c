// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/read.hpp>

#include "explain/read/file_name.hpp"
#include "explain/read/pickle.hpp"
#include "formats/json.hpp"
#include "formats/text.hpp"

namespace rankmesh {

using detail::cat;
using formats::Json;

namespace of_record {

constexpr auto most_levels = 64;
constexpr auto most_keys = 10'000;    // of one object
constexpr auto most_world = 1 << 24;  // ranks
constexpr auto most_size = std::int64_t{1} << 40;

/// Throws UsageError if JSON would use too much stack or time for its length.
void check_nesting(std::string_view text) {
    struct Open {
        bool is_object;
        int keys = 1;
    };
    auto open = std::vector<Open>{};
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = text[i];
        if (c == '"') {
            for (++i; i < text.size() && text[i] != '"'; ++i)
                if (text[i] == '\\') ++i;
        } else if (c == '/') {
            throw UsageError(cat("is no JSON from byte ", i + 1, " on"));
        } else if (c == '{' || c == '[') {
            open.push_back({c == '{'});
            if (open.size() > most_levels)
                throw UsageError(cat("nests more than ", most_levels, " levels deep"));
        } else if ((c == '}' || c == ']') && !open.empty()) {
            open.pop_back();
        } else if (c == ',' && !open.empty() && open.back().is_object && ++open.back().keys > most_keys) {
            throw UsageError(cat("has an object of more than ", most_keys, " keys"));
        }
    }
}

Json parsed(std::string_view bytes) {
    if (!bytes.empty() && bytes.front() == '\x80') return detail::explaining::read_pickle(bytes);
    if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos) throw UsageError("is empty");
    check_nesting(bytes);
    try {
        return Json::parse(bytes);
    } catch (const Json::SyntaxError& error) {
        if (error.byte > bytes.size()) throw UsageError(cat("is cut off after ", bytes.size(), " bytes"));
        throw UsageError(cat("is no JSON from byte ", error.byte, " on"));
    }
}

/// Returns nullptr if the key is missing or its value is null.
const Json* find(const Json& object, std::string_view key) {
    if (!object.contains(key)) return nullptr;
    const auto& value = object[key];
    return value.is_null() ? nullptr : &value;
}

[[noreturn]] void wrong(std::string_view key, std::string_view expected) {
    throw UsageError(cat("has a '", key, "' that is no ", expected));
}

std::int64_t whole(const Json& value, std::string_view key) {
    if (const auto* number = std::get_if<std::int64_t>(&value.value())) return *number;
    if (value.is_string())  // PyTorch's JSON writes some numbers as texts
        if (const auto number = detail::number_in<std::int64_t>(value.text())) return *number;
    wrong(key, "whole number");
}
std::optional<std::int64_t> find_whole(const Json& object, std::string_view key) {
    const auto* value = find(object, key);
    return value ? std::optional(whole(*value, key)) : std::nullopt;
}
std::int64_t whole_or(const Json& object, std::string_view key, std::int64_t otherwise) {
    return find_whole(object, key).value_or(otherwise);
}

int rank_of(std::int64_t number, std::string_view key) {
    if (number < 0 || number >= most_world) wrong(key, cat("rank of 0 to ", most_world - 1));
    return static_cast<int>(number);
}

std::string text_or(const Json& object, std::string_view key, std::string_view otherwise = {}) {
    const auto* value = find(object, key);
    if (!value) return std::string(otherwise);
    if (!value->is_string()) wrong(key, "text");
    return value->text();
}

bool flag_or(const Json& object, std::string_view key, bool otherwise) {
    const auto* value = find(object, key);
    if (!value) return otherwise;
    if (!value->is_boolean()) wrong(key, "boolean");
    return value->get<bool>();
}

const Json::Array& list(const Json& value, std::string_view key) {
    const auto* array = std::get_if<Json::Array>(&value.value());
    if (!array) wrong(key, "list");
    return *array;
}

const Json::Object& object(const Json& value, std::string_view key) {
    if (!value.is_object()) wrong(key, "object");
    return value.items();
}

/// Reads `[0, 1]`, also as a text.
std::vector<int> ranks_of(const Json& value, std::string_view key) {
    auto ranks = std::vector<int>{};
    if (value.is_string()) {
        const auto& text = value.text();
        const auto* at = text.data();
        const auto* const end = at + text.size();
        const auto skip = [&] {
            while (at != end && (*at == ' ' || *at == ',' || *at == '[' || *at == ']')) ++at;
        };
        for (skip(); at != end; skip()) {
            auto number = std::int64_t{0};
            const auto [next, error] = std::from_chars(at, end, number);
            if (error != std::errc{}) wrong(key, "list of ranks");
            ranks.push_back(rank_of(number, key));
            at = next;
        }
    } else {
        for (const auto& rank : list(value, key)) ranks.push_back(rank_of(whole(rank, key), key));
    }
    auto sorted = ranks;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) wrong(key, "list of different ranks");
    return ranks;
}
std::vector<int> ranks_or_none(const Json& record, std::string_view key) {
    const auto* value = find(record, key);
    return value ? ranks_of(*value, key) : std::vector<int>{};
}

std::vector<std::vector<std::int64_t>> sizes_of(const Json& entry, std::string_view key) {
    auto sizes = std::vector<std::vector<std::int64_t>>{};
    const auto* value = find(entry, key);
    if (!value) return sizes;
    for (const auto& one : list(*value, key)) {
        auto& dimensions = sizes.emplace_back();
        for (const auto& dimension : list(one, key)) {
            const auto size = whole(dimension, key);
            if (size < 0 || size > most_size) wrong(key, "list of sizes");
            dimensions.push_back(size);
        }
    }
    return sizes;
}

std::vector<std::string> texts_of(const Json& entry, std::string_view key) {
    auto texts = std::vector<std::string>{};
    if (const auto* value = find(entry, key))
        for (const auto& one : list(*value, key)) {
            if (!one.is_string()) wrong(key, "list of texts");
            texts.push_back(one.text());
        }
    return texts;
}

RecordedState state_of(const std::string& text) {
    if (text == "completed") return RecordedState::completed;
    if (text == "started") return RecordedState::started;
    if (text == "failed") return RecordedState::failed;
    if (text == "scheduled") return RecordedState::scheduled;
    wrong("state", "state, which are scheduled, started, completed and failed");
}

/// Reads `nccl:send 0->1`: backend, operation, and the peer as a group rank.
void read_name(const std::string& name, RecordedOperation& call) {
    const auto colon = name.find(':');
    call.backend = colon == std::string::npos ? std::string{} : name.substr(0, colon);
    const auto rest = colon == std::string::npos ? name : name.substr(colon + 1);
    const auto blank = rest.find(' ');
    if (call.operation.empty()) call.operation = rest.substr(0, blank);
    if (blank == std::string::npos || call.argument) return;
    for (const auto* arrow : {"->", "<-"})
        if (const auto at = rest.find(arrow, blank); at != std::string::npos)
            if (const auto peer = detail::number_in<std::int64_t>(std::string_view(rest).substr(at + 2)))
                call.argument = peer;
}

/// Returns true for PyTorch's group of all ranks.
bool is_world(const RecordedGroup& group) { return group.name == "0" && group.description == "default_pg"; }

/// PyTorch adds one more entry at the end of a batch. Only this entry has the progress of the batch, and it
/// contains nothing else about the messages.
void end_batches(std::vector<RecordedEntry>& entries) {
    auto ends = std::map<std::tuple<const RecordedGroup*, bool, std::int64_t>, const RecordedEntry*>{};
    const auto key = [](const RecordedEntry& entry) {
        return std::tuple(entry.group.get(), entry.is_message, entry.number);
    };
    for (const auto& entry : entries)
        if (entry.call->operation.ends_with("coalesced")) ends[key(entry)] = &entry;
    for (auto& entry : entries)
        if (const auto end = ends.find(key(entry)); end != ends.end()) {
            entry.state = end->second->state;
            entry.completed_ns = end->second->completed_ns;
        }
    std::erase_if(entries, [](const RecordedEntry& entry) {
        return entry.is_message && entry.call->operation == "coalesced";
    });
}

/// Returns a text that is equal for equal operations.
std::string key_of(const RecordedOperation& call) {
    auto key = call.backend + '\n' + call.operation + '\n' + call.reduction + '\n';
    const auto number = [&](const std::optional<std::int64_t>& value) {
        key += (value ? std::to_string(*value) : "-") + '\n';
    };
    number(call.argument);
    number(call.source);
    number(call.tag);
    for (const auto* sizes : {&call.input_sizes, &call.output_sizes}) {
        for (const auto& one : *sizes) {
            for (const auto size : one) key += std::to_string(size) + ' ';
            key += ',';
        }
        key += '\n';
    }
    for (const auto* types : {&call.input_dtypes, &call.output_dtypes}) {
        for (const auto& type : *types) key += type + ',';
        key += '\n';
    }
    return key;
}

}  // namespace of_record

/// Data that is read once and shared by all records.
struct RecordReader::Known {
    template <class Value>
    using ByText = std::map<std::string, std::shared_ptr<const Value>>;

    ByText<RecordedOperation> operations;
    ByText<RecordedGroup> groups_known;

    FlightRecord read(std::string_view bytes, const std::string& file);

    template <class Value>
    static std::shared_ptr<const Value> one(ByText<Value>& known, const std::string& key, Value value) {
        auto& place = known[key];
        if (!place || !(*place == value)) place = std::make_shared<const Value>(std::move(value));
        return place;
    }
};

RecordReader::RecordReader() : known_(std::make_unique<Known>()) {}
RecordReader::~RecordReader() = default;

FlightRecord RecordReader::read(std::string_view bytes, const std::string& file) {
    try {
        return known_->read(bytes, file);
    } catch (const UsageError& error) {
        throw UsageError(cat(detail::excerpt(file), " ", error.what()));
    }
}

FlightRecord RecordReader::Known::read(std::string_view bytes, const std::string& file) {
    using namespace of_record;
    const auto json = parsed(bytes);
    if (!json.is_object() || !json.contains("version") ||
        !(json.contains("entries") || json.contains("pg_config")))
        throw UsageError("is no flight record: it has no 'version' with 'entries' or 'pg_config'");
    auto record = FlightRecord{};
    record.file = file;
    record.is_torch = !json.contains("rankmesh");
    if (const auto rank = find_whole(json, "rank"))
        record.rank = rank_of(*rank, "rank");
    else if (const auto named = detail::explaining::rank_in_name(file))
        record.rank = *named;
    else
        throw UsageError("says no rank, and its name has no number; dumps are named as in nccl_trace_rank_3");
    if (const auto size = find_whole(json, "world_size")) {
        if (*size < 1 || *size > most_world) wrong("world_size", cat("number of 1 to ", most_world));
        record.world_size = static_cast<int>(*size);
    }
    record.started_ns = find_whole(json, "started_ns");
    record.written_ns = find_whole(json, "written_ns");
    record.engine = text_or(json, "engine");
    record.host = text_or(json, "host");
    record.reason = text_or(json, "reason");
    record.error = text_or(json, "error");
    record.arrived = ranks_or_none(json, "arrived");
    record.missing = ranks_or_none(json, "missing");
    record.lost = ranks_or_none(json, "lost");
    record.differ = ranks_or_none(json, "outside");
    if (const auto* meshes = find(json, "meshes"))
        for (const auto& mesh : list(*meshes, "meshes")) {
            object(mesh, "meshes");
            record.meshes.push_back(
                {text_or(mesh, "name"), text_or(mesh, "mesh"), ranks_or_none(mesh, "placed")});
        }

    auto groups = std::map<std::string, std::shared_ptr<const RecordedGroup>>{};
    const auto add_group = [&](RecordedGroup group, const std::string& ranks) {
        const auto key = cat(group.name, "\n", group.description, "\n", group.axes, "\n", ranks);
        auto kept = one(groups_known, key, std::move(group));
        groups[kept->name] = kept;
        record.groups.push_back(std::move(kept));
    };
    if (const auto* config = find(json, "pg_config"))
        for (const auto& [name, value] : object(*config, "pg_config")) {
            object(value, "pg_config");
            const auto* ranks = find(value, "ranks");
            if (name.empty()) {  // PyTorch's Gloo records a group without its name
                for (const auto rank : ranks ? ranks_of(*ranks, "ranks") : std::vector<int>{})
                    record.least_world_size = std::max(record.least_world_size, rank + 1);
                continue;
            }
            auto group = RecordedGroup{.name = name,
                                       .description = text_or(value, "desc"),
                                       .axes = text_or(value, "axes"),
                                       .ranks = ranks ? ranks_of(*ranks, "ranks") : std::vector<int>{}};
            // PyTorch numbers the ranks of a group in ascending order.
            if (record.is_torch) std::ranges::sort(group.ranks);
            if (record.is_torch && is_world(group) && !group.ranks.empty())
                record.world_size = group.ranks.back() + 1;
            add_group(std::move(group), ranks && ranks->is_string() ? ranks->text()
                                        : ranks                     ? ranks->dump()
                                                                    : "");
        }

    auto group_of_id = std::map<std::string, std::shared_ptr<const RecordedGroup>>{};
    auto newest = std::map<std::string, std::int64_t>{};  // by group, counted like PyTorch's status
    if (const auto* entries = find(json, "entries"))
        for (const auto& value : list(*entries, "entries")) {
            object(value, "entries");
            auto& entry = record.entries.emplace_back();
            entry.id = whole_or(value, "record_id", 0);
            entry.is_message = flag_or(value, "is_p2p", false);
            entry.number = whole_or(value, entry.is_message ? "p2p_seq_id" : "collective_seq_id", 0);
            entry.blocking = flag_or(value, "blocking", true);
            entry.created_ns = whole_or(value, "time_created_ns", 0);
            entry.completed_ns = whole_or(value, "time_discovered_completed_ns", 0);
            entry.timeout_ms = whole_or(value, "timeout_ms", 0);
            entry.state = state_of(text_or(value, "state", "scheduled"));
            // PyTorch's Gloo has no other word for a call that is over.
            auto names = std::vector<std::string>{};
            if (value.contains("process_group")) names = texts_of(value, "process_group");
            if (names.empty()) throw UsageError("has an entry without a 'process_group'");
            auto known = groups.find(names.front());
            if (known == groups.end()) {
                add_group({names.front(), names.size() > 1 ? names[1] : "", "", {}}, "");
                known = groups.find(names.front());
            }
            entry.group = known->second;
            const auto is_gloo = text_or(value, "profiling_name").starts_with("gloo:");
            if (const auto id = find_whole(value, "pg_id")) {
                const auto key = std::to_string(*id);
                group_of_id[key] = entry.group;
                newest[key] = std::max(newest[key], is_gloo ? whole_or(value, "op_id", 0) : entry.number);
            }

            auto call = RecordedOperation{};
            call.operation = text_or(value, "operation");
            call.reduction = text_or(value, "reduction");
            call.argument = find_whole(value, "argument");
            call.source = find_whole(value, "source");
            call.tag = whole_or(value, "tag", 0);
            call.has_open_edges = text_or(value, "edge") == "open";
            read_name(text_or(value, "profiling_name"), call);
            if (call.operation.empty()) throw UsageError("has an entry without a 'profiling_name'");
            call.input_sizes = sizes_of(value, "input_sizes");
            call.output_sizes = sizes_of(value, "output_sizes");
            call.input_dtypes = texts_of(value, "input_dtypes");
            call.output_dtypes = texts_of(value, "output_dtypes");
            const auto key = key_of(call);
            entry.call = one(operations, key, std::move(call));
            // PyTorch's Gloo has no other word for a call that is over.
            if (record.is_torch && is_gloo && flag_or(value, "retired", false))
                entry.state = RecordedState::completed;
        }
    std::ranges::stable_sort(record.entries, {}, &RecordedEntry::id);
    if (record.is_torch) end_batches(record.entries);

    if (const auto* statuses = find(json, "pg_status"))
        for (const auto& [name, value] : object(*statuses, "pg_status")) {
            object(value, "pg_status");
            auto status = RecordedStatus{.group = nullptr,
                                         .enqueued = whole_or(value, "last_enqueued_collective", 0),
                                         .completed = whole_or(value, "last_completed_collective", 0)};
            // PyTorch's status also counts messages; use it only if entries do not reach as far.
            if (record.is_torch && newest[name] >= status.enqueued) continue;
            const auto& by = record.is_torch ? group_of_id : groups;
            if (const auto known = by.find(name); known != by.end())
                status.group = known->second;
            else if (const auto world = std::ranges::find_if(
                         record.groups, [](const auto& group) { return is_world(*group); });
                     record.is_torch && name == "0" && world != record.groups.end())
                status.group = *world;
            record.statuses.push_back(std::move(status));
        }
    return record;
}

}  // namespace rankmesh
