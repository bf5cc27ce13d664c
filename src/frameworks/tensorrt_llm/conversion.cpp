// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/error.hpp>

#include "convert/converters.hpp"

namespace rankmesh::conversion {

namespace of_tensorrt_llm {

constexpr auto attention_dp = "attention data parallelism";
/// Settings that only TensorRT-LLM has, which come back as they were given.
constexpr const char* own[] = {"attn_tp_size", "attn_cp_size", "cp_config", "auto_parallel"};
std::string own_name(const char* setting) { return cat("TensorRT-LLM's ", setting); }

/// A size by any of its names: in Mapping, in LlmArgs and on the command line.
int size_named(Settings& settings, std::initializer_list<std::string_view> names, int otherwise = 1) {
    auto found = std::optional<std::string_view>{};
    for (const auto name : names) {
        if (!settings.has(name) || settings.value(name)->is_null()) continue;
        if (found && settings.number(*found) != settings.number(name))
            throw UsageError(cat(settings.shown(*found), " and ", settings.shown(name),
                                 " say two sizes of the same axis; leave one out"));
        found = name;
    }
    return found ? settings.size(*found, otherwise, std::min(otherwise, 1)) : otherwise;
}

/// `pp tp cp` since December 2025, `pp cp tp` before: which of cp and tp is innermost.
template <bool cp_innermost>
Arrangement read(Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    settings.ignore({"rank", "gpus_per_node", "model", "tokenizer", "dtype", "backend", "trust_remote_code",
                     "max_batch_size", "max_num_tokens", "max_seq_len", "kv_cache_config", "moe_config",
                     "cuda_graph_config", "speculative_config", "quant_config", "scheduler_config"});
    const auto tp = size_named(settings, {"tp_size", "tensor_parallel_size", "tp"});
    const auto pp = size_named(settings, {"pp_size", "pipeline_parallel_size", "pp"});
    const auto cp = size_named(settings, {"cp_size", "context_parallel_size"});
    const auto tp_axis = std::pair<std::string, int>("tp", tp);
    const auto cp_axis = std::pair<std::string, int>("cp", cp);
    auto arrangement = Arrangement{
        {plain_mesh({{"pp", pp}, cp_innermost ? tp_axis : cp_axis, cp_innermost ? cp_axis : tp_axis})}};
    if (size_named(settings, {"moe_cluster_size", "moe_cluster_parallel_size", "cluster_size"}, -1) > 1)
        throw UsageError("moe_cluster_size is above 1; clusters of experts are not known here");
    auto moe_tp = size_named(settings, {"moe_tp_size", "moe_tensor_parallel_size"}, -1);
    auto moe_ep = size_named(settings, {"moe_ep_size", "moe_expert_parallel_size", "ep_size", "ep"}, -1);
    const auto attention = settings.flag("enable_attention_dp").value_or(false);
    if (const auto ranks = arrangement.dense().size(); known && *known != ranks)
        throw frameworks::Error(frameworks::Fault::sizes,
                                cat("world_size must equal to tp_size * pp_size * cp_size, but got ", *known,
                                    " != ", tp, " * ", pp, " * ", cp, "."));
    if (moe_tp < 1 && moe_ep < 1) moe_ep = 1;
    if (moe_tp < 1) moe_tp = tp / moe_ep;
    if (moe_ep < 1) moe_ep = tp / moe_tp;
    if (moe_tp * moe_ep != tp)
        throw UsageError(cat("tp_size must equal to moe_tp_size * moe_ep_size * moe_cluster_size, but got ",
                             tp, " != ", moe_tp, " * ", moe_ep, " * 1"));
    if (moe_ep > 1 && cp > 1) throw UsageError("CP don't support MoE tp/ep yet");
    if (moe_ep > 1) arrangement.meshes.push_back(plain_mesh({{"pp", pp}, {"etp", moe_tp}, {"ep", moe_ep}}));
    if (attention) arrangement.extras.push_back({attention_dp, "on"});
    for (const auto* name : own) {
        const auto* value = settings.value(name);
        // Without them, attention is cut over all ranks of a stage.
        const auto is_default = !value || *value == false || *value == -1 || *value == Json::object() ||
                                *value == (name == own[0] ? tp * cp : 1);
        if (!is_default) arrangement.extras.push_back({own_name(name), value->dump()});
    }
    return arrangement;
}

Document write(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    auto values = Json{{"world_size", mesh.size()},
                       {"tp_size", size_of(mesh, "tp")},
                       {"pp_size", size_of(mesh, "pp")},
                       {"cp_size", size_of(mesh, "cp")}};
    if (const auto* experts = arrangement.experts();
        experts && size_of(mesh, "cp") == 1 &&
        size_of(*experts, "ep") * size_of(*experts, "etp") == size_of(mesh, "tp")) {
        values["moe_tp_size"] = size_of(*experts, "etp");
        values["moe_ep_size"] = size_of(*experts, "ep");
    }
    if (extra_of(arrangement, attention_dp)) values["enable_attention_dp"] = true;
    for (const auto* name : own)
        if (const auto said = extra_of(arrangement, own_name(name))) values[name] = Json::parse(*said);
    auto text = std::string{};
    for (const auto& [name, value] : values.items())
        text += cat(text.empty() ? "" : ", ", name, "=", value.is_boolean() ? "True" : value.dump());
    return {values, cat("Mapping(", text, ")")};
}

Converter with(std::string_view name, std::string_view of,
               Arrangement (*read)(Settings&, std::optional<int>)) {
    return {
        .name = name,
        .of = of,
        .example = "tp_size=4 pp_size=2",
        .read = read,
        .write = write,
        .roles = {"pp", "tp", "cp"},
        .why = {{"dp, dp_replicate, dp_shard",
                 "TensorRT-LLM's Mapping has no data parallelism; each replica is a server of its own"},
                {"ep, edp, etp",
                 "TensorRT-LLM's experts stand in tp, with moe_tp_size * moe_ep_size = tp_size and no cp"}},
        .places = "mapping",
        .serves = true};
}

}  // namespace of_tensorrt_llm

Converter tensorrt_llm() {
    return of_tensorrt_llm::with(
        "tensorrt-llm", "the arguments of Mapping since December 2025, which lays ranks out as pp tp cp",
        of_tensorrt_llm::read<true>);
}

Converter tensorrt_llm_old() {
    return of_tensorrt_llm::with("tensorrt-llm-old",
                                 "the arguments of Mapping before December 2025, which lays ranks out as pp "
                                 "cp tp; the same if cp is 1",
                                 of_tensorrt_llm::read<false>);
}

}  // namespace rankmesh::conversion
