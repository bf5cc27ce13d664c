// SPDX-License-Identifier: Apache-2.0
// Megatron's parallel_state of October 2022, which is vLLM's first: PP x DP x TP, tp fastest.
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include "frameworks/members.hpp"

namespace rankmesh::frameworks {

namespace of_megatron2022 {

using Class = megatron2022::State;

std::optional<int> maybe(const Given& given, std::string_view name) {
    return given.is_none(name) ? std::nullopt : std::optional(given.number(name));
}

megatron2022::Sizes sizes_of(const Given& given) {
    return {.tensor_model_parallel_size = given.number("tensor_model_parallel_size"),
            .pipeline_model_parallel_size = given.number("pipeline_model_parallel_size"),
            .virtual_pipeline_model_parallel_size = maybe(given, "virtual_pipeline_model_parallel_size"),
            .pipeline_model_parallel_split_rank = maybe(given, "pipeline_model_parallel_split_rank")};
}

void initialize(Class& state, const Given& given) { state.initialize_model_parallel(sizes_of(given)); }

void check_first(Given& given) {
    static_cast<void>(megatron2022::Groups(sizes_of(given), given.world_size()));
}

std::vector<int> first_and_split(const Given& given) {
    return {0, given.number("pipeline_model_parallel_size") > 1
                   ? given.number("pipeline_model_parallel_split_rank")
                   : 0};
}
std::vector<int> first_split_and_last(const Given& given) {
    auto stages = first_and_split(given);
    stages.push_back(-1);
    return stages;
}

/// A size or rank that wins over the group's from now on.
template <auto member>
AccessorRow set(std::string name, std::string what) {
    auto row = answer<member>(
        std::move(name), "What the getter answers from now on; None: the group's own again.",
        {{.name = std::move(what), .otherwise = {}, .type = Type::maybe_number, .needed = true}});
    row.raises = "ValueError";
    return row;
}

/// A member that raises where the original finds None in place of its list.
AccessorRow of_list(AccessorRow row) {
    row.raises = "TypeError";
    return row;
}

}  // namespace of_megatron2022

Framework megatron2022() {
    using namespace of_megatron2022;
    using enum Quantity;
    constexpr auto experts = "Megatron of 2022 has no expert parallelism";
    constexpr auto replicas = "Megatron of 2022 has one data-parallel axis, whose optimizer state is whole";
    const auto ignore_virtual =
        std::vector<Setting>{{.name = "ignore_virtual", .otherwise = false, .type = Type::flag}};
    const auto new_rank =
        std::vector<Setting>{{.name = "rank", .otherwise = {}, .type = Type::maybe_number, .needed = true}};
    const auto of_stage = std::vector<Setting>{{"rank", Value(), "", "", Type::maybe_number}};
    return {
        .name = "megatron2022",
        .version = "October 2022",
        .original = "vllm.model_executor.parallel_utils.parallel_state",
        .title = "Megatron-core's parallel_state of October 2022, which is vLLM's first.",
        .settings_of =
            "the arguments of initialize_model_parallel in October 2022, vLLM's first; needs the world's "
            "size",
        .example = "tensor_model_parallel_size=2 pipeline_model_parallel_size=4 world_size=16",
        .settings = {{"tensor_model_parallel_size", 1, "tp"},
                     {"pipeline_model_parallel_size", 1, "pp"},
                     {.name = "virtual_pipeline_model_parallel_size",
                      .otherwise = {},
                      .type = Type::maybe_number,
                      .doc = "stages of each rank, of an interleaved pipeline",
                      .extra = "virtual pipeline stages"},
                     {.name = "pipeline_model_parallel_split_rank",
                      .otherwise = {},
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
                   .at = first_split_and_last},
                  {.name = "_POSITION_EMBEDDING_GROUP",
                   .groups = "dp tp | pp",
                   .missing = "position embedding group is not initialized",
                   .at = first_and_split}},
        .accessors =
            {{"get_model_parallel_group", "_MODEL_PARALLEL_GROUP", group,
              "The tensor and pipeline parallel ranks of one replica."},
             {"get_tensor_model_parallel_group", "_TENSOR_MODEL_PARALLEL_GROUP", group,
              "This rank's tensor-parallel group."},
             {"get_pipeline_model_parallel_group", "_PIPELINE_MODEL_PARALLEL_GROUP", group,
              "This rank's pipeline."},
             {"get_data_parallel_group", "_DATA_PARALLEL_GROUP", group, "This rank's data-parallel group."},
             {"get_embedding_group", "_EMBEDDING_GROUP", group,
              "The first and last rank of this rank's pipeline and that of the split, on these stages."},
             {"get_position_embedding_group", "_POSITION_EMBEDDING_GROUP", group,
              "The first rank of this rank's pipeline and that of the split, on these stages."},
             set<&Class::set_tensor_model_parallel_world_size>("set_tensor_model_parallel_world_size",
                                                               "world_size"),
             set<&Class::set_pipeline_model_parallel_world_size>("set_pipeline_model_parallel_world_size",
                                                                 "world_size"),
             RANKMESH_MEMBER(get_tensor_model_parallel_world_size,
                             "The size of the tensor-parallel group, or what was set."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_world_size,
                             "The number of stages, or what was set."),
             set<&Class::set_tensor_model_parallel_rank>("set_tensor_model_parallel_rank", "rank"),
             set<&Class::set_pipeline_model_parallel_rank>("set_pipeline_model_parallel_rank", "rank"),
             RANKMESH_MEMBER(set_pipeline_model_parallel_split_rank,
                             "Does nothing: the original writes a variable that nobody reads.", new_rank),
             RANKMESH_MEMBER(get_tensor_model_parallel_rank,
                             "Where this rank stands in its tensor-parallel group, or what was set."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_rank, "This rank's stage, or what was set."),
             RANKMESH_MEMBER(is_pipeline_first_stage,
                             "True in the first stage and, unless ignored, at the first virtual stage.",
                             ignore_virtual),
             RANKMESH_MEMBER(is_pipeline_last_stage,
                             "True in the last stage and, unless ignored, at the last virtual stage.",
                             ignore_virtual),
             of_list(RANKMESH_MEMBER(
                 is_rank_in_embedding_group,
                 "True for a member; the first and last must, unless ignored, be at the first and last "
                 "virtual stage.",
                 ignore_virtual)),
             of_list(RANKMESH_MEMBER(is_rank_in_position_embedding_group, "True for a member.")),
             RANKMESH_MEMBER(
                 is_pipeline_stage_before_split,
                 "True where a stage, this rank's if not given, comes before the split, or there is none.",
                 of_stage),
             RANKMESH_MEMBER(is_pipeline_stage_after_split,
                             "True where a stage comes not before the split, or there is none.", of_stage),
             RANKMESH_MEMBER(is_pipeline_stage_at_split,
                             "True where this stage comes before the split and the next one after it."),
             RANKMESH_MEMBER(get_virtual_pipeline_model_parallel_rank,
                             "The current virtual stage; None without them."),
             RANKMESH_MEMBER(set_virtual_pipeline_model_parallel_rank, "The current virtual stage.",
                             new_rank),
             RANKMESH_MEMBER(get_virtual_pipeline_model_parallel_world_size,
                             "How many virtual stages there are; None without them."),
             RANKMESH_MEMBER(
                 get_tensor_model_parallel_src_rank,
                 "The first rank of as many contiguous ones as the tensor model parallel size says."),
             RANKMESH_MEMBER(get_data_parallel_src_rank,
                             "The first rank of this rank's data-parallel group."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_first_rank,
                             "The rank in the first stage of this rank's pipeline."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_last_rank,
                             "The rank in the last stage of this rank's pipeline."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_next_rank,
                             "The rank in the next stage, the first after the last."),
             RANKMESH_MEMBER(get_pipeline_model_parallel_prev_rank,
                             "The rank in the stage before, the last before the first."),
             RANKMESH_MEMBER(get_data_parallel_world_size, "The size of the data-parallel group."),
             RANKMESH_MEMBER(get_data_parallel_rank, "Where this rank stands in its data-parallel group."),
             // The original's variables.
             answer<&Class::pipeline_global_ranks>("_PIPELINE_GLOBAL_RANKS",
                                                   "The ranks of this rank's pipeline."),
             answer<&Class::data_parallel_global_ranks>("_DATA_PARALLEL_GLOBAL_RANKS",
                                                        "The ranks of this rank's data-parallel group."),
             answer<&Class::embedding_global_ranks>(
                 "_EMBEDDING_GLOBAL_RANKS",
                 "The members of this pipeline's embedding group, on every stage."),
             answer<&Class::position_embedding_global_ranks>(
                 "_POSITION_EMBEDDING_GLOBAL_RANKS",
                 "The members of this pipeline's position embedding group, on every stage."),
             answer<&Class::get_virtual_pipeline_model_parallel_rank>("_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK",
                                                                      "The current virtual stage."),
             answer<&Class::get_virtual_pipeline_model_parallel_world_size>(
                 "_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "How many virtual stages there are."),
             answer<&Class::pipeline_model_parallel_split_rank>("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK",
                                                                "The split as it was given.")},
        .check_first = check_first,
        .why = {{"cp", "Megatron of 2022 has no context parallelism; it has pp, dp, tp"},
                {"ep", experts},
                {"edp", experts},
                {"etp", experts},
                {"dp_replicate", replicas},
                {"dp_shard", replicas},
                {"virtual pipeline stages", "Megatron of 2022 interleaves pipelines of three ranks or more"}},
        .raises = {{"", "AssertionError"},
                   {"out of range", "IndexError"},
                   {"sizes", "RuntimeError"},
                   {"a size of 0", "ZeroDivisionError"},
                   {"no such rank", "ValueError"},
                   {"no world", "AssertionError"}},
        .initialize = "initialize_model_parallel",
        .own = own_class<Class, initialize>("ParallelState"),
        .module = "parallel_state",
        .leaves = "megatron2022's data parallel size"};
}

}  // namespace rankmesh::frameworks
