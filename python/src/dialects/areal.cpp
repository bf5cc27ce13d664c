// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include "grids.hpp"

namespace rankmesh::python {

using namespace areal;
using ModelGrid = areal::RankInfo;

namespace {

RankMapping mapping_of(nb::handle ranks) {
    if (ranks.is_none()) return {};
    if (!nb::hasattr(ranks, "items"))
        throw TypeFault(detail::cat("the rank mapping is ", described(ranks),
                                    "; it must be a mapping such as {0: 4, 1: 5}"));
    auto table = std::map<int, int>{};
    const auto items = nb::object(ranks.attr("items")());
    for (auto item : items)
        table[int_of(nb::object(item[0]), "a rank of the topology")] =
            int_of(nb::object(item[1]), "a rank of the world");
    return table;
}

Ranks in_world(const ModelGrid& grid, const Group& group) {
    const auto is_world = grid.rank_mapping.step() == 1 && grid.rank_mapping[0] == 0;
    return is_world ? Ranks(group) : Ranks(grid.mapped(group));
}

}  // namespace

void bind_areal(nb::module_& parent) {
    auto m = parent.def_submodule("areal", "AReaL's grid and registry, without a process.");
    def_named(m, "decompose_to_three_factors", +[](int n) { return lists_of(decompose_to_three_factors(n)); },
              {"n"});
    auto grid =
        nb::class_<ModelGrid, dialect::GridRankInfo>(m, "ModelGrid", "What AReaL's grid knows of one rank.");
    grid.def(
            "__init__",
            [](ModelGrid* self, const dialect::ProcessTopology& topology, nb::handle rank,
               nb::handle world_size, nb::handle rank_mapping) {
                new (self) ModelGrid({topology.axes(), topology.dims()}, int_of(rank, "rank"),
                                     int_of(world_size, "world_size"), mapping_of(rank_mapping));
            },
            nb::arg("topology"), nb::arg("rank"), nb::arg("world_size"), nb::arg("rank_mapping").none())
        .def("all_p2p_groups", all_p2p_groups<ModelGrid>)
        .def(
            "asked_groups",
            [](const ModelGrid& self) {
                auto registry = ProcessGroupRegistry();
                self.make_groups(registry);
                auto asked = nb::typed<nb::list, nb::typed<nb::tuple, IntList, nb::str>>(nb::list());
                for (const auto& group : registry.made())
                    asked.append(nb::make_tuple(list_of(group.ranks), group.backend));
                return asked;
            },
            "The ranks and backend of each group that the original's grid asks for, once, in its order.");
    def_handles<ModelGrid>(
        grid,
        {{"ds_model_proc_group", &ModelGrid::ds_model_group, "All stages and slices of one replica.",
          "get_model_parallel_group", true},
         {"dp_proc_group", &ModelGrid::dp_group, "The ranks of the same stage of all pipelines.",
          "get_data_parallel_group", true, "get_data_parallel_group_gloo"},
         {"pp_proc_group", &ModelGrid::pp_group, "This rank's pipeline.", "get_pipe_parallel_group", true},
         {"embedding_proc_group", &ModelGrid::embedding_group, "The first and last stage, on these stages."},
         {"position_embedding_proc_group", &ModelGrid::position_embedding_group,
          "The first stage, on this stage."},
         {"slice_proc_group", &ModelGrid::slice_group, "The tensor slices of this rank's stage and replica.",
          "get_tensor_model_parallel_group", true, "get_tensor_model_parallel_cpu_group"},
         {"tp_dp_proc_group", &ModelGrid::tp_dp_group, "All replicas and slices of this rank's stage."}},
        in_world);
}

}  // namespace rankmesh::python
