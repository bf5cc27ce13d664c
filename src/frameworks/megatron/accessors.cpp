// SPDX-License-Identifier: Apache-2.0
// The getters and setters of Megatron-core's parallel_state.
#include <array>
#include <tuple>

#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::frameworks::of_megatron {

using detail::cat;

namespace {

constexpr auto virtual_size = "virtual_pipeline_model_parallel_world_size";
constexpr auto stage_of_rank = "get_pipeline_model_parallel_rank";
constexpr auto stage_count = "get_pipeline_model_parallel_world_size";
constexpr auto no_partial = "Partial DP for Optimizer needs to include CP";

std::optional<GroupPart> find(const State& state, std::string_view kind) {
    if (!state.is_initialized() || !state.groups().has(kind)) return std::nullopt;
    return state.groups().of(kind, state.rank());
}
template <const std::string_view& kind>
Value has(const State& state, const Given&) {
    return find(state, kind).has_value();
}
constexpr std::string_view data = "DATA_PARALLEL_GROUP", all_gather = "DATA_PARALLEL_GROUP_WITH_CP_AG",
                           positions = "POSITION_EMBEDDING_GROUP",
                           expert_tensor = "EXPERT_TENSOR_PARALLEL_GROUP";

int number(const State& state, const char* accessor) { return std::get<int>(state.ask(accessor)); }

// --- which group the options mean, and what the original says without it

bool has_gtp(const Given& options) { return options.has("with_gtp_remat") && options.flag("with_gtp_remat"); }
std::string not_there(std::string_view what, const Given& options) {
    return cat(what, has_gtp(options) ? " (with GTP_remat)" : "", " is not initialized");
}

bool is_all_gather(const Given& options) {
    return options.has("independent_all_gather") && options.flag("independent_all_gather") &&
           options.flag("with_context_parallel") && !options.flag("partial_data_parallel");
}
std::string data_parallel(const Given& given, const Given& options) {
    const auto gtp = has_gtp(options) && given.number("gtp_remat_size") > 1;
    if (!options.flag("with_context_parallel"))
        return gtp ? "DATA_PARALLEL_GROUP_WITH_GTP_REMAT" : "DATA_PARALLEL_GROUP";
    if (is_all_gather(options)) return std::string(all_gather);
    if (options.flag("partial_data_parallel") && given.number("num_distributed_optimizer_instances") > 1)
        return "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP";
    return gtp ? "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT" : "DATA_PARALLEL_GROUP_WITH_CP";
}
std::string no_data_parallel(const Given& options) {
    const auto cp = options.flag("with_context_parallel"), partial = options.flag("partial_data_parallel");
    if (partial && !cp) throw Error(Fault::missing, no_partial);
    if (is_all_gather(options)) return "data parallel group with context parallel AG is not initialized";
    return not_there(!cp       ? "data parallel group"
                     : partial ? "intra partial data parallel group with CP"
                               : "data parallel group with CP",
                     options);
}

std::string data_parallel_gloo(const Given& given, const Given& options) {
    const auto cp = options.flag("with_context_parallel"), partial = options.flag("partial_data_parallel");
    if (partial && !cp && given.flag("create_gloo_process_groups")) throw Error(Fault::missing, no_partial);
    if (cp && partial && given.number("num_distributed_optimizer_instances") > 1)
        return "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO";
    return cp ? "DATA_PARALLEL_GROUP_WITH_CP_GLOO" : "DATA_PARALLEL_GROUP_GLOO";
}
std::string no_data_parallel_gloo(const Given& options) {
    if (!options.flag("with_context_parallel")) return "data parallel group-gloo is not initialized";
    return options.flag("partial_data_parallel")
               ? "Intra partial data parallel group is not initialized"
               : "data parallel group-gloo with context parallel combined is not initialized";
}

std::string data_parallel_source(const Given&, const Given& options) {
    return options.flag("with_context_parallel") ? "DATA_PARALLEL_GROUP_WITH_CP" : "DATA_PARALLEL_GROUP";
}
std::string no_data_parallel_source(const Given& options) {
    return cat("Data parallel group",
               options.flag("with_context_parallel") ? " with context parallel combined" : "",
               " is not initialized");
}

std::string expert_data(const Given& given, const Given& options) {
    if (options.flag("partial_expert_data_parallel") &&
        given.number("num_distributed_optimizer_instances") > 1)
        return "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0";
    return has_gtp(options) && given.number("expert_gtp_remat_size") > 1
               ? "EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT"
               : "EXPERT_DATA_PARALLEL_GROUP";
}
std::string expert_data_gloo(const Given& given, const Given& options) {
    return options.flag("partial_expert_data_parallel") &&
                   given.number("num_distributed_optimizer_instances") > 1
               ? "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0"
               : "EXPERT_DATA_PARALLEL_GROUP_GLOO";
}
template <bool on_host>
std::string no_expert_data(const Given& options) {
    return not_there(cat(options.flag("partial_expert_data_parallel") ? "Intra partial expert" : "Expert",
                         " data parallel group", on_host ? "-gloo" : ""),
                     options);
}

std::string expert_pipeline(const Given&, const Given& options) {
    return cat("EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
               options.flag("with_egtp_remat") ? "_WITH_EGTP" : "");
}
std::string no_expert_pipeline(const Given& options) {
    return cat("Expert tensor-model-pipeline parallel group",
               options.flag("with_egtp_remat") ? " with EGTP" : "", " is not initialized");
}

std::string tensor_and_data(const Given&, const Given& options) {
    return cat("TENSOR_AND_DATA_PARALLEL_GROUP", options.flag("with_context_parallel") ? "_WITH_CP" : "");
}
std::string amax(const Given& given, const Given& options) {
    if (!options.flag("tp_only_amax_red")) return tensor_and_data(given, options);
    return options.flag("with_context_parallel") ? "TENSOR_AND_CONTEXT_PARALLEL_GROUP"
                                                 : "TENSOR_MODEL_PARALLEL_GROUP";
}

std::string of_size(const Given& given, const Given& options) {
    const auto size = options.number("group_size");
    if (size == given.number("dp") * given.number("context_parallel_size") * given.number("gtp_remat_size"))
        return "DATA_PARALLEL_GROUP_WITH_CP";
    const auto ranks = given.number("dp") * given.number("context_parallel_size");
    const auto is_power = size > 1 && (size & (size - 1)) == 0;
    if (!given.flag("hybrid_context_parallel") || !is_power || size > ranks / 2)
        throw Error(Fault::unknown, cat("there is no hybrid group of size ", size));
    return cat(hybrid, "_", size);
}
std::string no_hybrid(const Given& options) {
    if (options.is_none("group_size")) throw Error(Fault::unknown, "give the group_size of a hybrid group");
    return "data parallel group with CP (with GTP_remat) is not initialized";
}

Value levels_of(const State& state, const Given& options) {
    auto kinds = std::vector<std::string>{};
    const auto count = state.is_initialized() ? levels(Access::given(state)).size() : 0;
    for (std::size_t level = 0; level < count; ++level) kinds.push_back(cat(hierarchical, "_L", level));
    if (!kinds.empty() && find(state, kinds[0])) return kinds;
    if (!options.flag("check_initialized")) return {};
    throw Error(Fault::not_initialised,
                "hierarchical context parallel groups are not initialized; give "
                "hierarchical_context_parallel_sizes");
}

// --- stages

/// The rank on a stage of this rank's pipeline, which may be counted from the end, as an index in Python.
int in_pipeline(const State& state, int stage) {
    const auto pipeline = *state.group("__pipeline");
    if (stage < -pipeline.size() || stage >= pipeline.size())
        throw Error(Fault::out_of_range, cat("stage ", stage, " of a pipeline of ", pipeline.size()));
    return pipeline[stage < 0 ? stage + pipeline.size() : stage];
}
Value last_in_pipeline(const State& state, const Given&) {
    in_pipeline(state, 0);
    return in_pipeline(state, number(state, stage_count) - 1);
}
template <int by>
Value beside_in_pipeline(const State& state, const Given&) {
    in_pipeline(state, 0);
    const auto stages = number(state, stage_count);
    if (stages == 0) throw Error(Fault::sizes, "the next stage of 0 stages");
    const auto left = (number(state, stage_of_rank) + by) % stages;
    return in_pipeline(state, left != 0 && (left < 0) != (stages < 0) ? left + stages : left);
}

/// True in that virtual stage, the last one for -1, and where they are ignored or there are none.
bool is_virtual_stage(const State& state, const Given& options, int wanted) {
    const auto* size = Access::slot(state, virtual_size);
    if (options.flag("ignore_virtual") || !size) return true;
    if (options.is_none("vp_stage"))
        throw Error(Fault::missing, "vp_stage must be passed if virtual pipeline is enabled");
    return options.number("vp_stage") == (wanted < 0 ? std::get<int>(*size) - 1 : wanted);
}
Value is_first_stage(const State& state, const Given& options) {
    return is_virtual_stage(state, options, 0) && number(state, stage_of_rank) == 0;
}
Value is_last_stage(const State& state, const Given& options) {
    return is_virtual_stage(state, options, -1) &&
           number(state, stage_of_rank) == number(state, stage_count) - 1;
}
Value holds_embedding(const State& state, const Given& options) {
    if (!find(state, "EMBEDDING_GROUP")) return false;
    if (options.flag("ignore_virtual")) return true;
    const auto& stages =
        Access::given(state).numbers("embedding_stages");  // as get_embedding_ranks lists them
    if (state.rank() == in_pipeline(state, stages.front())) return is_first_stage(state, options);
    if (state.rank() == in_pipeline(state, stages.back())) return is_last_stage(state, options);
    return true;
}

// --- numbers

/// This rank's place in the experts' tensor group or its size; without a group, what was set of the dense
/// one.
template <bool of_size>
Value expert_tensor_number(const State& state, const Given&) {
    if (const auto own = find(state, expert_tensor))
        return of_size ? own->size() : own->group_rank(state.rank()).value_or(0);
    const auto* set =
        Access::slot(state, of_size ? "tensor_model_parallel_world_size" : "tensor_model_parallel_rank");
    return set ? *set : Value();
}

Value all_ranks(const State& state, const Given&) {
    auto text = std::string{};
    for (const auto* name : {"tensor_model_parallel", "gtp_weight_remat", "data_parallel", "context_parallel",
                             "pipeline_model_parallel", "expert_model_parallel"})
        text += cat(text.empty() ? "" : "_", number(state, cat("get_", name, "_rank").c_str()));
    return text;
}

Value nothing(const State&, const Given&) { return {}; }

Setting flag(const char* name, bool otherwise = false) {
    return {.name = name, .otherwise = otherwise, .type = Type::flag};
}
Setting maybe(const char* name, bool needed = false) {
    return {.name = name, .otherwise = {}, .type = Type::maybe_number, .needed = needed};
}

const auto* const no_pipeline = "Pipeline parallel group is not initialized";

// --- rows

using Choose = std::string (*)(const Given&, const Given&);
using Says = std::string (*)(const Given&);

void add_groups(std::vector<AccessorRow>& rows) {
    using enum Quantity;
    const auto check = flag("check_initialized", true), cp = flag("with_context_parallel"),
               gtp = flag("with_gtp_remat", true), partial = flag("partial_data_parallel"),
               partial_expert = flag("partial_expert_data_parallel");
    for (const auto& [name, kind, doc] : std::initializer_list<std::array<const char*, 3>>{
             {"model_parallel", "MODEL_PARALLEL_GROUP",
              "Tensor and pipeline parallel ranks of one replica, those of weight re-materialisation with "
              "them."},
             {"tensor_model_parallel", "TENSOR_MODEL_PARALLEL_GROUP", "This rank's tensor-parallel group."},
             {"pipeline_model_parallel", "PIPELINE_MODEL_PARALLEL_GROUP", "This rank's pipeline."},
             {"context_parallel", "CONTEXT_PARALLEL_GROUP", "This rank's context-parallel group."},
             {"embedding", "EMBEDDING_GROUP",
              "The ranks of this rank's pipeline that hold word embeddings, on these stages."},
             {"position_embedding", "POSITION_EMBEDDING_GROUP",
              "The ranks of this rank's pipeline that hold position embeddings, on these stages."},
             {"tensor_and_context_parallel", "TENSOR_AND_CONTEXT_PARALLEL_GROUP",
              "The tensor and context parallel ranks of one replica's stage."},
             {"gtp_weight_remat", "GTP_WEIGHT_REMAT_GROUP",
              "The ranks that share the pieces of a weight that is gathered before use."},
             {"expert_gtp_weight_remat", "EXPERT_GTP_WEIGHT_REMAT_GROUP",
              "The ranks that share the pieces of an expert's weight."},
             {"expert_model_parallel", "EXPERT_MODEL_PARALLEL_GROUP", "The ranks that hold other experts."},
             {"expert_tensor_parallel", "EXPERT_TENSOR_PARALLEL_GROUP",
              "The ranks that hold the other pieces of an expert."},
             {"expert_tensor_and_model_parallel", "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
              "All ranks that hold one set of experts on a stage."},
             {"intra_distributed_optimizer_instance", "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
              "All ranks of one optimizer instance."},
             {"inter_distributed_optimizer_instance", "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",
              "This rank's counterparts in the other optimizer instances."}})
        rows.push_back({cat("get_", name, "_group"), kind, group, doc, {check}});
    for (const auto& [name, kind] : std::initializer_list<std::array<const char*, 2>>{
             {"context_parallel", "CONTEXT_PARALLEL_GROUP"},
             {"gtp_weight_remat", "GTP_WEIGHT_REMAT_GROUP"},
             {"expert_gtp_weight_remat", "EXPERT_GTP_WEIGHT_REMAT_GROUP"}})
        rows.push_back({cat("get_", name, "_global_ranks"),
                        kind,
                        ranks,
                        cat("The ranks of the group that get_", name, "_group gives."),
                        {check}});
    const auto chosen = [&](const char* name, const char* kind, Choose choose, Says says, const char* doc,
                            std::vector<Setting> options) {
        rows.push_back({.name = name,
                        .kind = kind,
                        .doc = doc,
                        .options = std::move(options),
                        .choose = choose,
                        .says = says});
    };
    auto apart = flag("independent_all_gather");
    apart.apart = true;
    chosen("get_data_parallel_group", data.data(), data_parallel, no_data_parallel,
           "Those who hold other samples: also along cp, along gtp_remat, or of one optimizer instance "
           "only.\n\nWith context parallelism `independent_all_gather` is the second group of "
           "`create_all_gather_group`.",
           {cp, gtp, partial, apart});
    chosen("get_data_parallel_group_gloo", "DATA_PARALLEL_GROUP_GLOO", data_parallel_gloo,
           no_data_parallel_gloo, "The same on the host.", {cp, partial});
    rows.push_back({.name = "get_hierarchical_context_parallel_groups",
                    .quantity = group_list,
                    .doc = "A list of one group a level, innermost first.",
                    .options = {check},
                    .code = levels_of});
    chosen("get_hybrid_data_context_parallel_groups", hybrid.data(), of_size, no_hybrid,
           "The group of `group_size` consecutive data and context parallel ranks.",
           {check, maybe("group_size")});
    chosen("get_amax_reduction_group", "TENSOR_AND_DATA_PARALLEL_GROUP", amax,
           [](const Given&) { return std::string("FP8 amax reduction group is not initialized"); },
           "The ranks that agree on a largest value: tensor with data or context parallel ranks.",
           {cp, flag("tp_only_amax_red")});
    chosen("get_tensor_and_data_parallel_group", "TENSOR_AND_DATA_PARALLEL_GROUP", tensor_and_data,
           [](const Given&) { return std::string("tensor and data parallel group is not initialized"); },
           "The tensor and data parallel ranks of one stage.", {check, cp});
    chosen("get_expert_tensor_model_pipeline_parallel_group", "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
           expert_pipeline, no_expert_pipeline, "All ranks that hold one set of experts on any stage.",
           {check, flag("with_egtp_remat")});
    chosen("get_expert_data_parallel_group", "EXPERT_DATA_PARALLEL_GROUP", expert_data, no_expert_data<false>,
           "The ranks that hold the same experts: also along gtp_remat, or of one optimizer instance only.",
           {check, gtp, partial_expert});
    chosen("get_expert_data_parallel_group_gloo", "EXPERT_DATA_PARALLEL_GROUP_GLOO", expert_data_gloo,
           no_expert_data<true>, "The same on the host.", {partial_expert});
}

/// What a number is where there is no group: an error, 0 in no world, or 0 anywhere.
enum class Without { raises, world, group };

void add_numbers(std::vector<AccessorRow>& rows) {
    using enum Quantity;
    const auto pair = [&](const std::string& name, const char* kind, Without without,
                          std::array<const char*, 2> docs, std::string_view slots = {}) {
        for (const auto& [suffix, quantity, doc] :
             {std::tuple{"_rank", rank, docs[0]}, {"_world_size", size, docs[1]}}) {
            auto row =
                AccessorRow{.name = cat("get_", name, suffix),
                            .kind = kind,
                            .quantity = quantity,
                            .doc = without == Without::world   ? cat(doc, "; 0 where no world is known.")
                                   : without == Without::group ? cat(doc, "; 0 where there is no group.")
                                                               : cat(doc, ".")};
            if (without == Without::world) row.no_world = 0;
            if (without == Without::group) row.without = 0;
            if (slots.find(suffix) != slots.npos) row.slot = name + suffix;
            rows.push_back(std::move(row));
        }
    };
    const auto options = [&](Choose choose, Says says, std::vector<Setting> of) {
        for (auto row = rows.end() - 2; row != rows.end(); ++row) {
            row->options = of;
            row->choose = choose;
            row->says = says;
        }
    };
    const auto gtp = flag("with_gtp_remat", true);
    pair("tensor_model_parallel", "TENSOR_MODEL_PARALLEL_GROUP", Without::raises,
         {"Where this rank stands in its tensor-parallel group, or what was set",
          "The size of the tensor-parallel group, or what was set"},
         "_rank _world_size");
    pair("pipeline_model_parallel", "PIPELINE_MODEL_PARALLEL_GROUP", Without::raises,
         {"This rank's stage, or what was set", "The number of stages, or what was set"},
         "_rank _world_size");
    pair("data_parallel", data.data(), Without::world,
         {"Where this rank stands in its data-parallel group, or what was set",
          "The size of the data-parallel group"},
         "_rank");
    options(data_parallel, no_data_parallel,
            {flag("with_context_parallel"), gtp, flag("partial_data_parallel")});
    pair("context_parallel", "CONTEXT_PARALLEL_GROUP", Without::world,
         {"Where this rank stands in its context-parallel group", "The size of the context-parallel group"});
    pair("tensor_and_context_parallel", "TENSOR_AND_CONTEXT_PARALLEL_GROUP", Without::world,
         {"Where this rank stands in the tensor and context parallel group",
          "The size of the tensor and context parallel group"});
    pair("expert_model_parallel", "EXPERT_MODEL_PARALLEL_GROUP", Without::world,
         {"Where this rank stands in its expert-parallel group, or what was set",
          "The size of the expert-parallel group, or what was set"},
         "_rank _world_size");
    pair("expert_tensor_parallel", expert_tensor.data(), Without::raises,
         {"Where this rank stands in the experts' tensor-parallel group, or what was set for it, else for "
          "tensor parallelism",
          "The size of the experts' tensor-parallel group, or what was set for it, else for tensor "
          "parallelism"},
         "_rank _world_size");
    for (auto row = rows.end() - 2; row != rows.end(); ++row) {
        row->code = row->quantity == size ? expert_tensor_number<true> : expert_tensor_number<false>;
        row->quantity = value;
        row->type = Type::maybe_number;
    }
    pair("expert_data_parallel", "EXPERT_DATA_PARALLEL_GROUP", Without::world,
         {"Where this rank stands in the experts' data-parallel group",
          "The size of the experts' data-parallel group"});
    options(expert_data, no_expert_data<false>, {gtp, flag("partial_expert_data_parallel")});
    pair("expert_tensor_and_model_parallel", "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", Without::world,
         {"Where this rank stands among the ranks that hold one set of experts on a stage",
          "The number of ranks that hold one set of experts on a stage"});
    pair("gtp_weight_remat", "GTP_WEIGHT_REMAT_GROUP", Without::group,
         {"Which piece of a weight this rank has", "How many ranks share the pieces of a weight"});
    pair("expert_gtp_weight_remat", "EXPERT_GTP_WEIGHT_REMAT_GROUP", Without::group,
         {"Which piece of an expert's weight this rank has",
          "How many ranks share the pieces of an expert's weight"});
    const auto first_of = [&](const char* name, const char* kind, const char* missing, const char* doc) {
        rows.push_back({.name = name, .kind = kind, .quantity = first, .doc = doc, .missing = missing});
    };
    first_of("get_tensor_model_parallel_src_rank", "TENSOR_MODEL_PARALLEL_GROUP",
             "Tensor model parallel group is not initialized",
             "The first rank of this rank's tensor-parallel group.");
    first_of("get_data_parallel_src_rank", data.data(), "",
             "The first rank of this rank's data-parallel group without weight re-materialisation, unlike "
             "get_data_parallel_rank.");
    rows.back().options = {flag("with_context_parallel")};
    rows.back().choose = data_parallel_source;
    rows.back().says = no_data_parallel_source;
    first_of("get_model_parallel_src_rank", "MODEL_PARALLEL_GROUP", "Model parallel group is not initialized",
             "The first rank of this rank's replica.");
    first_of("get_expert_model_parallel_src_rank", "EXPERT_MODEL_PARALLEL_GROUP",
             "Expert model parallel group is not initialized",
             "The first rank of this rank's expert-parallel group.");
    first_of("get_pipeline_model_parallel_first_rank", "PIPELINE_MODEL_PARALLEL_GROUP", no_pipeline,
             "The rank in the first stage of this rank's pipeline.");
}

void add_computed(std::vector<AccessorRow>& rows) {
    using enum Quantity;
    const auto computed = [&](const char* name, Type type, auto* code, const char* doc,
                              std::vector<Setting> options = {}, const char* slot = "") {
        rows.push_back({.name = name,
                        .quantity = value,
                        .doc = doc,
                        .options = std::move(options),
                        .code = code,
                        .type = type,
                        .slot = slot});
    };
    const auto stage = std::vector{flag("ignore_virtual", true), maybe("vp_stage")};
    computed("get_pipeline_model_parallel_last_rank", Type::number, last_in_pipeline,
             "The rank in the last stage of this rank's pipeline.");
    computed("get_pipeline_model_parallel_next_rank", Type::number, beside_in_pipeline<+1>,
             "The rank in the next stage, the first after the last.");
    computed("get_pipeline_model_parallel_prev_rank", Type::number, beside_in_pipeline<-1>,
             "The rank in the stage before, the last before the first.");
    computed("is_pipeline_first_stage", Type::flag, is_first_stage,
             "True in the first stage, and there in virtual stage 0 unless that is ignored.", stage);
    computed("is_pipeline_last_stage", Type::flag, is_last_stage,
             "True in the last stage, and there in the last virtual stage unless that is ignored.", stage);
    computed(
        "is_rank_in_embedding_group", Type::flag, holds_embedding,
        "True if this rank's stage holds word embeddings, as its pipeline's first or last in the virtual "
        "stage asked for.",
        stage);
    computed("is_rank_in_position_embedding_group", Type::flag, has<positions>,
             "True if this rank's stage holds position embeddings.");
    computed("is_initialized", Type::flag, has<data>, "True if this rank has a data-parallel group.");
    computed("has_separate_all_gather_group", Type::flag, has<all_gather>,
             "True if `create_all_gather_group` made this rank a group to gather in.");
    computed("get_virtual_pipeline_model_parallel_rank", Type::maybe_number, nothing,
             "The current virtual stage; None without virtual stages.", {},
             "virtual_pipeline_model_parallel_rank");
    computed("get_virtual_pipeline_model_parallel_world_size", Type::maybe_number, nothing,
             "How many virtual stages there are; None without them.", {}, virtual_size);
    computed("get_all_ranks", Type::word, all_ranks, "`tp_gtp_dp_cp_pp_ep` of this rank: `0_0_2_1_0_0`.");
    rows.push_back({.name = "__pipeline",
                    .kind = "PIPELINE_MODEL_PARALLEL_GROUP",
                    .doc = "This rank's pipeline, for what is asked about stages.",
                    .missing = no_pipeline});
    for (const auto* name :
         {"tensor_model_parallel", "pipeline_model_parallel", "data_parallel", "expert_model_parallel",
          "expert_tensor_parallel", "virtual_pipeline_model_parallel"})
        for (const auto* number : {"rank", "world_size"})
            if (const auto slot = cat(name, "_", number); slot != "data_parallel_world_size")
                rows.push_back({.name = "set_" + slot,
                                .quantity = action,
                                .doc = "What the getter answers from now on; None: the group's own again.",
                                .options = {maybe(number, true)},
                                .slot = slot});
}

}  // namespace

std::vector<AccessorRow> accessors() {
    auto rows = std::vector<AccessorRow>{};
    add_groups(rows);
    add_numbers(rows);
    add_computed(rows);
    return rows;
}

}  // namespace rankmesh::frameworks::of_megatron
