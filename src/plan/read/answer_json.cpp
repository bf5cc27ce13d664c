// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/plan/answer.hpp>
#include <rankmesh/plan/read.hpp>
#include <rankmesh/plan/text.hpp>

#include <rankmesh/core/text.hpp>

#include "formats/json.hpp"
#include "plan/names.hpp"

namespace rankmesh::plan {

namespace of_answer_json {

using formats::Json;

Json json_of(const Planned& planned, std::int64_t capacity) {
    const auto& [layout, step, memory] = planned;
    return {{"layout", to_string(layout)},
            {"mesh", to_string(mesh(layout))},
            {"tp", layout.tp},
            {"cp", layout.cp},
            {"ep", layout.ep},
            {"pp", layout.pp},
            {"vpp", layout.vpp},
            {"dp", layout.dp},
            {"zero", layout.zero},
            {"micro_batch", layout.micro_batch},
            {"sequence_parallel", layout.sequence_parallel},
            {"recompute", to_string(layout.recompute)},
            {"recompute_layers", layout.recompute_layers},
            {"first_layers", layout.first_layers},
            {"last_layers", layout.last_layers},
            {"etp", layout.etp},
            {"schedule", name_of(layout.schedule)},
            {"overlap_experts", layout.overlap_experts},
            {"dispatch_once", layout.dispatch_once},
            {"gradient_bytes", layout.gradient_bytes},
            {"bf16_moments", layout.bf16_moments},
            {"fp8_activations", layout.fp8_activations},
            {"offload", layout.offload},
            {"step",
             {{"seconds", step.seconds},
              {"low", step.low},
              {"high", step.high},
              {"beyond", step.beyond},
              {"compute", step.compute},
              {"attention", step.attention},
              {"tp", step.tp},
              {"cp", step.cp},
              {"ep", step.ep},
              {"dp", step.dp},
              {"pp", step.pp},
              {"bubble", step.bubble},
              {"head", step.head},
              {"optimizer", step.optimizer}}},
            {"memory",
             {{"parameters", memory.parameters},
              {"gradients", memory.gradients},
              {"optimizer", memory.optimizer},
              {"activations", memory.activations},
              {"buffers", memory.buffers},
              {"overhead", memory.overhead},
              {"lower", memory.lower},
              {"estimate", memory.estimate},
              {"stage", memory.stage}}},
            {"fits", memory.estimate <= capacity},
            {"verdict", to_string(fit(memory.estimate, capacity))}};
}

Json json_of(const Pass& pass) {
    auto parts = Json::object();
    for (const auto& part : pass.parts)
        parts[std::string(part.name)] = {{"amount", part.amount}, {"low", part.low}, {"high", part.high}};
    return {{"low", pass.low}, {"high", pass.high}, {"parts", parts}};
}

Json json_of(const Served& served, std::int64_t capacity) {
    const auto& [layout, memory, decode, prefill] = served;
    return {{"layout", to_string(layout)},
            {"tp", layout.tp},
            {"pp", layout.pp},
            {"dp", layout.dp},
            {"ep", layout.ep},
            {"dcp", layout.dcp},
            {"fp8_cache", layout.fp8_cache},
            {"decode", json_of(decode)},
            {"prefill", json_of(prefill)},
            {"memory",
             {{"weights", memory.weights},
              {"cache", memory.cache},
              {"state", memory.state},
              {"activations", memory.activations},
              {"overhead", memory.overhead},
              {"estimate", memory.estimate},
              {"tokens", memory.tokens},
              {"stage", memory.stage}}},
            {"fits", memory.estimate <= capacity},
            {"verdict", to_string(fit(memory.estimate, capacity))}};
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
