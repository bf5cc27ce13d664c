// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/deepspeed.hpp>

#include "grid.hpp"

namespace golden {
namespace {

using namespace rankmesh::deepspeed;

State state_of(const Json& config, int rank) {
    const int world = config["world_size"];
    if (config["dims"].is_null()) return {{}, rank, world};
    const auto topology = ProcessTopology(config["axes"].get<Names>(), config["dims"].get<Dims>());
    return {{.axes = topology.axes(), .dims = topology.dims()}, rank, world};
}

Json grid(const Case& test) {
    auto answer = Json{{"per_rank", Json::array()}, {"p2p_groups", Json::array()}, {"calls", Json::array()}};
    const auto first = state_of(test.config, 0);
    const auto& all = first.groups();
    answer["axes"] = Json::array();
    answer["dims"] = Json::array();
    for (int a = 0; a < all.mesh().axis_count(); ++a) {
        answer["axes"].push_back(all.mesh().name(rankmesh::AxisId{a}));
        answer["dims"].push_back(all.mesh().size(rankmesh::AxisId{a}));
    }
    auto text = std::string{};
    for (const auto& kind : all.kinds())
        for (const auto& group : groups(all, kind)) {
            answer["calls"].push_back(group);
            const auto list = group.dump();
            text += (text.empty() ? "" : ";") + list.substr(1, list.size() - 2);
        }
    answer["calls"] = in_form_of(test.expect, answer["calls"], text);
    for (int rank = 0; rank < first.world_size(); ++rank)
        answer["p2p_groups"].push_back(first.p2p_groups(rank));
    if (!test.expect.contains("per_rank")) return answer;
    for (const auto& row : test.expect["per_rank"]) {
        const auto state = state_of(test.config, row[0]);
        auto attributes = asked(state, test.meta);
        attributes["stage_to_global"] = Json::array();
        for (int stage = 0; stage < state.pipe_parallel_size(); ++stage)
            attributes["stage_to_global"].push_back(state.stage_to_global(stage));
        answer["per_rank"].push_back({row[0], attributes});
    }
    return answer;
}

}  // namespace

System deepspeed_topology() {
    auto kinds = topology_kinds<ProcessTopology>({"pipe", "data", "model"});
    kinds["grid"] = grid;
    kinds["grid_error"] = grid;
    return {.name = "deepspeed_topology",
            .kinds = std::move(kinds),
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                if (type == "AssertionError" && message == "Invalid Grid") return std::vector{Fault::sizes};
                return topology_faults(type, message);
            }};
}

}  // namespace golden
