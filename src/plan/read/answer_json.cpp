// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/plan/answer.hpp>

#include "formats/json.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

namespace of_answer_json {

using formats::Json;

/// Adds the settings of a layout, and the layout as text.
template <class Of>
Json json_of_layout(const Of& layout) {
    auto out = Json{{"layout", to_string(layout)}};
    for (const auto& one : settings_of(layout).all)
        std::visit(
            [&](auto at) {
                using Value = std::remove_cvref_t<decltype(layout.*at)>;
                if constexpr (std::is_enum_v<Value>)
                    out[one.name] = to_string(layout.*at);
                else
                    out[one.name] = layout.*at;
            },
            one.member);
    return out;
}

/// Adds whether an estimate of memory fits.
void add_verdict(std::int64_t estimate, std::int64_t capacity, Json& out) {
    out["fits"] = estimate <= capacity;
    out["verdict"] = to_string(fit(estimate, capacity));
}

Json json_of(const Planned& planned, std::int64_t capacity) {
    const auto& [layout, step, memory] = planned;
    auto out = json_of_layout(layout);
    out["mesh"] = to_string(mesh(layout));
    auto seconds =
        Json{{"seconds", step.seconds}, {"low", step.low}, {"high", step.high}, {"beyond", step.beyond}};
    for (const auto& part : step_parts) seconds[part.name] = step.*part.seconds;
    auto bytes = Json{{"lower", memory.lower}, {"estimate", memory.estimate}, {"stage", memory.stage}};
    for (const auto& [name, part] : memory_parts) bytes[name] = memory.*part;
    out["step"] = std::move(seconds);
    out["memory"] = std::move(bytes);
    add_verdict(memory.estimate, capacity, out);
    return out;
}

Json json_of(const Pass& pass) {
    auto parts = Json::object();
    for (const auto& part : pass.parts)
        parts[std::string(part.name)] = {{"amount", part.amount}, {"low", part.low}, {"high", part.high}};
    return {{"low", pass.low}, {"high", pass.high}, {"parts", parts}};
}

Json json_of(const Served& served, std::int64_t capacity) {
    const auto& [layout, memory, decode, prefill] = served;
    auto out = json_of_layout(layout);
    out["decode"] = json_of(decode);
    out["prefill"] = json_of(prefill);
    out["memory"] = {{"weights", memory.weights},   {"cache", memory.cache},
                     {"state", memory.state},       {"activations", memory.activations},
                     {"overhead", memory.overhead}, {"estimate", memory.estimate},
                     {"tokens", memory.tokens},     {"stage", memory.stage}};
    add_verdict(memory.estimate, capacity, out);
    return out;
}

void add_serving(const ServeAnswer& answer, std::size_t count, std::int64_t capacity, Json& out) {
    if (const auto& found = answer.found) {
        out["searched"] = {{"layouts", found->layouts}};
        out["best"] = Json::array();
        for (std::size_t i = 0; i < std::min(count, found->best.size()); ++i)
            out["best"].push_back(json_of(found->best[i], capacity));
        out["roomiest"] = json_of(found->roomiest, capacity);
    }
    if (answer.explained) out["explained"] = json_of(*answer.explained, capacity);
    out["change"] = answer.change ? json_of(*answer.change, capacity) : Json();
}

}  // namespace of_answer_json

std::string to_json(const Answer& answer) {
    using namespace of_answer_json;
    const auto& job = answer.job;
    auto out = Json{{"model", to_line(job.model)},
                    {"parameters", parameters(job.model).total},
                    {"on", answer.on},
                    {"device", job.machine.device.name},
                    {"devices", job.devices},
                    {"batch", job.batch},
                    {"sequence", job.sequence},
                    {"precision", to_string(job.precision)},
                    {"weights", to_string(job.weights.value_or(job.precision))},
                    {"stack", job.stack.name},
                    {"capacity", answer.capacity},
                    {"assumed", answer.assumed},
                    {"notes", answer.notes}};
    if (const auto& made = answer.calibration)
        out["calibration"] = {{"steps", made->steps},
                              {"factor", made->factor},
                              {"before", made->before},
                              {"after", made->after}};
    if (const auto& found = answer.found) {
        out["searched"] = {
            {"meshes", found->meshes}, {"layouts", found->layouts}, {"evaluated", found->evaluated}};
        out["best"] = Json::array();
        for (std::size_t i = 0; i < std::min(answer.count, found->best.size()); ++i)
            out["best"].push_back(json_of(found->best[i], answer.capacity));
        out["tight"] = answer.tight ? json_of(*answer.tight, answer.capacity) : Json();
        out["relaxed"] = answer.relaxed ? json_of(*answer.relaxed, answer.capacity) : Json();
        out["smallest"] = found->smallest ? json_of(*found->smallest, answer.capacity) : Json();
        out["help"] = Json::array();
        for (const auto& help : answer.help)
            out["help"].push_back({{"what", help.what},
                                   {"gain", help.gain},
                                   {"how", help.how.empty() ? Json() : Json(help.how)}});
    }
    if (const auto& explained = answer.explained) {
        out["explained"] = json_of(explained->planned, answer.capacity);
        out["change"] = explained->change ? json_of(*explained->change, answer.capacity) : Json();
    }
    if (answer.serve) {
        out.erase("stack");
        add_serving(*answer.serve, answer.count, answer.capacity, out);
    }
    if (const auto& said = answer.settings)
        out["settings"] = {{"framework", said->framework},
                           {"mesh", said->mesh},
                           {"text", said->text},
                           {"notes", said->notes}};
    return out.dump();
}

}  // namespace rankmesh::plan
