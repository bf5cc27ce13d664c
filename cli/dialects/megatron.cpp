// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/parallel_state.hpp>

#include "dialects.hpp"
#include "frameworks/megatron_sizes.hpp"

namespace rankmesh::cli {

namespace {

Json answers(const megatron::State& s) {
    return Answers{}
        .add("get_tensor_model_parallel_rank", [&] { return s.get_tensor_model_parallel_rank(); })
        .add("get_tensor_model_parallel_world_size", [&] { return s.get_tensor_model_parallel_world_size(); })
        .add("get_pipeline_model_parallel_rank", [&] { return s.get_pipeline_model_parallel_rank(); })
        .add("get_pipeline_model_parallel_world_size",
             [&] { return s.get_pipeline_model_parallel_world_size(); })
        .add("get_data_parallel_rank", [&] { return s.get_data_parallel_rank(); })
        .add("get_data_parallel_world_size", [&] { return s.get_data_parallel_world_size(); })
        .add("get_context_parallel_rank", [&] { return s.get_context_parallel_rank(); })
        .add("get_context_parallel_world_size", [&] { return s.get_context_parallel_world_size(); })
        .add("get_tensor_and_context_parallel_rank", [&] { return s.get_tensor_and_context_parallel_rank(); })
        .add("get_tensor_and_context_parallel_world_size",
             [&] { return s.get_tensor_and_context_parallel_world_size(); })
        .add("get_expert_model_parallel_rank", [&] { return s.get_expert_model_parallel_rank(); })
        .add("get_expert_model_parallel_world_size", [&] { return s.get_expert_model_parallel_world_size(); })
        .add("get_expert_tensor_parallel_rank", [&] { return s.get_expert_tensor_parallel_rank(); })
        .add("get_expert_tensor_parallel_world_size",
             [&] { return s.get_expert_tensor_parallel_world_size(); })
        .add("get_expert_data_parallel_rank", [&] { return s.get_expert_data_parallel_rank(); })
        .add("get_expert_data_parallel_world_size", [&] { return s.get_expert_data_parallel_world_size(); })
        .add("get_tensor_model_parallel_src_rank", [&] { return s.get_tensor_model_parallel_src_rank(); })
        .add("get_data_parallel_src_rank", [&] { return s.get_data_parallel_src_rank(); })
        .add("get_model_parallel_src_rank", [&] { return s.get_model_parallel_src_rank(); })
        .add("get_expert_model_parallel_src_rank", [&] { return s.get_expert_model_parallel_src_rank(); })
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

Words megatron_words(const Arrangement& roles, const Document&) {
    const auto world = roles.dense().size();
    auto sizes = megatron_sizes(roles);
    sizes.create_gloo_process_groups = false;  // the same ranks once more, for the host
    const auto groups = megatron::ProcessGroups(sizes, world);
    auto words = Words{.dialect = {},
                       .mesh = groups.decoder_rank_generator().mesh().slice({{"ep", 0}, {"gtp_remat", 0}}),
                       .kinds = {},
                       .answers = [=](int rank) { return answers(megatron::State(sizes, rank, world)); }};
    for (const auto& desc : groups.descriptions()) {
        const auto list = groups.groups(desc);
        words.kinds.push_back({.name = desc,
                               .count = list.size(),
                               .group = [list](int i) { return list_of(list[i]); },
                               .of =
                                   [groups, desc](int rank) {
                                       const auto own = groups.group(desc, rank);
                                       return own ? list_of(*own) : std::vector<int>{};
                                   }});
    }
    return words;
}

}  // namespace rankmesh::cli
