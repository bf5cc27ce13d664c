// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include "dialects/grid_answers.hpp"

namespace rankmesh::cli {

Words areal_words(const Arrangement&, const Document& document) {
    const auto topology = areal::ProcessTopology(document.values["axes"].get<std::vector<std::string>>(),
                                                 document.values["dims"].get<std::vector<int>>());
    const auto& mesh = topology.mesh();
    const auto pipe = mesh.axes("pipe");
    return {.dialect = {},
            .mesh = mesh,
            .kinds = {kind_along("ds_model_proc_group", mesh, all_but_data(mesh)),
                      kind_along("dp_proc_group", mesh, mesh.axes("data")),
                      kind_along("pp_proc_group", mesh, pipe),
                      kind_picked("embedding_proc_group", mesh, pipe, {0, -1}),
                      kind_picked("position_embedding_proc_group", mesh, pipe, {0}),
                      kind_along("slice_proc_group", mesh, mesh.axes("tensor")),
                      kind_along("tp_dp_proc_group", mesh, mesh.axes("data", "tensor"))},
            .answers = [topology](int rank) {
                const auto place = areal::Place(topology, rank, topology.world_size());
                return grid_answers(place)
                    .add("topology().get_rank_repr", [&] { return topology.get_rank_repr(rank); })
                    .all();
            }};
}

}  // namespace rankmesh::cli
