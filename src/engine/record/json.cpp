// SPDX-License-Identifier: Apache-2.0
#include "engine/record/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <rankmesh/core/detail/json_string.hpp>

namespace rankmesh::detail {
namespace {

std::string list_of(const std::vector<int>& numbers) { return cat("[", joined(numbers, ", "), "]"); }

/// An object that is written key by key.
class Object {
public:
    /// `value` is JSON.
    Object& add(std::string_view key, const std::string& value) {
        append(text_, cat(text_.empty() ? "{" : ", ", json_string(key), ": ", value));
        return *this;
    }
    template <class Number>
        requires std::is_arithmetic_v<Number>
    Object& add(std::string_view key, Number value) {
        return add(key, cat(value));
    }
    Object& add(std::string_view key, bool value) { return add(key, std::string(value ? "true" : "false")); }
    Object& text(std::string_view key, std::string_view value) { return add(key, json_string(value)); }
    std::string str() const { return text_.empty() ? "{}" : text_ + "}"; }

private:
    std::string text_;
};

std::string sizes(bool used, std::size_t count, const Call& call) {
    if (!used) return "[]";
    if (call.unit == 1) return cat("[[", count, "]]");
    return cat("[[", count / call.unit, ", ", call.unit, "]]");
}

/// A call of the ring number `ring`.
std::string entry(const RecordedCall& recorded, const CallRing& ring, std::size_t number,
                  const std::string& engine, std::int64_t to_unix) {
    const auto& call = recorded.call;
    const auto& operation = traits(call.operation);
    const auto is_message = is_point_to_point(call.operation);
    const auto over = recorded.state == CallState::completed || recorded.state == CallState::failed;
    const auto time = [&](bool known, std::int64_t at) {
        return known ? cat(at + to_unix) : std::string("null");
    };
    const auto type = cat("[", json_string(to_string(call.dtype)), "]");
    const auto group = recorded.label ? recorded.label->text() : std::string{};
    auto object = Object{};
    object.add("record_id", recorded.id)
        .add("process_group", cat("[", json_string(ring.key()), ", ", json_string(group), "]"))
        .add("pg_id", number)
        .add("collective_seq_id", is_message ? 0 : recorded.number)
        .add("p2p_seq_id", is_message ? recorded.number : 0)
        .add("op_id", recorded.place + 1)
        .add("is_p2p", is_message)
        .text("profiling_name", cat(engine, ":", to_string(call.operation)))
        .text("operation", to_string(call.operation));
    if (operation.reduces) object.text("reduction", to_string(call.reduction));
    if (operation.argument != Argument::none && !call.is_from_any()) object.add("argument", call.argument);
    if (operation.argument == Argument::distance)
        object.text("edge", call.edge == Edge::open ? "open" : "wrap");
    if (call.operation == Operation::send_recv) object.add("source", call.source);
    if (is_message) object.add("tag", call.tag);
    object.add("input_sizes", sizes(operation.has_in(), call.in_count, call))
        .add("input_dtypes", operation.has_in() ? type : "[]")
        .add("output_sizes", sizes(operation.has_out(), call.out_count, call))
        .add("output_dtypes", operation.has_out() ? type : "[]")
        .add("blocking", recorded.blocking)
        .add("time_created_ns", recorded.created + to_unix)
        .add("time_discovered_started_ns", recorded.blocking
                                               ? time(true, recorded.created)
                                               : time(recorded.state == CallState::started, recorded.changed))
        .add("time_discovered_completed_ns", time(over, recorded.changed))
        .text("state", to_string(recorded.state))
        .add("retired", over)
        .add("timeout_ms", recorded.timeout_ms)
        .add("frames", std::string("[]"));
    return object.str();
}

std::string status_of(const CallRing& ring, const std::vector<RecordedCall>& calls) {
    auto started = std::uint64_t{0};
    auto completed = std::uint64_t{0};
    for (const auto& recorded : calls) {
        if (is_point_to_point(recorded.call.operation)) continue;
        if (recorded.state != CallState::scheduled) started = std::max(started, recorded.number);
        if (recorded.state == CallState::completed) completed = std::max(completed, recorded.number);
    }
    return Object{}
        .add("last_enqueued_collective", ring.collectives())
        .add("last_started_collective", started)
        .add("last_completed_collective", completed)
        .str();
}

}  // namespace

std::string record_json(const RecordContent& content) {
    const auto unix_now = unix_ns();
    const auto to_unix = unix_now - coarse_now();
    auto meshes = std::vector<std::string>{};
    auto config = Object{};
    auto status = Object{};
    auto entries = std::vector<std::pair<std::uint64_t, std::string>>{};
    auto number = std::size_t{0};
    for (const auto& ring : content.rings) {
        ++number;
        const auto calls = ring->calls();
        for (const auto& recorded : calls)
            entries.emplace_back(recorded.id, entry(recorded, *ring, number, content.owner.engine, to_unix));
        const auto label = ring->label();
        if (!label) continue;
        config.add(ring->key(), Object{}
                                    .text("name", ring->key())
                                    .text("desc", label->text())
                                    .text("ranks", list_of(ring->in_record(label->ranks.list())))
                                    .text("axes", label->axes)
                                    .text("mesh", label->name)
                                    .str());
        status.add(ring->key(), status_of(*ring, calls));
        for (const auto& each : ring->labels()) {
            auto mesh = Object{};
            mesh.text("name", each->name).text("mesh", each->mesh);
            if (each->placed) mesh.add("placed", list_of(ring->in_record(*each->placed)));
            if (std::ranges::find(meshes, mesh.str()) == meshes.end()) meshes.push_back(mesh.str());
        }
    }
    if (!content.mesh.empty()) {
        auto mesh = Object{};
        mesh.text("name", "").text("mesh", content.mesh);
        if (!content.placed.empty()) mesh.add("placed", list_of(content.placed));
        meshes.insert(meshes.begin(), mesh.str());  // readers take the first of two with equally many ranks
    }
    std::ranges::sort(entries);
    auto lines = std::vector<std::string>{};
    for (auto& [id, line] : entries) lines.push_back(std::move(line));

    auto object = Object{};
    object.text("version", "2.10")
        .add("rankmesh", 1)
        .add("rank", content.owner.rank)
        .add("world_size", content.owner.size)
        .text("engine", content.owner.engine)
        .text("host", content.owner.host)
        .add("pid", getpid())
        .add("started_ns", content.owner.started_ns)
        .add("written_ns", unix_now)
        .text("reason", content.why.reason);
    if (content.every.count() > 0) object.add("every_s", content.every.count());
    if (!content.why.error.empty()) object.text("error", content.why.error);
    for (const auto& [key, ranks] :
         {std::pair{"arrived", &content.why.arrived}, std::pair{"missing", &content.why.missing},
          std::pair{"lost", &content.why.lost}, std::pair{"outside", &content.why.outside}})
        if (!ranks->empty()) object.add(key, list_of(*ranks));
    object.add("meshes", cat("[", joined(meshes, ", "), "]"))
        .add("pg_config", config.str())
        .add("pg_status", status.str())
        .add("entries", cat("[", lines.empty() ? "" : "\n  ", joined(lines, ",\n  "), "]"));
    return object.str() + "\n";
}

}  // namespace rankmesh::detail
