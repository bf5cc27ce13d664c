// SPDX-License-Identifier: Apache-2.0
// nanotron's ParallelContext: expert x PP x DP x TP, tp fastest.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_nanotron {

void check(Given& given) {
    const auto divided = [&](std::initializer_list<const char*> names) {
        auto rest = given.world_size();
        auto said = std::string{};
        auto divides = true;
        for (const auto* name : names) {
            const auto size = given.number(name);
            said += cat(said.empty() ? "" : " x ", name, " ", size);
            divides = divides && rest % size == 0;
            rest /= size;
        }
        refuse_if(!divides, Fault::argument, "a world of ", given.world_size(), " ranks is not divided by ",
                  said);
    };
    divided({"data_parallel_size"});
    divided({"tensor_parallel_size", "pipeline_parallel_size", "expert_parallel_size"});
}

/// Where a rank stands in world_rank_matrix, without its place among the experts.
Value get_3d_ranks(const State& state, const Given& options) {
    const auto rank = options.number("world_rank", state.rank());
    check_rank(rank, state.groups().world_size());
    auto places = std::vector<int>{};
    for (const auto* kind : {"pp", "dp", "tp"})
        places.push_back(*state.groups().of(kind, rank)->group_rank(rank));
    return places;
}

Values write_experts(const Mesh& experts) {
    return {{"expert_parallel_size", experts.size("ep")}, {"data_parallel_size", size_of(experts, "edp")}};
}

Framework framework() {
    using enum Quantity;
    const auto size_of_axis = [](const char* name, const char* axis) {
        return Setting{.name = name, .otherwise = {}, .axis = axis, .flag = axis};
    };
    return {.name = "nanotron",
            .version = "0.4",
            .original = "nanotron.parallel.context",
            .title = "nanotron's groups of tensor, pipeline, data and expert parallel ranks.",
            .settings_of = "the arguments of ParallelContext, or the section parallelism of a configuration",
            .example = "tensor_parallel_size=4 pipeline_parallel_size=1 data_parallel_size=2",
            .settings = {size_of_axis("tensor_parallel_size", "tp"),
                         size_of_axis("pipeline_parallel_size", "pp"),
                         size_of_axis("data_parallel_size", "dp"),
                         {.name = "expert_parallel_size", .axis = "expert"}},
            .meshes = {{"ranks", "expert pp dp tp"}},
            .kinds = {{.name = "world", .groups = "| expert pp dp tp", .apart = true},
                      {"tp", "expert pp dp | tp"},
                      {"dp", "tp expert pp | dp"},
                      {"pp", "dp tp expert | pp"},
                      {"expert", "pp dp tp | expert"},
                      {"mp", "dp | expert pp tp"}},
            .accessors = {{"world_pg", "world", group, "All ranks."},
                          {"tp_pg", "tp", group, "The ranks that share each layer."},
                          {"dp_pg", "dp", group, "The replicas of this rank's part of the model."},
                          {"pp_pg", "pp", group, "The stages of this rank's pipeline."},
                          {"expert_pg", "expert", group, "The ranks that share a layer's experts."},
                          {"mp_pg", "mp", group, "The ranks of one replica of the model."},
                          {"tensor_parallel_size", "tp", size, "The size of the tensor-parallel group."},
                          {"pipeline_parallel_size", "pp", size, "The number of stages."},
                          {"data_parallel_size", "dp", size, "The number of replicas."},
                          {"expert_parallel_size", "expert", size, "The size of the expert-parallel group."},
                          {.name = "world_rank_matrix",
                           .kind = "world",
                           .quantity = matrix,
                           .doc = "All ranks, in the shape (expert, pp, dp, tp)."},
                          computed("get_3d_ranks", Type::number, get_3d_ranks,
                                   "The place of a rank, of this one by default, on pp, dp and tp.",
                                   {{"world_rank", Type::maybe_number}}, ranks)},
            .check = check,
            .roles = {{"expert", "ep"}},
            .why = {{"cp", "nanotron does not cut sequences over ranks"},
                    {"dp_shard", "nanotron's data_parallel_size does not say how its optimizer is sharded"},
                    {"virtual pipeline stages", "nanotron's pipeline has one stage a rank"}},
            .write_experts = write_experts,
            .raises = {{"", "AssertionError"}, {"sizes", "ValueError"}, {"out of range", "ValueError"}},
            .initialize = "ParallelContext",
            .backend_after = "expert_parallel_size",
            .places = "parallelism",
            .ignore = "lighteval"};  // whose parallelism is that of an evaluation
}

}  // namespace rankmesh::frameworks::of_nanotron
