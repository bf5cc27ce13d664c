// SPDX-License-Identifier: Apache-2.0
// The getters and setters of Megatron-core's parallel_state.
#include "frameworks/megatron/megatron.hpp"
#include "frameworks/stages.hpp"

namespace rankmesh::frameworks::of_megatron {

using of_stages::number, of_stages::in_pipeline;

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

// --- which group the options mean

bool is(const Given& options, std::string_view name) { return options.has(name) && options.flag(name); }

using Names = std::vector<std::string_view>;

Names data_parallel(const State&, const Given& options) {
    const auto cp = is(options, "with_context_parallel"), partial = is(options, "partial_data_parallel");
    refuse_if(partial && !cp, Fault::missing, no_partial);
    if (cp && !partial && is(options, "independent_all_gather")) return {all_gather};
    auto kinds = Names{};
    if (partial) kinds.emplace_back("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP");
    if (is(options, "with_gtp_remat"))
        kinds.emplace_back(cp ? "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT"
                              : "DATA_PARALLEL_GROUP_WITH_GTP_REMAT");
    kinds.emplace_back(cp ? "DATA_PARALLEL_GROUP_WITH_CP" : data);
    return kinds;
}
Names data_parallel_gloo(const State& state, const Given& options) {
    const auto cp = is(options, "with_context_parallel"), partial = is(options, "partial_data_parallel");
    refuse_if(partial && !cp && find(state, "DATA_PARALLEL_GROUP_GLOO"), Fault::missing, no_partial);
    if (!cp) return {"DATA_PARALLEL_GROUP_GLOO"};
    auto kinds = Names{"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO", "DATA_PARALLEL_GROUP_WITH_CP_GLOO"};
    if (!partial) kinds.erase(kinds.begin());
    return kinds;
}
constexpr auto expert_data =
    "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0 if partial_expert_data_parallel, "
    "EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT if with_gtp_remat, EXPERT_DATA_PARALLEL_GROUP";

std::string of_size(const Given& given, const Given& options) {
    refuse_if(options.is_none("group_size"), Fault::unknown, "give the group_size of a hybrid group");
    const auto size = options.number("group_size");
    const auto ranks = given.number("dp") * given.number("context_parallel_size");
    if (size == ranks * given.number("gtp_remat_size")) return "DATA_PARALLEL_GROUP_WITH_CP";
    const auto is_power = size > 1 && (size & (size - 1)) == 0;
    refuse_if(!given.flag("hybrid_context_parallel") || !is_power || size > ranks / 2, Fault::unknown,
              "there is no hybrid group of size ", size);
    return cat(hybrid, "_", size);
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

Value holds_embedding(const State& state, const Given& options) {
    if (!find(state, "EMBEDDING_GROUP")) return false;
    if (options.flag("ignore_virtual")) return true;
    const auto& stages =
        Access::given(state).numbers("embedding_stages");  // as get_embedding_ranks lists them
    if (state.rank() == in_pipeline(state, stages.front())) return of_stages::is_first_stage(state, options);
    if (state.rank() == in_pipeline(state, stages.back())) return of_stages::is_last_stage(state, options);
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
    auto places = std::vector<int>{};
    for (const auto* name : {"tensor_model_parallel", "gtp_weight_remat", "data_parallel", "context_parallel",
                             "pipeline_model_parallel", "expert_model_parallel"})
        places.push_back(number(state, cat("get_", name, "_rank")));
    return joined(places, "_");
}

Setting flag(const char* name, bool otherwise = false) { return {name, Type::flag, {}, otherwise}; }
Setting checked() { return flag("check_initialized", true); }
Setting gtp() { return flag("with_gtp_remat", true); }

const auto* const no_pipeline = "Pipeline parallel group is not initialized";

// --- rows

/// What a number is where there is no group: an error, 0 in no world, or 0 anywhere.
enum class Without { raises, in_no_world, anywhere };

struct Own {
    std::string_view name, noun, gets, sets = {};  ///< as of `Named`
    Without without = Without::raises;
};
using enum Without;
constexpr Own names[] = {
    {"model_parallel", "group of the ranks that hold one replica", "group"},
    {"tensor_model_parallel", "tensor-parallel group", "group rank world_size", "rank world_size"},
    {"pipeline_model_parallel", "pipeline", "group rank world_size", "rank world_size"},
    {"data_parallel", "data-parallel group", "rank world_size", "rank", in_no_world},
    {"context_parallel", "context-parallel group", "group global_ranks rank world_size", "", in_no_world},
    {"embedding", "pipeline, those that hold word embeddings", "group"},
    {"position_embedding", "pipeline, those that hold position embeddings", "group"},
    {"tensor_and_context_parallel", "tensor and context parallel group", "group rank world_size", "",
     in_no_world},
    {"gtp_weight_remat", "weight-shard group", "group global_ranks rank world_size", "", anywhere},
    {"expert_gtp_weight_remat", "expert weight-shard group", "group global_ranks rank world_size", "",
     anywhere},
    {"expert_model_parallel", "group of the ranks with other experts", "group rank world_size",
     "rank world_size", in_no_world},
    {"expert_tensor_parallel", "group that shares an expert", "group rank world_size", "rank world_size"},
    {"expert_tensor_and_model_parallel", "group that holds one set of experts on a stage",
     "group rank world_size", "", in_no_world},
    {"expert_data_parallel", "group of the ranks with the same experts", "rank world_size", "", in_no_world},
    {"intra_distributed_optimizer_instance", "optimizer instance", "group"},
    {"inter_distributed_optimizer_instance", "group of counterparts in all optimizer instances", "group"},
    {"virtual_pipeline_model_parallel", "", "", "rank world_size"}};

/// What Megatron's rows have besides.
void complete(AccessorRow& row, Without without) {
    if (row.quantity == Quantity::action) return;
    if (row.quantity == Quantity::group || row.quantity == Quantity::ranks) {
        row.options = {checked()};
        return;
    }
    if (row.kind == expert_tensor) {
        row.code = row.quantity == Quantity::rank ? expert_tensor_number<false> : expert_tensor_number<true>;
        row.quantity = Quantity::value;
        row.type = Type::maybe_number;
    } else if (row.kind == data) {
        row.kinds = data_parallel;
        row.options = {flag("with_context_parallel"), gtp(), flag("partial_data_parallel")};
    } else if (row.kind == "EXPERT_DATA_PARALLEL_GROUP") {
        row.among = expert_data;
        row.options = {gtp(), flag("partial_expert_data_parallel")};
    }
    if (without == in_no_world) row.no_world = 0;
    if (without == anywhere) row.without = 0;
    row.doc.pop_back();
    row.doc += row.kind == expert_tensor ? " for it, else for tensor parallelism."
               : without == in_no_world  ? "; 0 where no world is known."
               : without == anywhere     ? "; 0 where there is no group."
                                         : ".";
}

void add_chosen(std::vector<AccessorRow>& rows) {
    const auto cp = flag("with_context_parallel"), partial = flag("partial_data_parallel"),
               partial_expert = flag("partial_expert_data_parallel");
    auto apart = flag("independent_all_gather");
    apart.apart = true;
    const auto add = [&](const char* name, const std::string& among, std::vector<Setting> options,
                         const char* doc, const char* missing = "") {
        rows.push_back(
            {.name = name, .doc = doc, .options = std::move(options), .missing = missing, .among = among});
    };
    add("get_data_parallel_group", "", {cp, gtp(), partial, apart},
        "Those who hold other samples: also along cp, along gtp_remat, or of one optimizer instance only.\n\n"
        "With context parallelism `independent_all_gather` is the second group of "
        "`create_all_gather_group`.");
    rows.back().kinds = data_parallel;
    add("get_data_parallel_group_gloo", "", {cp, partial}, "The same on the host.");
    rows.back().kinds = data_parallel_gloo;
    constexpr auto tensor_and_data =
        "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP if with_context_parallel, TENSOR_AND_DATA_PARALLEL_GROUP";
    add("get_amax_reduction_group",
        cat("TENSOR_AND_CONTEXT_PARALLEL_GROUP if tp_only_amax_red and with_context_parallel, "
            "TENSOR_MODEL_PARALLEL_GROUP if tp_only_amax_red, ",
            tensor_and_data),
        {cp, flag("tp_only_amax_red")},
        "The ranks that agree on a largest value: tensor with data or context parallel ranks.",
        "FP8 amax reduction group is not initialized");
    add("get_tensor_and_data_parallel_group", tensor_and_data, {checked(), cp},
        "The tensor and data parallel ranks of one stage.",
        "tensor and data parallel group is not initialized");
    add("get_expert_tensor_model_pipeline_parallel_group",
        "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP if with_egtp_remat, "
        "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
        {checked(), flag("with_egtp_remat")}, "All ranks that hold one set of experts on any stage.");
    add("get_expert_data_parallel_group", expert_data, {checked(), gtp(), partial_expert},
        "The ranks that hold the same experts: also along gtp_remat, or of one optimizer instance only.");
    add("get_expert_data_parallel_group_gloo",
        "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0 if partial_expert_data_parallel, "
        "EXPERT_DATA_PARALLEL_GROUP_GLOO",
        {partial_expert}, "The same on the host.");
    rows.push_back(computed("get_hierarchical_context_parallel_groups", Type::number, levels_of,
                            "A list of one group a level, innermost first.", {checked()},
                            Quantity::group_list));
    rows.push_back({.name = "get_hybrid_data_context_parallel_groups",
                    .kind = hybrid.data(),
                    .doc = "The group of `group_size` consecutive data and context parallel ranks.",
                    .options = {checked(), {"group_size", Type::maybe_number}},
                    .choose = of_size,
                    .missing = "data parallel group with CP (with GTP_remat) is not initialized"});
}

void add_firsts(std::vector<AccessorRow>& rows) {
    const auto add = [&](const char* name, const char* kind, const char* missing, const char* doc) {
        rows.push_back(
            {.name = name, .kind = kind, .quantity = Quantity::first, .doc = doc, .missing = missing});
    };
    add("get_tensor_model_parallel_src_rank", "TENSOR_MODEL_PARALLEL_GROUP",
        "Tensor model parallel group is not initialized",
        "The first rank of this rank's tensor-parallel group.");
    add("get_model_parallel_src_rank", "MODEL_PARALLEL_GROUP", "Model parallel group is not initialized",
        "The first rank of this rank's replica.");
    add("get_expert_model_parallel_src_rank", "EXPERT_MODEL_PARALLEL_GROUP",
        "Expert model parallel group is not initialized",
        "The first rank of this rank's expert-parallel group.");
    add("get_pipeline_model_parallel_first_rank", "PIPELINE_MODEL_PARALLEL_GROUP", no_pipeline,
        "The rank in the first stage of this rank's pipeline.");
    add("get_data_parallel_src_rank", "", "Data parallel group is not initialized",
        "The first rank of this rank's data-parallel group without weight re-materialisation, unlike "
        "get_data_parallel_rank.");
    rows.back().among = "DATA_PARALLEL_GROUP_WITH_CP if with_context_parallel, DATA_PARALLEL_GROUP";
    rows.back().options = {flag("with_context_parallel")};
}

std::vector<AccessorRow> accessors() {
    auto rows = std::vector<AccessorRow>{};
    for (const auto& [name, noun, gets, sets, without] : names) {
        const auto kind = name.starts_with("inter_") ? "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1"
                                                     : upper(cat(name, "_GROUP"));
        for (auto& row : accessors_of({{name, kind, noun, gets, sets}})) {
            complete(row, without);
            rows.push_back(std::move(row));
        }
    }
    add_chosen(rows);
    add_firsts(rows);
    const auto stage = std::vector<Setting>{flag("ignore_virtual", true), {"vp_stage", Type::maybe_number}};
    const auto add = [&](auto... parts) { rows.push_back(computed(std::move(parts)...)); };
    add("is_rank_in_embedding_group", Type::flag, holds_embedding,
        "True if this rank's stage holds word embeddings, as its pipeline's first or last in the virtual "
        "stage asked for.",
        stage);
    add("is_rank_in_position_embedding_group", Type::flag, has<positions>,
        "True if this rank's stage holds position embeddings.");
    add("is_initialized", Type::flag, has<data>, "True if this rank has a data-parallel group.");
    add("has_separate_all_gather_group", Type::flag, has<all_gather>,
        "True if `create_all_gather_group` made this rank a group to gather in.");
    add("get_all_ranks", Type::word, all_ranks, "`tp_gtp_dp_cp_pp_ep` of this rank: `0_0_2_1_0_0`.");
    for (auto& row : of_stages::accessors(stage)) rows.push_back(std::move(row));
    rows.push_back({.name = "_PIPELINE_GLOBAL_RANKS",
                    .kind = "PIPELINE_MODEL_PARALLEL_GROUP",
                    .quantity = Quantity::ranks,
                    .doc = "The ranks of this rank's pipeline.",
                    .missing = no_pipeline});
    return rows;
}

// --- the text `order`, which lists axes innermost first: of `tp-dp-pp` tp is fastest

std::vector<std::string> tokens(std::string_view joined) {
    auto parts = std::vector<std::string>(1);
    for (const auto c : joined)
        if (c == '-')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

std::string inject_gtp_remat_axis(std::string_view order, std::string_view after) {
    auto names = tokens(order);
    if (std::ranges::find(names, "gtp_remat") != names.end()) return std::string(order);
    auto anchor = std::ranges::find(names, after);
    if (anchor == names.end()) anchor = std::ranges::find(names, "tp");
    names.insert(anchor == names.end() ? names.begin() : anchor + 1, "gtp_remat");
    return joined(names, "-");
}

Ordered in_order(std::string_view order, const std::vector<int>& sizes, int rank_offset) {
    // In the order in which the original looks at them.
    constexpr std::string_view known[] = {"tp", "pp", "dp", "ep", "cp", "gtp_remat"};
    const auto lacks = [&](Fault fault, std::size_t i) {
        return Error(fault, cat("The size of (", known[i], ") is (", sizes[i],
                                "), but you haven'tspecified the order (", order, ")."));
    };
    auto made = Ordered{std::string(order), {}};
    for (auto& c : made.text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        // The text is searched, not its tokens: "gtp_remat" hides that tp is not there.
        if (made.text.find(known[i]) != std::string::npos) continue;
        if (sizes[i] != 1) throw lacks(Fault::missing, i);
        made.text += cat("-", known[i]);
    }
    auto listed = std::vector<int>(sizes.size());  // how often
    for (const auto& name : tokens(made.text)) {
        const auto i = static_cast<std::size_t>(std::ranges::find(known, name) - std::begin(known));
        refuse_if(i == sizes.size(), Fault::unknown, "the order (", order, ") names '", name,
                  "'; the axes are tp, pp, dp, ep, cp and gtp_remat");
        // An axis of size 1 that is listed again adds nothing.
        if (++listed[i] == 1) made.axes.emplace(made.axes.begin(), name, sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 1)
            throw Refusal(Fault::sizes, "sizes-below-one", "a size of ", sizes[i], " was given for ",
                          known[i], "; every size is 1 or more");
        if (sizes[i] > 1 && listed[i] > 1)
            throw Refusal(Fault::argument, "axis-twice", "the order (", order, ") lists ", known[i],
                          " twice; list it once");
    }
    if (rank_offset < 0)
        throw Refusal(Fault::out_of_range, "offset-below-zero", "a rank offset of ", rank_offset,
                      " was given; it is 0 or more");
    if (sizes[0] > 1 && listed[0] == 0) throw lacks(Fault::sizes, 0);
    return made;
}

}  // namespace rankmesh::frameworks::of_megatron
