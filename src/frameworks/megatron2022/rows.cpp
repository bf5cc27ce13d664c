// SPDX-License-Identifier: Apache-2.0
// Megatron's parallel_state of October 2022, which is vLLM's first: PP x DP x TP, tp fastest.
#include "frameworks/stages.hpp"

namespace rankmesh::frameworks::of_megatron2022 {

using of_stages::number, of_stages::virtual_rank, of_stages::virtual_size, of_stages::stage_of_rank,
    of_stages::stage_count;
constexpr auto virtual_stages = "virtual_pipeline_model_parallel_size";
constexpr auto split_rank = "pipeline_model_parallel_split_rank";

void check_first(Given& given) {
    const auto tensor = given.number("tensor_model_parallel_size");
    const auto pipeline = given.number("pipeline_model_parallel_size");
    const auto product = std::int64_t{tensor} * pipeline;
    refuse_if(product == 0 || given.world_size() % product != 0, Fault::sizes, "world_size (",
              given.world_size(), ") is not divisible by tensor_model_parallel_size (", tensor,
              ") x pipeline_model_parallel_size (", pipeline, ")");
    refuse_if(!given.is_none(virtual_stages) && pipeline <= 2, Fault::sizes,
              "pipeline-model-parallel size should be greater than 2 with interleaved schedule, "
              "not ",
              pipeline);
}

/// Throws for what the original takes as it is, or finds when half of the groups are made.
void check(Given& given) {
    if (!given.is_none(virtual_stages)) check_size(virtual_stages, given.number(virtual_stages));
    const auto stages = given.number("pipeline_model_parallel_size"), split = given.number(split_rank);
    refuse_if(stages > 1 && (split < -stages || split >= stages), Fault::out_of_range,
              "pipeline_model_parallel_split_rank ", split, " of ", stages, " stages is out of range; it is ",
              -stages, "..", stages - 1);
    given.derive("first_and_split", std::vector{0, stages > 1 ? split : 0});
    given.derive("first_split_and_last", std::vector{0, stages > 1 ? split : 0, -1});
}

Values slots(const Given& given) {
    auto set = Values{};
    if (!given.is_none(virtual_stages))
        set = {{virtual_rank, 0}, {virtual_size, given.value(virtual_stages)}};
    if (!given.is_none(split_rank)) set.emplace_back(split_rank, given.value(split_rank));
    return set;
}

Value holds_embedding(const State& state, const Given& options) {
    const auto ranks = *state.group("_EMBEDDING_GLOBAL_RANKS");
    if (options.flag("ignore_virtual") || !ranks.contains(state.rank())) return ranks.contains(state.rank());
    if (state.rank() == ranks.front()) return state.ask("is_pipeline_first_stage");
    if (state.rank() == ranks.back()) return state.ask("is_pipeline_last_stage");
    return true;
}
Value holds_position_embedding(const State& state, const Given&) {
    return state.group("_POSITION_EMBEDDING_GLOBAL_RANKS")->contains(state.rank());
}

/// The split as it was given.
Value split(const State& state, const Given&) {
    const auto* split = Access::slot(state, split_rank);
    if (!split) return {};
    if (!state.is_initialized() || Access::given(state).is_none(split_rank))
        throw Refusal(Fault::missing, "stale", "pipeline_model_parallel_split_rank was not given; ",
                      std::get<int>(*split),
                      " is left over from before destroy_model_parallel; give it, or begin with a new "
                      "State for none");
    return *split;
}
bool is_on_side(const State& state, std::int64_t stage, bool before) {
    if (number(state, stage_count) == 1) return true;
    const auto given = state.ask("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK");
    const auto* split = std::get_if<int>(&given);
    // The original makes the groups of a split that is counted from the end, and puts every stage after it.
    if (split && *split < 0)
        throw Refusal(Fault::argument, "negative-split", "pipeline_model_parallel_split_rank is ", *split,
                      ", and no stage is before or after that; give ", *split + number(state, stage_count));
    return !split || (stage < *split) == before;
}
template <bool before>
Value is_beside_split(const State& state, const Given& options) {
    return is_on_side(state, options.is_none("rank") ? number(state, stage_of_rank) : options.number("rank"),
                      before);
}
Value is_at_split(const State& state, const Given&) {
    const auto stage = std::int64_t{number(state, stage_of_rank)};
    return is_on_side(state, stage, true) && is_on_side(state, stage + 1, false);
}

Value tensor_source(const State& state, const Given&) {
    return state.rank() - state.rank() % number(state, "get_tensor_model_parallel_world_size");
}
void add_named(std::vector<AccessorRow>& rows) {
    for (auto& row : accessors_of(
             {{"model_parallel", "_MODEL_PARALLEL_GROUP", "group of the ranks that hold one replica",
               "group"},
              {"tensor_model_parallel", "_TENSOR_MODEL_PARALLEL_GROUP", "tensor-parallel group",
               "group rank world_size", "rank world_size"},
              {"pipeline_model_parallel", "_PIPELINE_MODEL_PARALLEL_GROUP", "pipeline",
               "group rank world_size", "rank world_size"},
              {"data_parallel", "_DATA_PARALLEL_GROUP", "data-parallel group", "group rank world_size"},
              {"embedding", "_EMBEDDING_GROUP", "pipeline: the first, the last and that of the split",
               "group"},
              {"position_embedding", "_POSITION_EMBEDDING_GROUP", "pipeline: the first and that of the split",
               "group"},
              {"pipeline_model_parallel_split", "", "", "", "rank"},
              {"virtual_pipeline_model_parallel", "", "", "", "rank"}})) {
        if (row.quantity == Quantity::action) row.raises = "ValueError";
        row.is_size = row.quantity == Quantity::action && row.name.ends_with("_size");
        if (row.slot == split_rank) {
            row.slot.clear();
            row.doc = "Does nothing: the original writes a variable that nobody reads.";
        }
        rows.push_back(std::move(row));
    }
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    constexpr auto pipeline = "_PIPELINE_MODEL_PARALLEL_GROUP", data = "_DATA_PARALLEL_GROUP",
                   embedding = "_EMBEDDING_GROUP", position = "_POSITION_EMBEDDING_GROUP";
    const auto ignore_virtual = Setting{"ignore_virtual", Type::flag};
    const auto stage = Setting{"rank", Type::maybe_number};
    const auto listed = [](const char* name, const char* kind, Quantity quantity, const char* missing,
                           const char* doc) {
        return AccessorRow{
            .name = name, .kind = kind, .quantity = quantity, .doc = doc, .missing = missing, .listed = true};
    };
    constexpr auto no_pipeline = "Pipeline parallel group is not initialized";
    constexpr auto no_data = "Data parallel group is not initialized";
    auto rows = std::vector<AccessorRow>{
        computed("is_rank_in_embedding_group", Type::flag, holds_embedding,
                 "True for a member; the first and last must, unless ignored, be at the first and last "
                 "virtual stage.",
                 {ignore_virtual}),
        computed("is_rank_in_position_embedding_group", Type::flag, holds_position_embedding,
                 "True for a member."),
        computed("is_pipeline_stage_before_split", Type::flag, is_beside_split<true>,
                 "True where a stage, this rank's if not given, comes before the split, or there is none.",
                 {stage}),
        computed("is_pipeline_stage_after_split", Type::flag, is_beside_split<false>,
                 "True where a stage comes not before the split, or there is none.", {stage}),
        computed("is_pipeline_stage_at_split", Type::flag, is_at_split,
                 "True where this stage comes before the split and the next one after it."),
        computed("get_tensor_model_parallel_src_rank", Type::number, tensor_source,
                 "The first rank of as many contiguous ones as the tensor model parallel size says."),
        listed("get_data_parallel_src_rank", data, first, no_data,
               "The first rank of this rank's data-parallel group."),
        listed("get_pipeline_model_parallel_first_rank", pipeline, first, no_pipeline,
               "The rank in the first stage of this rank's pipeline."),
        // The original's variables.
        listed("_PIPELINE_GLOBAL_RANKS", pipeline, ranks, no_pipeline, "The ranks of this rank's pipeline."),
        listed("_DATA_PARALLEL_GLOBAL_RANKS", data, ranks, no_data,
               "The ranks of this rank's data-parallel group."),
        listed("_EMBEDDING_GLOBAL_RANKS", embedding, ranks, "",
               "The members of this pipeline's embedding group, on every stage."),
        listed("_POSITION_EMBEDDING_GLOBAL_RANKS", position, ranks, "",
               "The members of this pipeline's position embedding group, on every stage."),
        computed("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK", Type::maybe_number, split,
                 "The split as it was given.")};
    for (auto& row : rows)
        if (row.code == holds_embedding || row.code == holds_position_embedding)
            row.raises = "TypeError";  // of a list that is None
    for (auto& row : of_stages::accessors({ignore_virtual})) {
        if (!row.slot.empty()) {  // also a variable
            rows.push_back(row);
            rows.back().name = cat("_", upper(row.slot));
        }
        rows.push_back(std::move(row));
    }
    add_named(rows);
    return rows;
}

Framework framework() {
    return {
        .name = "megatron2022",
        .version = "October 2022",
        .original = "vllm.model_executor.parallel_utils.parallel_state",
        .title = "Megatron-core's parallel_state of October 2022, which is vLLM's first.",
        .settings_of =
            "the arguments of initialize_model_parallel in October 2022, vLLM's first; needs the world's "
            "size",
        .example = "tensor_model_parallel_size=2 pipeline_model_parallel_size=4 world_size=16",
        .settings = {{.name = "tensor_model_parallel_size", .axis = "tp"},
                     {.name = "pipeline_model_parallel_size", .axis = "pp"},
                     {.name = "virtual_pipeline_model_parallel_size",
                      .type = Type::maybe_number,
                      .doc = "stages of each rank, of an interleaved pipeline",
                      .extra = "virtual pipeline stages"},
                     {.name = "pipeline_model_parallel_split_rank",
                      .type = Type::maybe_number,
                      .doc = "the stage at which the decoder begins, negative ones counted from the end",
                      .extra = "pipeline split rank"}},
        .meshes = {{"ranks", "pp dp tp"}},
        .kinds = {{"_DATA_PARALLEL_GROUP", "pp tp | dp", "data parallel group is not initialized"},
                  {"_MODEL_PARALLEL_GROUP", "dp | pp tp", "model parallel group is not initialized"},
                  {"_TENSOR_MODEL_PARALLEL_GROUP", "pp dp | tp",
                   "intra_layer_model parallel group is not initialized"},
                  {"_PIPELINE_MODEL_PARALLEL_GROUP", "dp tp | pp",
                   "pipeline_model parallel group is not initialized"},
                  {.name = "_EMBEDDING_GROUP",
                   .groups = "dp tp | pp",
                   .missing = "embedding group is not initialized",
                   .at = "first_split_and_last"},
                  {.name = "_POSITION_EMBEDDING_GROUP",
                   .groups = "dp tp | pp",
                   .missing = "position embedding group is not initialized",
                   .at = "first_and_split"}},
        .accessors = accessors(),
        .check_first = check_first,
        .check = check,
        .why = {{"cp", "Megatron of 2022 has no context parallelism; it has pp, dp, tp"},
                {"ep, edp, etp", "Megatron of 2022 has no expert parallelism"},
                {"dp_replicate, dp_shard",
                 "Megatron of 2022 has one data-parallel axis, whose optimizer state is whole"},
                {"virtual pipeline stages", "Megatron of 2022 interleaves pipelines of three ranks or more"}},
        .raises = {{"", "AssertionError"},
                   {"out of range", "IndexError"},
                   {"sizes", "RuntimeError"},
                   {"a size of 0", "ZeroDivisionError"},
                   {"no such rank", "ValueError"},
                   {"no world", "AssertionError"}},
        .initialize = "initialize_model_parallel",
        .state_class = "ParallelState",
        .slots = slots,
        .kept_slots = split_rank,
        .module = "parallel_state",
        .leaves = "megatron2022's data parallel size"};
}

}  // namespace rankmesh::frameworks::of_megatron2022
