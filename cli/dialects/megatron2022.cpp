// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include "dialects.hpp"

namespace rankmesh::cli {

namespace {

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

}  // namespace

Words megatron2022_words(const Arrangement& roles, const Document&) {
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

}  // namespace rankmesh::cli
