// SPDX-License-Identifier: Apache-2.0
// vLLM's parallel_state: ExternalDP x DP x PP x PCP x TP, tp fastest.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_vllm {

void check(Given& given) {
    const auto dcp = given.number("decode_context_model_parallel_size");
    refuse_if(dcp < 0, Fault::sizes, "decode_context_model_parallel_size is ", dcp,
              "; it must be 1 or more, or None");
    given.derive("dcp_size", dcp == 0 ? 1 : dcp);
}

/// What the configuration of a server refuses, which the function that makes the groups takes.
void check_flags(const Given& given) {
    const auto tp = given.number("tensor_model_parallel_size");
    const auto pcp = given.number("prefill_context_model_parallel_size");
    const auto dcp = given.number("dcp_size");
    refuse_if(pcp == 1 && tp % dcp != 0, Fault::sizes, "decode_context_parallel_size ", dcp,
              " does not divide tensor_parallel_size ", tp);
    refuse_if(pcp > 1 && dcp != 1 && dcp != pcp && dcp != pcp * tp, Fault::sizes,
              "decode_context_parallel_size is ", dcp, "; with prefill_context_parallel_size ", pcp,
              " and tensor_parallel_size ", tp, " it is 1, ", pcp, " or ", pcp * tp);
    if (!given.flag("enable_eplb")) return;
    refuse_if(!given.flag("enable_expert_parallel"), Fault::missing,
              "enable_eplb balances whole experts; give enable_expert_parallel as well");
    refuse_if(tp * pcp * given.number("data_parallel_size") == 1, Fault::sizes,
              "enable_eplb needs 2 ranks or more of tensor, prefill context and data parallelism");
}

constexpr auto no_dcp = "decode context model parallel group is not initialized";
constexpr auto no_ep =
    "expert parallel group is not initialized. EP group is only created for MoE models with num_experts > 0. "
    "This function should only be called for MoE models.";
constexpr auto no_eplb =
    "EPLB group is not initialized. EPLB group is only created for MoE models when EPLB is enabled. Ensure "
    "parallel_config.enable_eplb is True.";

/// With `enable_expert_parallel` each rank of a stage has whole experts; without, all ranks of a stage share
/// each expert: FusedMoEParallelConfig.flatten_tp_across_dp_and_pcp.
std::optional<Mesh> experts(const Given& given, const Mesh& mesh) {
    const auto whole = given.flag("enable_expert_parallel");
    if (!given.flag("is_moe") || (!whole && size_of(mesh, "dp") * size_of(mesh, "pcp") == 1))
        return std::nullopt;
    return mesh.flatten({"dp", "pcp", "tp"}, whole ? "ep" : "etp").flatten({"external_dp"}, "edp");
}
Values write_experts(const Mesh& experts) {
    const auto are_cut = size_of(experts, "ep") == 1 && size_of(experts, "etp") > 1;
    return experts.find("ep") && !are_cut ? Values{{"enable_expert_parallel", true}} : Values{};
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    return {
        {"get_world_group", "world", group, "All ranks."},
        {"get_inner_dp_world_group", "inner_dp_world", group, "The ranks of one data-parallel rank."},
        {"get_tp_group", "tp", group, "The ranks that share each layer."},
        {"get_etp_group", "etp", group, "The ranks that share one table of engrams."},
        lenient("get_engram_dp_group", "edp", group,
                "The replicas that share one table of engrams; None where each has its own."),
        lenient("get_engram_dp_size", "edp", size, "How many replicas share one table of engrams.", 1),
        {"get_dcp_group", "dcp", group, "The ranks that share a sequence's keys while it is decoded."},
        {.name = "get_dcp_world_size_and_rank",
         .quantity = size_and_rank,
         .doc = "How many share a sequence's keys while it is decoded, and this rank among them.",
         .options = {{"enabled", Type::flag, {}, true}},
         .without = std::vector{1, 0},
         .among = "dcp if enabled"},
        {"get_pcp_group", "pcp", group, "The ranks that share a prompt."},
        {"get_pp_group", "pp", group, "The stages of this rank's pipeline."},
        {"get_dp_group", "dp", group, "The ranks with other requests."},
        {"get_ep_group", "ep", group, "The ranks that share a stage's experts."},
        {"get_eplb_group", "eplb", group, "The same ranks, for moving experts beside the model's own calls."},
        {"get_tensor_model_parallel_world_size", "tp", size, "The size of the tensor-parallel group."},
        {"get_tensor_model_parallel_rank", "tp", rank, "Where this rank is in its tensor-parallel group."},
        {"get_pipeline_model_parallel_rank", "pp", rank, "This rank's stage."}};
}

Framework framework() {
    const auto size_of_axis = [](const char* name, const char* axis, const char* flag) {
        return Setting{.name = name, .axis = axis, .flag = flag};
    };
    const auto apart = [](const char* name, Type type, const char* doc, Value otherwise) {
        return Setting{
            .name = name, .type = type, .doc = doc, .otherwise = std::move(otherwise), .apart = true};
    };
    return {
        .name = "vllm",
        .version = "0.33.0",
        .original = "vllm.distributed.parallel_state",
        .title = "vLLM's tensor, pipeline, data, prefill and decode context and expert parallel groups.",
        .settings_of = "the flags of vllm serve, or the arguments of initialize_model_parallel",
        .example = "-- --tensor-parallel-size 4 --data-parallel-size 2",
        .settings =
            {size_of_axis("tensor_model_parallel_size", "tp", "tensor_parallel_size tp"),
             size_of_axis("pipeline_model_parallel_size", "pp", "pipeline_parallel_size pp"),
             size_of_axis("prefill_context_model_parallel_size", "pcp", "prefill_context_parallel_size pcp"),
             {.name = "decode_context_model_parallel_size",
              .type = Type::maybe_number,
              .doc = "pcp and then tp ranks that share the keys of one sequence while it is decoded",
              .otherwise = 1,
              .flag = "decode_context_parallel_size dcp",
              .extra = "decode context parallel size"},
             {.name = "data_parallel_size", .axis = "dp", .flag = "data_parallel_size dp", .apart = true},
             apart("is_moe", Type::flag, "the model has experts", true),
             {.name = "enable_expert_parallel",
              .type = Type::flag,
              .doc = "experts are whole, not cut over tp; the groups are the same",
              .flag = "enable_expert_parallel ep",
              .apart = true},
             {.name = "enable_eplb", .type = Type::flag, .apart = true, .extra = "load balancing of experts"},
             apart("engram_tensor_parallel_size", Type::maybe_number,
                   "ranks that share one table of engrams; None: as tensor parallelism", {}),
             apart("engram_data_parallel_size", Type::number,
                   "replicas that share one table of engrams, which vLLM derives from the hosts", 1),
             apart("nnodes_within_dp", Type::number, "hosts of one data-parallel rank", 1)},
        .meshes = {{"ranks", "external_dp dp pp pcp tp"}},
        .kinds = {{"world", "| external_dp dp pp pcp tp", "world group is not initialized"},
                  {"inner_dp_world", "external_dp dp | pp pcp tp", "inner dp world group is not initialized",
                   "nnodes_within_dp > 1", "world if data_parallel_size == 1"},
                  {"tp", "external_dp dp pp pcp | tp", "tensor model parallel group is not initialized"},
                  {"etp", "external_dp pp pcp dp tp / engram_tensor_parallel_size",
                   "Engram tensor-parallel group is not initialized", "",
                   "tp if engram_tensor_parallel_size == 0, "
                   "tp if engram_tensor_parallel_size == tensor_model_parallel_size"},
                  {"dcp", "external_dp dp pp pcp tp / dcp_size", no_dcp, "dcp_size == 1"},
                  {"dcp", "external_dp dp pp tp pcp / dcp_size", no_dcp, "dcp_size > 1"},
                  {"pcp", "external_dp dp pp tp | pcp", "prefill context parallel group is not initialized"},
                  {"pp", "external_dp dp tp pcp | pp", "pipeline model parallel group is not initialized"},
                  {"dp", "external_dp tp pp pcp | dp", "data parallel group is not initialized"},
                  {"edp", "external_dp pp pcp tp dp / engram_data_parallel_size", "",
                   "engram_data_parallel_size > 1 and engram_data_parallel_size <= data_parallel_size",
                   "dp if engram_data_parallel_size == data_parallel_size"},
                  {"ep", "external_dp pp | dp pcp tp", no_ep, "is_moe"},
                  {.name = "eplb",
                   .groups = "external_dp pp | dp pcp tp",
                   .missing = no_eplb,
                   .when = "is_moe and enable_eplb",
                   .apart = true}},
        .accessors = accessors(),
        .check = check,
        .check_flags = check_flags,
        .roles = {{"external_dp", "dp_replicate"}, {"pcp", "cp"}},
        .why = {{"replicas", "each replica is a server of its own"},
                {"dp_shard", "vLLM does not shard optimizer state"},
                {"virtual pipeline stages", "vLLM's pipeline has one stage a rank"}},
        .experts = experts,
        .write_experts = write_experts,
        .raises = {{"", "AssertionError"}, {"sizes", "RuntimeError"}},
        .initialize = "initialize_model_parallel",
        .handle = "GroupCoordinator",
        .backend_after = "decode_context_model_parallel_size",
        .ensure = "ensure_model_parallel_initialized",
        .start = {.programs = "vllm vllm-openai dynamo.vllm", .by_itself = true},
        .serves = true};
}

}  // namespace rankmesh::frameworks::of_vllm
