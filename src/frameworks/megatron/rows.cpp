// SPDX-License-Identifier: Apache-2.0
// Megatron-core's parallel_state: settings, what it refuses of them, and kinds of groups, in the order in
// which it first makes one.
#include <set>

#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::frameworks::of_megatron {

constexpr auto level_sizes = "hierarchical_context_parallel_sizes";
// What follows from the settings; no axis can have these names.
constexpr auto dense_axes = "axes of the dense layers", expert_axes = "axes of the experts";

int local_world(const Given& given) { return given.number("local_world_size", given.world_size()); }

/// What is left of the world after these sizes; `what` is what the original calls them.
int rest_of(const Given& given, std::initializer_list<std::string_view> sizes, std::string_view what) {
    const auto world = local_world(given);
    auto known = std::int64_t{1};
    for (const auto size : sizes) known *= given.number(size);
    refuse_if(world % known != 0, Fault::sizes, "world_size (", world, ") is not divisible by ", what, known,
              what.empty() ? "" : ")");
    return static_cast<int>(world / known);
}

/// The axes, those of the experts under names of their own, and without those that are never cut.
std::string axes_of(const Ordered& ordered, bool of_experts) {
    auto axes = std::string{};
    for (const auto& [axis, size] : ordered.axes) {
        if (axis == (of_experts ? "cp" : "ep") || (axis == "gtp_remat" && size == 1)) continue;
        const auto is_own = of_experts && (axis == "dp" || axis == "tp" || axis == "gtp_remat");
        axes += cat(axes.empty() ? "" : " ", is_own ? "e" : "", axis);
    }
    return axes;
}

/// The distance of two stages of a pipeline.
int stride_of_stages(const Ordered& ordered) {
    auto stride = 0;
    for (const auto& [axis, size] : ordered.axes) stride = axis == "pp" ? 1 : stride * size;
    return stride;
}

/// The pipelines as the original's text lists them, the first of many.
std::string pipelines(int stride, int stages, int world, int rank_offset) {
    constexpr auto most = 64;  // ranks
    auto lists = std::vector<std::string>{};
    for (int first = 0; first < std::min(world, most); ++first) {
        if (first / stride % stages != 0) continue;
        auto ranks = std::vector<int>{};
        for (int stage = 0; stage < stages; ++stage) ranks.push_back(rank_offset + first + stage * stride);
        lists.push_back(cat("[", detail::with_commas(ranks), "]"));
    }
    return cat("[", detail::with_commas(lists), world > most ? ", ...]" : "]");
}

std::string replaced(std::string axes, std::string_view axis, const std::string& parts) {
    axes = cat(" ", axes, " ");
    axes.replace(axes.find(cat(" ", axis, " ")) + 1, axis.size(), parts);
    return axes.substr(1, axes.size() - 2);
}

void check_embeddings(const Given& given, int stages) {
    for (const auto* each : {"embedding_stages", "position_embedding_stages"}) {
        refuse_if(given.is_none(each) || given.numbers(each).empty(), Fault::missing,
                  "an embedding is on no stage; name at least one");
        auto distinct = std::set<int>{};
        for (const auto stage : given.numbers(each)) {
            refuse_if(stage < -stages || stage >= stages, Fault::out_of_range, "an embedding on stage ",
                      stage, " of ", stages, "; stages are ", -stages, "..", stages - 1);
            distinct.insert(stage < 0 ? stage + stages : stage);
        }
        refuse_if(distinct.size() > Group::max_picked, Fault::out_of_range, "an embedding is on ",
                  distinct.size(), " stages; name ", Group::max_picked, " at most");
    }
}

const std::vector<int>& levels(const Given& given) {
    static const auto none = std::vector<int>{};
    return given.is_none(level_sizes) ? none : given.numbers(level_sizes);
}

/// Throws what the original asserts while it makes groups, in its order, before any is made.
void check(Given& given) {
    for (const auto* name :
         {"virtual_pipeline_model_parallel_size", "num_distributed_optimizer_instances", "local_world_size"})
        if (!given.is_none(name)) check_size(name, given.number(name));
    for (const auto size : levels(given)) check_size(level_sizes, size);
    const auto instances = given.number("num_distributed_optimizer_instances");
    refuse_if(
        (given.number("gtp_remat_size") > 1 || given.number("expert_gtp_remat_size") > 1) && instances > 1,
        Fault::exclusive, "GTP_remat with num_distributed_optimizer_instances > 1 is not yet supported.");
    const auto tp = given.number("tensor_model_parallel_size");
    const auto pp = given.number("pipeline_model_parallel_size");
    const auto cp = given.number("context_parallel_size");
    const auto& order = given.word("order");
    const auto offset = given.number("rank_offset");
    const auto dp = rest_of(given,
                            {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                             "context_parallel_size", "gtp_remat_size"},
                            "");
    refuse_if(!given.is_none("virtual_pipeline_model_parallel_size") && pp < 2, Fault::sizes,
              "pipeline-model-parallel size should be greater than 1 with interleaved schedule");
    const auto dense = in_order(inject_gtp_remat_axis(order, "tp"),
                                {tp, pp, dp, 1, cp, given.number("gtp_remat_size")}, offset);
    given.derive("expert_tensor_parallel_size", given.number("expert_tensor_parallel_size", tp));
    const auto edp = rest_of(given,
                             {"expert_tensor_parallel_size", "expert_model_parallel_size",
                              "pipeline_model_parallel_size", "expert_gtp_remat_size"},
                             "expert_tensor_model_pipeline_parallel size (");
    const auto experts =
        in_order(inject_gtp_remat_axis(order, "ep"),
                 {given.number("expert_tensor_parallel_size"), pp, edp,
                  given.number("expert_model_parallel_size"), 1, given.number("expert_gtp_remat_size")},
                 offset);
    refuse_if(!order.ends_with("pp") && pp != 1 && edp != dp, Fault::sizes,
              "When not using pp-last rank ordering, the data parallel size of the attention and moe "
              "layers must be the same");
    if (const auto own = stride_of_stages(dense), other = stride_of_stages(experts); pp > 1 && own != other)
        throw Error(Fault::sizes,
                    "Pipeline parallel groups are expected to be the same for Non-Expert and Expert "
                    "part, but got ",
                    pipelines(own, pp, local_world(given), offset), " and ",
                    pipelines(other, pp, local_world(given), offset));
    const auto ranks = dp * cp;
    refuse_if(ranks % instances != 0, Fault::sizes,
              "Data parallel size should be divisible by partial DistOpt shard factor");
    if (const auto end = std::int64_t{offset} + local_world(given); end > given.world_size())
        throw Error(Fault::out_of_range, "the groups would reach rank ", end - 1, " of a world of ",
                    given.world_size(), "; rank_offset and local_world_size stay inside it");
    refuse_if(given.flag("hybrid_context_parallel") && ranks % 2 != 0, Fault::sizes,
              "Hybrid context parallel requires an even number of ranks");
    auto product = std::int64_t{1};
    for (const auto size : levels(given)) product *= size;
    refuse_if(!levels(given).empty() && product != cp, Fault::sizes,
              "the hierarchical_context_parallel_sizes make ", product, ", not the context_parallel_size of ",
              cp);
    check_embeddings(given, pp);
    refuse_if(edp % instances != 0, Fault::sizes,
              "Expert data parallel size should be divisible by partial DistOpt shard factor");
    refuse_if(std::ranges::find(dense.axes, "tp", &std::pair<std::string, int>::first) == dense.axes.end(),
              Fault::unknown, "'tp' is not in the order ", dense.text);
    for (const auto& [name, size] :
         std::initializer_list<std::pair<std::string_view, int>>{{"dp", dp},
                                                                 {"edp", edp},
                                                                 {"inter", instances},
                                                                 {"intra", edp / instances},
                                                                 {"dp_cp_of_instance", ranks / instances}})
        given.derive(name, size);
    for (std::size_t i = 0; i < levels(given).size(); ++i) given.derive(cat("l", i), levels(given)[i]);
    given.derive(dense_axes, axes_of(dense, false));
    given.derive(expert_axes, axes_of(experts, true));
}

/// Lists meshes in the setting `order`, and the kinds that have a number in their names.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds) {
    const auto& dense = given.word(dense_axes);
    const auto& experts = given.word(expert_axes);
    meshes = {{"dense", dense}, {"experts", experts}, {"instances", replaced(experts, "edp", "inter intra")}};
    const auto level_count = static_cast<int>(levels(given).size());
    const auto parts_but = [&](int level) {  // outermost first
        auto parts = std::string{};
        for (int other = level_count - 1; other >= 0; --other)
            if (other != level) parts += cat(parts.empty() ? "" : " ", "l", other);
        return parts;
    };
    if (level_count > 0) meshes.push_back({"levels", replaced(dense, "cp", parts_but(-1))});
    const auto rows = std::exchange(kinds.rows, {});
    kinds.rows.reserve(rows.size());
    const auto add = [&](KindRow row, const std::string& suffix, const std::string& groups) {
        row.name += suffix;
        row.brief += suffix;
        row.groups = groups;
        kinds.add(std::move(row));
    };
    const auto ranks = given.number("dp") * given.number("context_parallel_size");
    for (const auto* row : rows) {
        if (row->name == hybrid) {  // powers of 2 from 2 on, below the last one that fits
            for (int size = 2; given.flag("hybrid_context_parallel") && size * 2 <= ranks; size *= 2)
                add(*row, cat("_", size), cat("* | dp cp / ", size));
        } else if (row->name == hierarchical) {
            for (int level = 0; level < level_count; ++level)
                add(*row, cat("_L", level), cat("levels: * ", parts_but(level), " | l", level));
        } else {
            kinds.rows.push_back(row);
        }
    }
}

// --- rows

constexpr auto on_host = "create_gloo_process_groups", of_remat = "gtp_remat_size > 1",
               of_instances = "num_distributed_optimizer_instances > 1",
               of_instances_on_host =
                   "create_gloo_process_groups and num_distributed_optimizer_instances > 1";

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
                       .at = name == "EMBEDDING_GROUP"            ? "embedding_stages"
                             : name == "POSITION_EMBEDDING_GROUP" ? "position_embedding_stages"
                                                                  : "",
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

Framework framework() {
    return {.name = "megatron",
            .version = "0.16.1, and August 2026",
            .original = "megatron.core.parallel_state",
            .title = "Megatron-core's parallel_state of August 2026.",
            .settings_of =
                "the flags of Megatron-core of 2026, or the arguments of its initialize_model_parallel; "
                "needs the world's size",
            .example = "-- --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 16",
            .settings = settings(),
            .meshes = {{"dense", "pp dp cp tp"},
                       {"experts", "pp edp ep etp"},
                       {"instances", "pp inter intra ep etp"}},
            .kinds = kinds(),
            .accessors = accessors(),
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
            .base = "Answers",
            .start = {.programs = "megatron"}};  // of ms-swift
}

}  // namespace rankmesh::frameworks::of_megatron
