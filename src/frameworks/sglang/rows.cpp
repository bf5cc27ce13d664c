// SPDX-License-Identifier: Apache-2.0
// SGLang's parallel_state: PP x attention DP x attention CP x attention TP, tp fastest; the experts cut the
// ranks of a stage in another way.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_sglang {

/// The part of tp_size that two of its factors leave.
int rest_of_tp(const Given& given, std::string_view first, std::string_view second) {
    for (const auto name : {first, second}) check_size(name, given.number(name));
    const auto tp = given.number("tp_size");
    const auto product = std::int64_t{given.number(first)} * given.number(second);
    refuse_if(tp % product != 0, Fault::sizes, "tp_size is ", tp, ", which is not divided by ", first, " ",
              given.number(first), " x ", second, " ", given.number(second));
    return static_cast<int>(tp / product);
}

void check(Given& given) {
    given.derive("tp", rest_of_tp(given, "attn_dp_size", "attn_cp_size"));
    given.derive("moe_tp", rest_of_tp(given, "ep_size", "moe_dp_size"));
    given.derive("moe_ep", given.number("ep_size"));
    given.derive("moe_dp", given.number("moe_dp_size"));
    const auto dcp = given.number("dcp_size");
    refuse_if(dcp < 1 || given.number("tp_size") % dcp != 0, Fault::sizes, "dcp_size is ", dcp,
              "; it must divide tp_size, which is ", given.number("tp_size"));
}

std::optional<Mesh> experts(const Given& given, const Mesh& mesh) {
    if (given.number("ep_size") == 1 && given.number("moe_dp_size") == 1 &&
        given.number("moe_tp") == mesh.size("tp"))
        return std::nullopt;
    return Mesh{{"pp", mesh.size("pp")},
                {"edp", given.number("moe_dp")},
                {"ep", given.number("moe_ep")},
                {"etp", given.number("moe_tp")}};
}
Values write_experts(const Mesh& experts) {
    return {{"ep_size", size_of(experts, "ep")}, {"moe_dp_size", size_of(experts, "edp")}};
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    auto rows = std::vector<AccessorRow>{
        {"get_tp_group", "tp", group, "The ranks of this rank's stage."},
        {"get_world_group", "world", group, "All ranks."},
        {"get_attn_tp_group", "attn_tp", group, "The ranks that share each layer's attention."},
        {"get_attn_cp_group", "attn_cp", group, "The ranks that share a prompt."},
        {"get_shared_experts_tp_group", "shared_experts_tp", group,
         "The ranks that share each expert of all tokens."},
        {"get_dcp_group", "dcp", group, "The ranks that share a sequence's keys while it is decoded."},
        lenient("get_dcp_group_no_assert", "dcp", group,
                "The ranks that share a sequence's keys while it is decoded; None where dcp_size is 1."),
        {"get_moe_dp_group", "moe_dp", group,
         "The ranks with the same experts; the context-parallel group where that is larger."},
        {"get_moe_ep_group", "moe_ep", group, "The ranks with other experts."},
        {"get_moe_tp_group", "moe_tp", group, "The ranks that share each expert."},
        {"get_pp_group", "pp", group, "The stages of this rank's pipeline."},
        {"get_self_pp_group", "self_pp", group, "This rank alone, as the pipeline of a draft model."},
        {"get_world_size", "world", size, "The number of all ranks."},
        {"get_world_rank", "world", rank, "This rank among all."}};
    for (auto& row : accessors_of(
             {{"dcp", "dcp", "decode context parallel group", "rank world_size"},
              {"tensor_model_parallel", "tp", "stage", "group rank world_size"},
              {"attn_tensor_model_parallel", "attn_tp", "attention's tensor-parallel group",
               "rank world_size"},
              {"attn_context_model_parallel", "attn_cp", "attention's context-parallel group",
               "rank world_size"},
              {"pipeline_model_parallel", "pp", "pipeline", "group rank world_size"},
              {"moe_data_parallel", "moe_dp", "experts' data-parallel group", "rank world_size"},
              {"moe_expert_parallel", "moe_ep", "expert-parallel group", "rank world_size"},
              {"moe_tensor_parallel", "moe_tp", "experts' tensor-parallel group", "rank world_size"}}))
        rows.push_back(std::move(row));
    return rows;
}

/// handle_deprecated_dp_attention of arg_groups/parallel_hook.py, and _a2a_ep_size of overrides.py.
void configure(Values& values, int) {
    const auto* is_deprecated = find_in(values, "enable_dp_attention");
    if (is_deprecated && *is_deprecated == Value(true) && size_in(values, "attn_dp_size") == 1) {
        set_in(values, "attn_dp_size", size_in(values, "dp_size"));
        set_in(values, "dp_size", {});
    }
    set_in(values, "enable_dp_attention", {});
    static constexpr std::string_view over_all[] = {
        "megamoe",       "deepep",     "deepep_v2",          "mooncake", "nixl",
        "ascend_fuseep", "flashinfer", "flashinfer_megamoe", "mori",     "pplx"};
    const auto* backend = find_in(values, "moe_a2a_backend");
    if (backend && holds(over_all, std::get<std::string>(*backend)))
        set_in(values, "ep_size", size_in(values, "tp_size"));
    set_in(values, "moe_a2a_backend", {});
}

Framework framework() {
    const auto size = [](const char* name, const char* axis, const char* flag, const char* doc,
                         const char* extra = "") {
        return Setting{.name = name, .doc = doc, .axis = axis, .flag = flag, .apart = true, .extra = extra};
    };
    return {
        .name = "sglang",
        .version = "0.5.23",
        .original = "sglang.srt.distributed.parallel_state",
        .title = "SGLang's groups of tensor and pipeline parallel ranks, of attention and of experts.",
        .settings_of = "the flags of sglang.launch_server",
        .example = "-- --tp-size 8 --attn-dp-size 2 --ep-size 8",
        .settings = {size("tp_size", "dp cp tp", "tensor_parallel_size tp", "all ranks of a pipeline stage"),
                     size("pp_size", "pp", "pipeline_parallel_size", ""),
                     size("attn_dp_size", "dp", "attention_data_parallel_size",
                          "parts of tp_size whose attention has other requests"),
                     size("attn_cp_size", "cp", "attention_context_parallel_size",
                          "parts of tp_size that share a prompt"),
                     size("ep_size", "", "expert_parallel_size ep", "parts of tp_size with other experts"),
                     size("moe_dp_size", "", "moe_data_parallel_size",
                          "parts of tp_size that repeat the experts"),
                     size("dcp_size", "", "decode_context_parallel_size",
                          "tp ranks that share the keys of one sequence while it is decoded",
                          "decode context parallel size"),
                     {.name = "shared_experts_tp_size",
                      .type = Type::maybe_number,
                      .doc = "ranks that share each expert of all tokens; None or 1: each has them whole",
                      .apart = true},
                     configured("enable_eplb", Type::flag,
                                "the server balances the load of experts; the groups are the same",
                                "load balancing of experts"),
                     configured("dp_size", Type::number, "servers that each have the whole model", "replicas",
                                "data_parallel_size dp"),
                     configured("enable_dp_attention", Type::flag, "deprecated: attn_dp_size is dp_size"),
                     configured("moe_a2a_backend", Type::maybe_word,
                                "deepep, mooncake, nixl and others set ep_size to tp_size"),
                     {"duplicate_tp_group", Type::flag, "prefill has tensor-parallel groups of its own"}},
        .meshes = {{"ranks", "pp dp cp tp"}, {"experts", "pp moe_dp moe_ep moe_tp"}},
        .kinds = {{"world", "| pp dp cp tp"},
                  {"tp", "pp | dp cp tp"},
                  {.name = "pdmux_prefill_tp",
                   .groups = "pp | dp cp tp",
                   .missing = "tensor model parallel group for PD-Multiplexing Prefill is not initialized",
                   .when = "duplicate_tp_group",
                   .apart = true},
                  {"dcp", "pp dp cp tp / dcp_size",
                   "parallel name 'dcp_group' has not been written in this process", "dcp_size > 1"},
                  {"attn_cp", "pp dp tp | cp", "", "", "tp if attn_cp_size == tp_size"},
                  {"attn_tp", "pp dp cp | tp", "", "", "tp if tp == tp_size"},
                  {"shared_experts_tp", "pp dp cp tp / shared_experts_tp_size",
                   "parallel name 'shared_experts_tp_group' has not been written in this process",
                   "shared_experts_tp_size > 1", "attn_tp if shared_experts_tp_size == tp"},
                  // Context-parallel ranks that have the same experts share their tokens.
                  {"moe_dp", "experts: pp moe_ep moe_tp | moe_dp", "", "",
                   "attn_cp if attn_cp_size > moe_dp_size, tp if moe_dp_size == tp_size"},
                  {"moe_ep", "experts: pp moe_dp moe_tp | moe_ep", "", "", "tp if ep_size == tp_size"},
                  {"moe_tp", "experts: pp moe_dp moe_ep | moe_tp", "", "", "tp if moe_tp == tp_size"},
                  {"pp", "dp cp tp | pp"},
                  {"self_pp", "pp dp cp tp |", "self pipeline group is not initialized"}},
        .accessors = accessors(),
        .check = check,
        .why = {{"dp_replicate", "SGLang's replicas (--dp-size) are jobs of their own"},
                {"dp_shard", "SGLang does not shard optimizer state"},
                {"virtual pipeline stages", "SGLang's pipeline has one stage a rank"}},
        .experts = experts,
        .write_experts = write_experts,
        .raises = {{"", "RuntimeError"}, {"exists", "AssertionError"}},
        .initialize = "initialize_model_parallel",
        .handle = "GroupCoordinator",
        .backend_after = "(",
        .start = {.programs = "sglang dynamo.sglang", .by_itself = true},
        .configure = configure,
        .serves = true};
}

}  // namespace rankmesh::frameworks::of_sglang
