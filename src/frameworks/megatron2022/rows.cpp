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
    return {given.number("tensor_model_parallel_size"), given.number("pipeline_model_parallel_size"),
            maybe(given, "virtual_pipeline_model_parallel_size"),
            maybe(given, "pipeline_model_parallel_split_rank")};
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

/// The options of an answer, by their type.
template <class Answer>
std::vector<Setting> options_of(Answer (Class::*)() const) {
    return {};
}
template <class Answer>
std::vector<Setting> options_of(Answer (Class::*)(bool) const) {
    return {{.name = "ignore_virtual", .otherwise = false, .type = Type::flag}};
}
template <class Answer>
std::vector<Setting> options_of(Answer (Class::*)(std::optional<int>) const) {
    return {{.name = "rank", .otherwise = {}, .type = Type::maybe_number}};
}

/// The row of a setter.
template <auto member>
AccessorRow set(std::string name, std::string doc, std::string parameter) {
    return answer<member>(
        std::move(name), std::move(doc),
        {{.name = std::move(parameter), .otherwise = {}, .type = Type::maybe_number, .needed = true}});
}

/// The kind of groups, which is also a variable: `_DATA_PARALLEL_GROUP`.
std::string kind_of(std::string_view name) {
    auto kind = std::string("_");
    for (const auto c : name) kind += c == '_' ? c : static_cast<char>(c - 'a' + 'A');
    return kind + "_GROUP";
}

std::vector<AccessorRow> accessors() {
    auto rows = std::vector<AccessorRow>{};
#define RANKMESH_GROUP(name, what, sentence, ...) \
    rows.push_back({"get_" #name "_group", kind_of(#name), Quantity::group, sentence});
    RANKMESH_MEGATRON2022_GROUPS(RANKMESH_GROUP, RANKMESH_GROUP)
#undef RANKMESH_GROUP
    constexpr auto slot = "What the getter answers from now on; None: the group's own again.";
#define RANKMESH_SLOT(name, parameter)                                       \
    rows.push_back(set<&Class::set_##name>("set_" #name, slot, #parameter)); \
    rows.back().raises = "ValueError";
    RANKMESH_MEGATRON2022_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    rows.push_back(set<&Class::set_pipeline_model_parallel_split_rank>(
        "set_pipeline_model_parallel_split_rank",
        "Does nothing: the original writes a variable that nobody reads.", "rank"));
    rows.push_back(set<&Class::set_virtual_pipeline_model_parallel_rank>(
        "set_virtual_pipeline_model_parallel_rank", "The current virtual stage.", "rank"));
#define RANKMESH_ANSWER(type, name, parameters, value, sentence)               \
    rows.push_back(RANKMESH_MEMBER(name, sentence, options_of(&Class::name))); \
    if (std::string_view(#name).starts_with("is_rank_in_"))                    \
        rows.back().raises = "TypeError"; /* its list is None */
    RANKMESH_MEGATRON2022_ANSWERS(RANKMESH_ANSWER)
#undef RANKMESH_ANSWER
    // The original's variables.
#define RANKMESH_LIST(name, variable, what, value, sentence) \
    rows.push_back(answer<&Class::name>(#variable, sentence));
    RANKMESH_MEGATRON2022_LISTS(RANKMESH_LIST)
#undef RANKMESH_LIST
    rows.push_back(answer<&Class::get_virtual_pipeline_model_parallel_rank>(
        "_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK", "The current virtual stage."));
    rows.push_back(answer<&Class::get_virtual_pipeline_model_parallel_world_size>(
        "_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "How many virtual stages there are."));
    rows.push_back(answer<&Class::pipeline_model_parallel_split_rank>("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK",
                                                                      "The split as it was given."));
    return rows;
}

}  // namespace of_megatron2022

Framework megatron2022() {
    using namespace of_megatron2022;
    using enum Quantity;
    constexpr auto experts = "Megatron of 2022 has no expert parallelism";
    constexpr auto replicas = "Megatron of 2022 has one data-parallel axis, whose optimizer state is whole";
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
        .accessors = accessors(),
        .check_first = check_first,
        .why = {{"cp", "Megatron of 2022 has no context parallelism; it has pp, dp, tp"},
                {"ep, edp, etp", experts},
                {"dp_replicate, dp_shard", replicas},
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
