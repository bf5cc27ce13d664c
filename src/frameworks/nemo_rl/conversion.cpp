// SPDX-License-Identifier: Apache-2.0
// NeMo-RL's configuration: a policy on Megatron or on DTensor, and vLLM's servers on its ranks or on others.
#include "convert/converters.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

namespace of_nemo_rl {

/// The size of that name, by which it divides the ranks; throws UsageError where it does not.
int taken(Settings& settings, const std::string& name, int& ranks) {
    const auto size = settings.size(name);
    if (ranks % size != 0)
        throw UsageError(
            cat(name, " is ", size, "; it must divide the ", ranks, " ranks that are left to it"));
    ranks /= size;
    return size;
}

/// The layout of Megatron, whose own reader makes it.
Arrangement on_megatron(Settings& settings, const std::string& table, int ranks) {
    auto sizes = Json::object();
    for (const auto* name :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
          "expert_model_parallel_size", "expert_tensor_parallel_size"})
        if (const auto size = settings.number(table + name)) sizes[name] = *size;
    auto own = Settings("megatron", std::move(sizes), {});
    auto made = converter_named("megatron", {}).read(own, ranks);
    if (const auto* overrides = settings.value(table + "model_overrides"); overrides && overrides->size() > 0)
        made.extras.push_back({"NeMo-RL's model_overrides", overrides->dump()});
    for (const auto* stage : {"first", "last"})
        if (const auto layers = settings.number(cat(table, "num_layers_in_", stage, "_pipeline_stage")))
            made.extras.push_back(
                {cat("megatron's decoder_", stage, "_pipeline_num_layers"), std::to_string(*layers)});
    return made;
}

/// The meshes of NeMo-Automodel: the experts' is over all ranks of the other.
Arrangement on_dtensor(Settings& settings, const std::string& table, int ranks) {
    auto shards = ranks, edp = ranks;
    const auto replicas = taken(settings, table + "dp_replicate_size", shards);
    const auto cp = taken(settings, table + "context_parallel_size", shards);
    const auto tp = taken(settings, table + "tensor_parallel_size", shards);
    const auto ep = taken(settings, table + "expert_parallel_size", edp);
    auto made =
        Arrangement{{plain_mesh({{"dp_replicate", replicas}, {"dp_shard", shards}, {"cp", cp}, {"tp", tp}})}};
    if (ep > 1) made.meshes.push_back(plain_mesh({{"edp", edp}, {"ep", ep}}));
    return made;
}

/// The layout of a model, `policy` or one beside it, on the engine that is enabled.
Arrangement layout_of(Settings& settings, const std::string& model, int ranks) {
    const auto megatron = settings.flag(model + ".megatron_cfg.enabled").value_or(false);
    if (megatron == settings.flag(model + ".dtensor_cfg.enabled").value_or(false))
        throw UsageError(cat("of ", model, ".megatron_cfg and ", model, ".dtensor_cfg, ",
                             megatron ? "both are" : "none is",
                             " enabled; set enabled: true in one of them"));
    settings.ignore({model + (megatron ? ".dtensor_cfg" : ".megatron_cfg")});
    return megatron ? on_megatron(settings, model + ".megatron_cfg.", ranks)
                    : on_dtensor(settings, model + ".dtensor_cfg.", ranks);
}

/// vLLM's servers. Where experts need more ranks than tp, a server has several data-parallel ones.
std::vector<Mesh> serving(Settings& settings, int ranks) {
    const auto table = std::string("policy.generation.vllm_cfg.");
    const auto tp = taken(settings, table + "tensor_parallel_size", ranks);
    const auto pp = taken(settings, table + "pipeline_parallel_size", ranks);
    const auto ep = settings.size(table + "expert_parallel_size");
    const auto dp = ep > 1 ? ep / tp : 1;
    if (ep > 1 && (ep % tp != 0 || ranks % dp != 0))
        throw UsageError(cat(table, "expert_parallel_size is ", ep, "; it must be a multiple of tp, ", tp,
                             ", that divides the ", ranks * tp, " ranks of a stage"));
    auto meshes = std::vector{Mesh{{"servers", ranks / dp}, {"dp", dp}, {"pp", pp}, {"tp", tp}}};
    if (ep > 1 && dp > 1 && pp > 1) meshes.push_back(meshes[0].flatten({"dp", "tp"}, "ep"));
    if (ep > 1 && (dp == 1 || pp == 1))
        meshes.push_back(Mesh{{"servers", ranks / dp}, {"pp", pp}, {"ep", ep}});
    return meshes;
}

Arrangement read(Settings& settings, std::optional<int> world) {
    auto training = needed_world(settings, world, "NeMo-RL's data parallel size");
    if (!world && (settings.has_table("env.reward_model.resources") ||
                   settings.flag("on_policy_distillation.non_colocated_teachers.enabled").value_or(false)))
        throw UsageError(cat("reward models and teachers take some of the cluster's ", training,
                             " ranks; give the number of all others with --world N"));
    const auto backend = settings.word("policy.generation.backend").value_or("");
    const auto resources = std::string("policy.generation.colocated.resources.");
    auto apart =
        std::int64_t{settings.size(resources + "num_nodes")} * settings.size(resources + "gpus_per_node", 0);
    if (settings.flag("policy.generation.colocated.enabled").value_or(true))
        apart = 0;
    else if (apart == 0 || apart >= training)
        throw UsageError(cat(resources, "num_nodes and gpus_per_node make ", apart,
                             " ranks for generation; they must be 1 to ", training - 1, " of the ",
                             training));
    training -= static_cast<int>(apart);
    auto made = layout_of(settings, "policy", training);
    for (const std::string model : {"teacher", "value"})
        if (settings.has_table(model))
            if (const auto other = layout_of(settings, model, training); other.meshes != made.meshes)
                made.extras.push_back({cat("NeMo-RL's ", model), to_string(other.meshes)});
    if (!backend.empty() && backend != "vllm") made.extras.push_back({"NeMo-RL's servers of", backend});
    if (backend != "vllm") return made;
    made.job.parts.push_back({{made.meshes.begin(), made.meshes.end()}});
    if (apart > 0) made.job.parts.emplace_back();
    for (const auto& mesh : serving(settings, apart > 0 ? static_cast<int>(apart) : training))
        made.job.parts.back().meshes.push_back(mesh.shifted(apart > 0 ? training : 0));
    return made;
}

}  // namespace of_nemo_rl

Converter nemo_rl() {
    return {
        .name = "nemo-rl",
        .of = "its configuration: the policy on Megatron or DTensor, and vLLM's servers; is not written",
        .example =
            "policy.megatron_cfg.enabled=true policy.megatron_cfg.tensor_model_parallel_size=2 "
            "cluster.num_nodes=1 cluster.gpus_per_node=8",
        .read = of_nemo_rl::read,
        .write = [](const Arrangement&) -> Document {
            throw UsageError("convert reads files of NeMo-RL, and does not write them; use --to megatron");
        },
        .started = "cluster.num_nodes cluster.gpus_per_node"};
}

}  // namespace rankmesh::conversion
