// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "dialects/grid_answers.hpp"

namespace rankmesh::cli {

Words deepspeed_words(const Arrangement&, const Document& document) {
    const auto topology = deepspeed::ProcessTopology(document.values["axes"].get<std::vector<std::string>>(),
                                                     document.values["dims"].get<std::vector<int>>());
    const auto& mesh = topology.mesh();
    auto words = Words{
        .dialect = {},
        .mesh = mesh,
        .kinds = {kind_along("ds_model_proc_group", mesh, all_but_data(mesh)),
                  kind_along("dp_proc_group", mesh, mesh.axes("data")),
                  kind_along("pp_proc_group", mesh, mesh.axes("pipe"))},
        .answers = [topology](int rank) {
            const auto place = deepspeed::Place(topology, rank, topology.world_size());
            return grid_answers(place)
                .add("get_slice_parallel_rank", [&] { return place.get_slice_parallel_rank(); })
                .add("get_slice_parallel_world_size", [&] { return place.get_slice_parallel_world_size(); })
                .add("topology().get_rank_repr", [&] { return topology.get_rank_repr(rank); })
                .all();
        }};
    words.kinds.push_back(
        kind_along("slice_proc_group", mesh, mesh.find("model") ? mesh.axes("model") : AxisSet{}));
    return words;
}

}  // namespace rankmesh::cli
