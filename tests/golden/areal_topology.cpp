// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <concepts>

#include <rankmesh/frameworks/areal.hpp>

#include "topology.hpp"

namespace golden {
namespace {

using namespace rankmesh::areal;

ProcessTopology made(const Json& config) {
    return {config.value("axes", Names{"pipe", "data", "tensor"}), config.value("dims", Dims{2, 2, 2})};
}

/// `["pipe#data#tensor", [2, 2, 2]]`
ProcessTopology named(const Json& pair) {
    auto axes = Names{""};
    for (auto c : pair[0].get<std::string>()) {
        if (c == '#')
            axes.emplace_back();
        else
            axes.back() += c;
    }
    return {axes, pair[1].get<Dims>()};
}

Json or_null(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

Json decomposed(const Case& test) {
    const auto factors = decompose_to_three_factors(test.config["n"]);
    auto distinct = factors;
    std::ranges::sort(distinct);
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    return {{"count", factors.size()},
            {"distinct_sorted", distinct},
            {"has_duplicates", distinct.size() != factors.size()}};
}

Json pipe_data_tensor(const Case& test) {
    const auto& c = test.config;
    const auto topo =
        PipeDataTensorParallelTopology(c["num_pp"], c["num_tp"], c["num_dp"], c["sequence_parallel"],
                                       c["gradient_checkpointing"], c["gradient_accumulation_fusion"],
                                       c.contains("max_prompt_len") && !c["max_prompt_len"].is_null()
                                           ? std::optional<int>(c["max_prompt_len"])
                                           : std::nullopt);
    return {{"axes", topo.axes()},
            {"dims", topo.dims()},
            {"sequence_parallel", topo.sequence_parallel},
            {"gradient_checkpointing", topo.gradient_checkpointing},
            {"gradient_accumulation_fusion", topo.gradient_accumulation_fusion},
            {"max_prompt_len", or_null(topo.max_prompt_len)},
            {"repr", topo.repr()}};
}

template <class T>
concept HasCheckpointing = requires(const T& t) { t.gradient_checkpointing; };
template <class T>
concept HasFusion = requires(const T& t) { t.gradient_accumulation_fusion; };

Json data_pipe_tensor(const Case& test) {
    const auto& c = test.config;
    const auto topo =
        DataPipeTensorParallelTopology(c["num_pp"], c["num_tp"], c["num_dp"], c["sequence_parallel"],
                                       c.contains("max_prompt_len") && !c["max_prompt_len"].is_null()
                                           ? std::optional<int>(c["max_prompt_len"])
                                           : std::nullopt);
    return {{"axes", topo.axes()},
            {"dims", topo.dims()},
            {"sequence_parallel", topo.sequence_parallel},
            {"has_gradient_checkpointing", HasCheckpointing<DataPipeTensorParallelTopology>},
            {"has_gradient_accumulation_fusion", HasFusion<DataPipeTensorParallelTopology>},
            {"max_prompt_len", or_null(topo.max_prompt_len)},
            {"repr", topo.repr()}};
}

State fake(const Json& config, int rank) {
    const auto topo = made(config);
    topo.get_coord(rank);  // throws if there is no such rank
    return {{.axes = topo.axes(), .dims = topo.dims()}, rank, topo.world_size()};
}

/// In C++ it is a State, whose groups are ranks.
Json fake_grid(const Case& test) {
    auto answer = Json{{"rank_pp_dp_tp", Json::array()}};
    for (const auto& row : test.expect["rank_pp_dp_tp"]) {
        const auto grid = fake(test.config, row[0]);
        answer["rank_pp_dp_tp"].push_back({grid.rank(), grid.get_pipe_parallel_rank(),
                                           grid.get_data_parallel_rank(),
                                           grid.get_tensor_model_parallel_rank()});
        answer["pp_dp_tp_world_sizes"] = {grid.get_pipe_parallel_world_size(),
                                          grid.get_data_parallel_world_size(),
                                          grid.get_tensor_model_parallel_world_size()};
        answer["world_size"] = grid.world_size();
    }
    for (const auto* name : {"get_group", "get_dp_group", "get_tp_group"})
        answer[name] =
            attempt([]() -> Json { throw rankmesh::frameworks::Error(Fault::not_member, "Python only"); });
    return answer;
}

}  // namespace

System areal_topology() {
    auto kinds = topology_kinds<ProcessTopology>({"pipe", "data", "tensor"});
    kinds["decompose_to_three_factors"] = decomposed;
    kinds["prime_factors"] = [](const Case& test) { return Json(_prime_factors(test.config["n"])); };
    kinds["str_repr"] = [](const Case& test) {
        const auto topo = made(test.config);
        return Json{{"repr", topo.repr()}, {"str", topo.str()}};
    };
    kinds["eq"] = [](const Case& test) { return Json(named(test.config["a"]) == named(test.config["b"])); };
    kinds["eq_other_type"] = [](const Case&) {
        return Json(std::equality_comparable_with<ProcessTopology, int>);
    };
    kinds["PipeDataTensorParallelTopology"] = pipe_data_tensor;
    kinds["DataPipeTensorParallelTopology"] = data_pipe_tensor;
    kinds["fake_grid"] = fake_grid;
    kinds["fake_grid_error"] = [](const Case& test) {
        return Json(fake(test.config, test.config["rank"]).data_parallel_id());
    };
    return {.name = "areal_topology",
            .kinds = std::move(kinds),
            .faults = [](const Case& test, std::string_view type, std::string_view message) {
                if (type == "RuntimeError" && message == "No groups in fake grid.")
                    return std::vector{Fault::not_member};
                if (type == "TypeError" && test.kind == "decompose_to_three_factors")
                    return std::vector{Fault::argument};
                return topology_faults(type, message);
            }};
}

}  // namespace golden
