// SPDX-License-Identifier: Apache-2.0
// Writes an answer as JSON, and a layout as the settings of a framework: the mesh through convert, and
// settings that do not concern ranks.

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/plan/answer.hpp>

#include "formats/json.hpp"
#include "plan/csv.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

using formats::Json;

namespace of_output {

/// Returns the mesh placed on the cluster, followed by the mesh of the experts.
std::string mesh_text(const Layout& layout, const Cluster& cluster, std::vector<std::string>& notes) {
    const auto plain = mesh(layout);
    auto text = to_string(plain);
    const auto has_all =
        std::ranges::all_of(cluster.levels(), [](const auto& level) { return level.bandwidth.has_value(); });
    if (has_all && cluster.size() >= plain.size() && plain.size() > 1) {
        const auto placed = place(cluster, plain);
        if (placed.after >= placed.before) {
            // The given order is the best.
        } else if (placed.order.table().empty() && layout.ep == 1) {
            text = to_string(placed.order);
        } else {
            notes.push_back(cat("rankmesh place finds an order of the ranks that is faster by ",
                                static_cast<int>(100 * (placed.before / placed.after - 1)),
                                " % in communication, which these settings do not say"));
        }
    } else {
        notes.emplace_back(
            "the cluster does not say the bandwidth of each level, so ranks keep the order of the mesh");
    }
    if (layout.ep == 1) return text;
    return cat(text, "; ", layout.pp > 1 ? cat("pp=", layout.pp, " ") : "",
               "edp=", layout.devices() / layout.pp / layout.ep / layout.etp, " ep=", layout.ep,
               layout.etp > 1 ? cat(" etp=", layout.etp) : "");
}

/// Returns Megatron's flags for the layers of the first and last stage.
std::string megatron_ends(const Layout& layout, int layers) {
    const auto chunk = chunk_layers(layout, layers);
    const auto first = layout.vpp * chunk - stage_layers(layout, layers, 0);
    const auto last = layout.vpp * chunk - stage_layers(layout, layers, layout.pp - 1);
    if (layout.vpp == 1) {
        auto text = std::string{};
        if (layout.first_layers > 0) text = cat(" --decoder-first-pipeline-num-layers ", layout.first_layers);
        if (layout.last_layers > 0) text += cat(" --decoder-last-pipeline-num-layers ", layout.last_layers);
        return text;
    }
    auto text = cat(" --num-virtual-stages-per-pipeline-rank ", layout.vpp);
    if (first <= 1 && last <= 1) {
        if (first == 1) text += " --account-for-embedding-in-pipeline-split";
        if (last == 1) text += " --account-for-loss-in-pipeline-split";
        return text;
    }
    // Stages are separated by |, t is a layer. This flag implies the number of chunks.
    const auto times = [](int count) { return count > 0 ? cat("t*", count) : ""; };
    return cat(" --pipeline-model-parallel-layout 'E", times(chunk - first), "|(t*", chunk, "|)*",
               layout.pp * layout.vpp - 2, times(chunk - last), "L'");
}

std::string megatron(const Job& job, const Layout& layout, std::string text) {
    const auto add = [&](const auto&... parts) { text += cat(" ", parts...); };
    text += megatron_ends(layout, job.model.layers());
    if (layout.sequence_parallel) add("--sequence-parallel");
    if (layout.zero > 0) add("--use-distributed-optimizer");
    if (layout.recompute == Recompute::selective) add("--recompute-granularity selective");
    if (layout.recompute == Recompute::full && layout.recompute_layers == 0)
        add("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
    if (layout.recompute_layers > 0)
        add("--recompute-granularity full --recompute-method block --recompute-num-layers ",
            layout.recompute_layers / layout.vpp);
    if (layout.recompute == Recompute::elementwise)
        add("--recompute-granularity selective --recompute-modules layernorm",
            job.model.most(&Layer::kv_rank) > 0 ? " mla_up_proj" : "",
            job.model.experts() > 0 ? " moe_act" : "");
    if (layout.overlap_experts) add("--overlap-moe-expert-parallel-comm");
    if (layout.dispatch_once) add("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep");
    if (layout.gradient_bytes == 2) add("--grad-reduce-in-bf16");
    if (layout.bf16_moments)
        add("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
    if (layout.offload > 0)
        add("--fine-grained-activation-offloading --offload-modules attn_norm qkv_linear core_attn attn_proj "
            "mlp_norm",
            job.model.experts() > 0 ? " expert_fc1 moe_act" : "", " --activation-offload-fraction ",
            layout.offload == 100 ? "1" : cat("0.", layout.offload < 10 ? "0" : "", layout.offload));
    add("--micro-batch-size ", layout.micro_batch, " --global-batch-size ", job.batch, " --seq-length ",
        job.sequence);
    if (job.precision == Precision::fp8)
        add("--fp8-format hybrid");
    else
        add("--bf16");
    return text;
}

std::string torchtitan(const Job& job, const Layout& layout, std::string text) {
    const auto add = [&](const auto&... parts) { text += cat("\n", parts...); };
    const auto layers = (job.model.layers() + layout.pp * layout.vpp - 1) / (layout.pp * layout.vpp);
    if (layout.pp > 1) {
        add("pipeline_parallel_schedule = \"", layout.vpp > 1 ? "Interleaved1F1B" : "1F1B", "\"");
        add("pipeline_parallel_microbatch_size = ", layout.micro_batch);
        add("pipeline_parallel_layers_per_stage = ", layers);
        add("pipeline_parallel_first_stage_less_layers = 0");
        add("pipeline_parallel_last_stage_less_layers = 0");
    }
    add("fsdp_reshard_after_forward = \"", layout.zero == 3 ? "always" : "never", "\"");
    add("\n[training]\nlocal_batch_size = ", layout.pp > 1 ? job.batch / layout.dp : layout.micro_batch);
    add("global_batch_size = ", job.batch, "\nseq_len = ", job.sequence);
    add("\n[activation_checkpoint]\nmode = \"",
        layout.recompute == Recompute::operations ? "selective" : to_string(layout.recompute), "\"");
    if (layout.recompute == Recompute::operations) add("selective_ac_option = \"op\"");
    return text;
}

std::string olmo(const Job& job, const Layout& layout, const std::string& values) {
    auto all = Json::parse(values);
    if (layout.pp > 1) {
        auto points = Json::array();
        for (int stage = 0, layer = 0; stage + 1 < layout.pp; ++stage)
            points.push_back(layer += stage_layers(layout, job.model.layers(), stage));
        all["pp_config"]["schedule"] = "1F1B";
        all["pp_config"]["split_points"] = points;
    }
    all["rank_microbatch_size"] = layout.micro_batch * job.sequence;
    all["max_sequence_length"] = job.sequence;
    if (layout.recompute == Recompute::full) all["ac_config"] = Json{{"mode", "full"}};
    return Json{{"train_module", all}, {"data_loader", {{"global_batch_size", job.batch * job.sequence}}}}
        .dump(2);
}

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
    out["fits"] = memory.estimate <= capacity;
    out["verdict"] = to_string(fit(memory.estimate, capacity));
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
    out["fits"] = memory.estimate <= capacity;
    out["verdict"] = to_string(fit(memory.estimate, capacity));
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

}  // namespace of_output

FrameworkSettings settings(const Job& job, const Layout& layout, std::string_view framework,
                           const Cluster& cluster) {
    // Converting compares the ranks one by one.
    constexpr auto most = 1 << 20;
    if (layout.devices() > most)
        throw UsageError(cat(detail::in_python("as_", "--as"), " writes settings for at most ", most,
                             " devices, not for ", layout.devices()));
    using namespace of_output;
    auto said = FrameworkSettings{.framework = std::string(framework)};
    said.mesh = mesh_text(layout, cluster, said.notes);
    const auto conversion = convert("rankmesh", framework, {said.mesh}, layout.devices());
    for (const auto& loss : by_reason(conversion.lost))
        said.notes.push_back(cat("lost: ", loss.what, ": ", loss.why));
    if (!conversion.text) {
        said.notes.push_back(cat(conversion.mesh_from, " has no equivalent in ", framework));
        return said;
    }
    if (conversion.moved.value_or(0) > 0)
        said.notes.push_back(
            cat(*conversion.moved, " of ", conversion.ranks, " ranks stand elsewhere than in ", said.mesh));
    if (framework == "megatron") {
        if (layout.schedule != Schedule::one_f_one_b)
            said.notes.push_back(cat("lost: schedule=", to_string(layout.schedule),
                                     ": Megatron runs 1F1B, interleaved if a stage has several chunks"));
        if (layout.fp8_activations) said.notes.emplace_back("lost: acts=fp8: no flag of Megatron says it");
        said.text = megatron(job, layout, *conversion.text);
    } else if (framework == "torchtitan") {
        said.text = torchtitan(job, layout, *conversion.text);
    } else if (framework == "olmo") {
        said.text = olmo(job, layout, *conversion.settings);
    } else {
        said.text = *conversion.text;
        said.notes.push_back(cat(framework == "rankmesh"
                                     ? "the mesh does not say these; set them in your trainer: "
                                     : cat("set these yourself, where ", framework, " has them: "),
                                 settings_text(layout), ", batch ", job.batch, ", sequence ", job.sequence));
    }
    return said;
}

std::string to_json(const Answer& answer) {
    using namespace of_output;
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
