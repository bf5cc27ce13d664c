// SPDX-License-Identifier: Apache-2.0
// The settings of a layout for a framework: the mesh through convert, and settings that do not concern ranks.
#include <algorithm>

#include <rankmesh/cluster/place.hpp>
#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/text.hpp>

#include "formats/json.hpp"
#include "plan/names.hpp"
#include "plan/read/parts.hpp"

namespace rankmesh::plan {

namespace of_settings {

using formats::Json;

bool has_all_bandwidths(const Cluster& cluster) {
    return std::ranges::all_of(cluster.levels(),
                               [](const auto& level) { return level.bandwidth.has_value(); });
}

/// Returns the mesh placed on the cluster, followed by the mesh of the experts.
std::string mesh_text(const Layout& layout, const Cluster& cluster, std::vector<std::string>& notes) {
    const auto plain = mesh(layout);
    auto text = to_string(plain);
    if (has_all_bandwidths(cluster) && cluster.size() >= plain.size() && plain.size() > 1) {
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

}  // namespace of_settings

FrameworkSettings settings(const Job& job, const Layout& layout, std::string_view framework,
                           const Cluster& cluster) {
    // Converting compares the ranks one by one.
    constexpr auto most = 1 << 20;
    if (layout.devices() > most)
        throw UsageError(cat(detail::in_python("as_", "--as"), " writes settings for at most ", most,
                             " devices, not for ", layout.devices()));
    using namespace of_settings;
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

void restrict_to(std::string_view framework, Options& options) {
    if (framework == "megatron") {
        // Its distributed optimizer shards only the optimizer.
        options.zero.most = std::min(options.zero.most, 1);
        // It counts the layers of each chunk.
        // It hides all-to-all of experts behind another chunk.
        options.allows = [](const Layout& l) {
            return l.recompute_layers % l.vpp == 0 && (!l.overlap_experts || l.pp == 1 || l.vpp > 1);
        };
    } else if (framework == "torchtitan") {
        // Its FSDP shards everything. Interleaved schedules have two stages per rank by default.
        options.zero.least = std::max(options.zero.least, 2);
        options.vpp.most = std::min(options.vpp.most, 2);
        options.recompute = {Recompute::none, Recompute::operations, Recompute::full};
        options.uneven = options.some_layers = false;
    } else if (framework == "olmo") {
        // Its FSDP shards everything. In a pipeline, parameters stay gathered. Experts exclude tensor
        // parallelism.
        options.zero.least = std::max(options.zero.least, 2);
        options.vpp.most = 1;
        options.recompute = {Recompute::none, Recompute::full};
        options.some_layers = false;
        options.allows = [](const Layout& l) {
            return l.zero == (l.pp > 1 ? 2 : 3) && (l.ep == 1 || l.tp == 1);
        };
    }
}

}  // namespace rankmesh::plan
