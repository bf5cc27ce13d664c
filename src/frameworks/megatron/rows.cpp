// SPDX-License-Identifier: Apache-2.0
// Megatron-core's parallel_state: settings and kinds of groups, in the order in which it first makes one.
#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::frameworks {

namespace of_megatron {

constexpr auto on_host = "create_gloo_process_groups", of_remat = "gtp_remat_size > 1",
               of_instances = "num_distributed_optimizer_instances > 1",
               of_instances_on_host =
                   "create_gloo_process_groups and num_distributed_optimizer_instances > 1";

std::vector<int> embeddings(const Given& given) { return given.numbers("embedding_stages"); }
std::vector<int> position_embeddings(const Given& given) {
    return given.numbers("position_embedding_stages");
}

/// `extend` lists the axes of each mesh in the order of `order`. Groups `_GLOO` are those before, on the
/// host.
std::vector<KindRow> kinds() {
    // A plan calls it as the section of its options in the file for NCCL.
    const auto kind = [](std::string_view name, const char* brief, const char* groups,
                         std::string_view missing, const char* when = "") {
        return KindRow{.name = std::string(name),
                       .groups = groups,
                       .missing = missing.empty() ? "" : cat(missing, " is not initialized"),
                       .when = when,
                       .at = name == "EMBEDDING_GROUP"            ? embeddings
                             : name == "POSITION_EMBEDDING_GROUP" ? position_embeddings
                                                                  : nullptr,
                       .apart = name.ends_with("_AG"),
                       .on_host = name.find("_GLOO") != name.npos,
                       .brief = brief};
    };
    auto rows = std::vector<KindRow>{
        kind("GTP_WEIGHT_REMAT_GROUP", "gtp_remat", "* | gtp_remat", "generalized tensor parallel group"),
        kind("DATA_PARALLEL_GROUP_WITH_CP", "dp_cp", "* | dp cp", "data parallel group with CP"),
        kind("DATA_PARALLEL_GROUP_WITH_CP_AG", "dp_cp_ag", "* | dp cp",
             "data parallel group with context parallel AG", "create_all_gather_group"),
        kind("DATA_PARALLEL_GROUP_WITH_CP_GLOO", "", "* | dp cp",
             "data parallel group-gloo with context parallel combined", on_host),
        kind("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "intra_dp_cp", "* | dp cp / dp_cp_of_instance",
             "intra partial data parallel group with CP (with GTP_remat)", of_instances),
        kind("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO", "", "* | dp cp / dp_cp_of_instance",
             "Intra partial data parallel group", of_instances_on_host),
        kind(hybrid, "hybrid_dp_cp", "* | dp cp / 2", ""),
        kind("DATA_PARALLEL_GROUP", "dp", "* | dp", "data parallel group"),
        kind("DATA_PARALLEL_GROUP_GLOO", "", "* | dp", "data parallel group-gloo", on_host),
        kind("DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "gtp_remat_dp", "* | dp gtp_remat",
             "data parallel group (with GTP_remat)", of_remat),
        kind("DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT", "gtp_remat_dp_cp", "* | dp cp gtp_remat",
             "data parallel group with CP (with GTP_remat)", of_remat),
        kind("CONTEXT_PARALLEL_GROUP", "cp", "* | cp", "context parallel group"),
        kind(hierarchical, "hcp", "levels: * | l0", ""),
        kind("MODEL_PARALLEL_GROUP", "mp", "* | tp gtp_remat pp", "model parallel group"),
        kind("TENSOR_MODEL_PARALLEL_GROUP", "tp", "* | tp", "tensor model parallel group"),
        kind("PIPELINE_MODEL_PARALLEL_GROUP", "pp", "* | pp", "pipeline_model parallel group"),
        kind("EMBEDDING_GROUP", "embd", "* | pp", "embedding group"),
        kind("POSITION_EMBEDDING_GROUP", "pos_embd", "* | pp", "position embedding group"),
        kind("TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp_dp_cp", "* | tp gtp_remat dp cp", ""),
        kind("TENSOR_AND_DATA_PARALLEL_GROUP", "tp_dp", "* | tp gtp_remat dp", ""),
        kind("TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp_cp", "* | tp cp", "tensor and context parallel group"),
        kind("EXPERT_GTP_WEIGHT_REMAT_GROUP", "expt_gtp_remat", "experts: * | egtp_remat",
             "expert generalized tensor parallel group"),
        kind("EXPERT_MODEL_PARALLEL_GROUP", "ep", "experts: * | ep", "expert model parallel group"),
        kind("EXPERT_TENSOR_PARALLEL_GROUP", "ep_tp", "experts: * | etp", "Expert tensor parallel group"),
        kind("EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "tp_ep_mp", "experts: * | etp ep",
             "Expert tensor and model parallel group"),
        kind("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "tp_ep_pp", "experts: * | etp ep pp",
             "Expert tensor-model-pipeline parallel group"),
        kind("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", "tp_ep_gtp_remat_pp",
             "experts: * | etp ep egtp_remat pp", "Expert tensor-model-pipeline parallel group with EGTP"),
        kind("EXPERT_DATA_PARALLEL_GROUP", "ep_dp", "experts: * | edp", "Expert data parallel group"),
        kind("EXPERT_DATA_PARALLEL_GROUP_GLOO", "", "experts: * | edp", "Expert data parallel group-gloo",
             on_host),
        kind("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0", "intra_ep_dp", "instances: * inter | intra",
             "Intra partial expert data parallel group (with GTP_remat)", of_instances),
        kind("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0", "", "instances: * inter | intra",
             "Intra partial expert data parallel group-gloo", of_instances_on_host),
        kind("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1", "inter_ep_dp", "instances: * intra | inter", "",
             of_instances),
        kind("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L1", "", "instances: * intra | inter", "",
             of_instances_on_host),
        kind("EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "ep_gtp_remat_dp", "experts: * | edp egtp_remat",
             "Expert data parallel group (with GTP_remat)", "expert_gtp_remat_size > 1"),
        kind("INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "intra_dist_opt_instance",
             "instances: inter | intra *", "Intra distributed optimizer instance group")};
    rows.back().sorted = true;
    std::ranges::find(rows, "inter_ep_dp", &KindRow::brief)->missing =
        "Attention and MLP/Expert share same inter distributed optimize instance group, which has not been "
        "initialized";
    return rows;
}

std::vector<Setting> settings() {
    using enum Type;
    const auto size = [](const char* name, const char* axis) { return Setting{.name = name, .axis = axis}; };
    return {size("tensor_model_parallel_size", "tp"),
            size("pipeline_model_parallel_size", "pp"),
            {"virtual_pipeline_model_parallel_size", maybe_number, "stages of each rank"},
            size("context_parallel_size", "cp"),
            {"hierarchical_context_parallel_sizes", numbers, "levels of cp, innermost first"},
            {"hybrid_context_parallel", flag, "also groups of 2, 4, 8, ... data and context ranks"},
            size("expert_model_parallel_size", "ep"),
            size("gtp_remat_size", "gtp_remat"),
            size("expert_gtp_remat_size", "egtp_remat"),
            {"num_distributed_optimizer_instances"},
            {"expert_tensor_parallel_size",
             maybe_number,
             "tensor_model_parallel_size if it is not given",
             {},
             "etp"},
            {"order", word, "the axes, innermost first", "tp-cp-ep-dp-pp"},
            {"embedding_stages", numbers, "what get_embedding_ranks picks of a pipeline", std::vector{0, -1}},
            {"position_embedding_stages", numbers, "what get_position_embedding_ranks picks of a pipeline",
             std::vector{0}},
            {"create_gloo_process_groups", flag, "the groups of data parallelism on the host, too", true},
            {"rank_offset", number, "the rank at which the groups begin", 0},
            {"local_world_size", maybe_number, "the number of ranks from there on, if not all"},
            {"create_all_gather_group", flag, "the data and context ranks once more, to gather beside"}};
}

Values slots(const Given& given) {
    const auto& stages = given.value("virtual_pipeline_model_parallel_size");
    if (given.is_none("virtual_pipeline_model_parallel_size")) return {};
    return {{"virtual_pipeline_model_parallel_rank", 0},
            {"virtual_pipeline_model_parallel_world_size", stages}};
}

}  // namespace of_megatron

Framework megatron() {
    using namespace of_megatron;
    return {.name = "megatron",
            .version = "0.16.1, and August 2026",
            .original = "megatron.core.parallel_state",
            .title = "Megatron-core's parallel_state of August 2026.",
            .settings_of =
                "the flags of Megatron-core of 2026, or the arguments of its initialize_model_parallel; "
                "needs the world's size",
            .example = "-- --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 16",
            .settings = of_megatron::settings(),
            .meshes = {{"dense", "pp dp cp tp"},
                       {"experts", "pp edp ep etp"},
                       {"instances", "pp inter intra ep etp"}},
            .kinds = of_megatron::kinds(),
            .accessors = of_megatron::accessors(),
            .check = check,
            .offset = "rank_offset",
            .extend = extend,
            .why = {{"dp_replicate, dp_shard",
                     "Megatron's optimizer instances are runs of data-parallel ranks of one size"},
                    {"virtual pipeline stages, fewer layers of the first stage, fewer layers of the last "
                     "stage",
                     "Megatron interleaves pipelines of two ranks or more; its first and last stage can each "
                     "have one layer fewer"},
                    {"pipeline schedule",
                     "Megatron runs 1F1B, and interleaves if --num-virtual-stages-per-pipeline-rank is above "
                     "1"}},
            .raises = {{"", "AssertionError"},
                       {"unknown", "KeyError"},
                       {"out of range", "IndexError"},
                       {"sizes", "ZeroDivisionError"},
                       {"no such rank", "ValueError"}},
            .initialize = "initialize_model_parallel",
            .state_class = "ParallelState",
            .asserts = "DATA_PARALLEL_GROUP",
            .slots = slots,
            .base = "Answers"};
}

}  // namespace rankmesh::frameworks
