// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_megatron2022 {

constexpr auto split_name = "pipeline split rank";

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto number = [&](const char* name) { return settings.number(name); };
    const auto sizes = megatron2022::Sizes{
        .tensor_model_parallel_size = settings.size("tensor_model_parallel_size"),
        .pipeline_model_parallel_size = settings.size("pipeline_model_parallel_size"),
        .virtual_pipeline_model_parallel_size = number("virtual_pipeline_model_parallel_size"),
        .pipeline_model_parallel_split_rank = number("pipeline_model_parallel_split_rank")};
    const auto groups =
        megatron2022::Groups(sizes, needed_world(settings, world, "megatron2022's data parallel size"));
    auto arrangement = Arrangement{{groups.mesh}};
    if (const auto stages = sizes.virtual_pipeline_model_parallel_size)
        arrangement.extras.push_back({std::string(virtual_stages), std::to_string(*stages)});
    if (const auto split = sizes.pipeline_model_parallel_split_rank)
        arrangement.extras.push_back({split_name, std::to_string(*split)});
    return arrangement;
}

Document write(const Arrangement& arrangement) {
    auto values = Json{{"tensor_model_parallel_size", size_of(arrangement.dense(), "tp")},
                       {"pipeline_model_parallel_size", size_of(arrangement.dense(), "pp")}};
    // Interleaving needs three stages here, as the original does.
    if (const auto stages = extra_of(arrangement, virtual_stages);
        stages && size_of(arrangement.dense(), "pp") > 2)
        values["virtual_pipeline_model_parallel_size"] = std::stoi(*stages);
    if (const auto split = extra_of(arrangement, split_name))
        values["pipeline_model_parallel_split_rank"] = std::stoi(*split);
    auto text = std::string{};
    for (const auto& [name, value] : values.items())
        text += cat(text.empty() ? "" : ", ", name, "=", value.get<int>());
    return {values, cat("initialize_model_parallel(", text, ")")};
}

Json answers(const megatron2022::State& s) {
    return Answers{}
        .add("get_tensor_model_parallel_world_size", [&] { return s.get_tensor_model_parallel_world_size(); })
        .add("get_pipeline_model_parallel_world_size",
             [&] { return s.get_pipeline_model_parallel_world_size(); })
        .add("get_data_parallel_world_size", [&] { return s.get_data_parallel_world_size(); })
        .add("get_tensor_model_parallel_rank", [&] { return s.get_tensor_model_parallel_rank(); })
        .add("get_pipeline_model_parallel_rank", [&] { return s.get_pipeline_model_parallel_rank(); })
        .add("get_data_parallel_rank", [&] { return s.get_data_parallel_rank(); })
        .add("get_tensor_model_parallel_src_rank", [&] { return s.get_tensor_model_parallel_src_rank(); })
        .add("get_data_parallel_src_rank", [&] { return s.get_data_parallel_src_rank(); })
        .add("get_pipeline_model_parallel_first_rank",
             [&] { return s.get_pipeline_model_parallel_first_rank(); })
        .add("get_pipeline_model_parallel_last_rank",
             [&] { return s.get_pipeline_model_parallel_last_rank(); })
        .add("get_pipeline_model_parallel_next_rank",
             [&] { return s.get_pipeline_model_parallel_next_rank(); })
        .add("get_pipeline_model_parallel_prev_rank",
             [&] { return s.get_pipeline_model_parallel_prev_rank(); })
        .add("is_pipeline_first_stage", [&] { return s.is_pipeline_first_stage(); })
        .add("is_pipeline_last_stage", [&] { return s.is_pipeline_last_stage(); })
        .add("is_rank_in_embedding_group", [&] { return s.is_rank_in_embedding_group(); })
        .add("is_rank_in_position_embedding_group", [&] { return s.is_rank_in_position_embedding_group(); })
        .all();
}

Words words(const Arrangement& roles, const Document&) {
    const auto world = roles.dense().size();
    const auto sizes = megatron2022::Sizes{.tensor_model_parallel_size = size_of(roles.dense(), "tp"),
                                           .pipeline_model_parallel_size = size_of(roles.dense(), "pp")};
    const auto mesh = megatron2022::Groups(sizes, world).mesh;
    const auto ends = size_of(mesh, "pp") > 1 ? std::vector{0, -1} : std::vector{0};
    return {.dialect = {},
            .mesh = mesh,
            .kinds = {kind_along("_DATA_PARALLEL_GROUP", mesh, mesh.axes("dp")),
                      kind_along("_MODEL_PARALLEL_GROUP", mesh, mesh.axes("pp", "tp")),
                      kind_along("_TENSOR_MODEL_PARALLEL_GROUP", mesh, mesh.axes("tp")),
                      kind_along("_PIPELINE_MODEL_PARALLEL_GROUP", mesh, mesh.axes("pp")),
                      kind_picked("_EMBEDDING_GROUP", mesh, mesh.axes("pp"), ends),
                      kind_picked("_POSITION_EMBEDDING_GROUP", mesh, mesh.axes("pp"), {0})},
            .answers = [=](int rank) {
                auto state = megatron2022::State(rank, world);
                state.initialize_model_parallel(sizes);
                return answers(state);
            }};
}

}  // namespace of_megatron2022

Framework megatron2022() {
    constexpr auto experts = "Megatron of 2022 has no expert parallelism";
    constexpr auto replicas = "Megatron of 2022 has one data-parallel axis, whose optimizer state is whole";
    return {.name = "megatron2022",
            .of =
                "the arguments of initialize_model_parallel in October 2022, vLLM's first; needs the world's "
                "size",
            .example = "tensor_model_parallel_size=2 pipeline_model_parallel_size=4 world_size=16",
            .read = of_megatron2022::read,
            .write = of_megatron2022::write,
            .words = of_megatron2022::words,
            .roles = {"pp", "dp", "tp"},
            .why = {{"cp", "Megatron of 2022 has no context parallelism; it has pp, dp, tp"},
                    {"ep", experts},
                    {"edp", experts},
                    {"etp", experts},
                    {"dp_replicate", replicas},
                    {"dp_shard", replicas},
                    {virtual_stages, "Megatron of 2022 interleaves pipelines of three ranks or more"}},
            .version = "October 2022"};
}

}  // namespace rankmesh::conversion
