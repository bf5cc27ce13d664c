// SPDX-License-Identifier: Apache-2.0
// What the topologies and grids of DeepSpeed and AReaL have in common.
#include <rankmesh/dialect/areal/process_topology.hpp>

#include "grids.hpp"

namespace rankmesh::python {

using dialect::ProcessTopology;
using Grid = dialect::GridRankInfo;

namespace {

/// The empty list where there is no group.
IntList list_or_empty(const std::optional<Group>& group) {
    return group ? list_of(*group) : list_of(std::vector<int>{});
}

void bind_process_topology(nb::module_& m) {
    nb::class_<ProcessTopology>(m, "ProcessTopology", "The ranks of a job on named axes, row-major.")
        .def(
            "__init__",
            [](ProcessTopology* self, nb::handle axes, nb::handle dims, bool of_areal) {
                const auto names = texts_of(axes, "axes");
                const auto sizes = ints_of(dims, "dims");
                new (self) ProcessTopology(of_areal ? areal::ProcessTopology(names, sizes)
                                                    : ProcessTopology(names, sizes));
            },
            nb::arg("axes").none(), nb::arg("dims").none(), nb::arg("of_areal") = false)
        .def("world_size", &ProcessTopology::world_size, "The number of ranks.")
        .def(
            "get_dim",
            [](const ProcessTopology& self, nb::handle axis) { return self.get_dim(text_of(axis, "axis")); },
            nb::arg("axis").none(), nb::sig("def get_dim(self, axis: str) -> int"),
            "The size of an axis; 0 where there is none of that name.")
        .def(
            "get_rank",
            [](const ProcessTopology& self, nb::args args, nb::kwargs coord) {
                return self.get_rank(coordinate_of(args, coord));
            },
            nb::sig("def get_rank(self, **coord_kwargs: int) -> int"),
            "The rank at a coordinate of all axes.")
        .def(
            "get_coord",
            [](const ProcessTopology& self, nb::handle rank) {
                const auto coord = self.get_coord(int_of(rank, "rank"));
                auto indices = std::vector<int>{};
                for (int i = 0; i < coord.size(); ++i) indices.push_back(coord[AxisId{i}]);
                return list_of(indices);
            },
            nb::arg("rank").none(), nb::sig("def get_coord(self, rank: int) -> list[int]"))
        .def(
            "get_rank_repr",
            [](const ProcessTopology& self, nb::handle rank, nb::handle omit_axes, nb::handle inner_sep,
               nb::handle outer_sep) {
                return self.get_rank_repr(int_of(rank, "rank"), texts_of(omit_axes, "omit_axes"),
                                          text_of(inner_sep, "inner_sep"), text_of(outer_sep, "outer_sep"));
            },
            nb::arg("rank").none(), nb::arg("omit_axes").none() = std::vector<std::string>{"data", "pipe"},
            nb::arg("inner_sep").none() = "_", nb::arg("outer_sep").none() = "-",
            nb::sig("def get_rank_repr(self, rank: int, omit_axes: collections.abc.Iterable[str] = ['data', "
                    "'pipe'], inner_sep: str = '_', outer_sep: str = '-') -> str"),
            "The rank's place on all axes but those left out, as `model_01`, for the names of files.")
        .def(
            "get_axis_comm_lists",
            [](const ProcessTopology& self, nb::handle axis) {
                const auto groups = self.get_axis_comm_lists(text_of(axis, "axis"));
                return groups ? lists_of(*groups) : lists_of(std::vector<std::vector<int>>{});
            },
            nb::arg("axis").none(), nb::sig("def get_axis_comm_lists(self, axis: str) -> list[list[int]]"),
            "The groups along an axis; none where there is no axis of that name.")
        .def(
            "get_axis_list",
            [](const ProcessTopology& self, nb::handle axis, nb::handle idx) {
                return list_or_empty(self.get_axis_list(text_of(axis, "axis"), int_of(idx, "idx")));
            },
            nb::arg("axis").none(), nb::arg("idx").none(),
            nb::sig("def get_axis_list(self, axis: str, idx: int) -> list[int]"),
            "The ranks at an index of an axis.")
        .def(
            "filter_match",
            [](const ProcessTopology& self, nb::args args, nb::kwargs filter) {
                return list_or_empty(self.filter_match(coordinate_of(args, filter)));
            },
            nb::sig("def filter_match(self, **filter_kwargs: int) -> list[int]"),
            "The ranks at these indices of some axes.")
        .def(
            "same_mapping",
            [](const ProcessTopology& self, const ProcessTopology& other) { return self == other; },
            nb::arg("other"))
        .def("__str__", &ProcessTopology::str);
}

void bind_grid(nb::module_& m) {
    nb::class_<Grid>(m, "Grid", "What a grid over a topology knows of one rank.")
        .def_ro("global_rank", &Grid::global_rank)
        .def_ro("world_size", &Grid::world_size)
        .def_ro("data_parallel_size", &Grid::data_parallel_size)
        .def_ro("pipe_parallel_size", &Grid::pipe_parallel_size)
        .def_ro("model_parallel_size", &Grid::model_parallel_size)
        .def_ro("slice_parallel_size", &Grid::slice_parallel_size)
        .def_ro("stage_id", &Grid::stage_id)
        .def_ro("data_parallel_id", &Grid::data_parallel_id)
        .def_ro("is_first_stage", &Grid::is_first_stage)
        .def_ro("is_last_stage", &Grid::is_last_stage)
        .def_ro("ds_model_rank", &Grid::ds_model_rank)
        .def_ro("ds_model_world_size", &Grid::ds_model_world_size)
        .def_prop_ro("dp_group", [](const Grid& self) { return list_or_empty(self.dp_group); })
        .def_prop_ro("pp_group", [](const Grid& self) { return list_or_empty(self.pp_group); })
        .def_prop_ro("slice_group", [](const Grid& self) { return list_or_empty(self.slice_group); })
        .def("all_dp_groups", [](const Grid& self) { return lists_of(self.dp_groups); })
        .def("all_pipe_groups", [](const Grid& self) { return lists_of(self.pipe_groups); })
        .def("all_model_groups", [](const Grid& self) { return lists_of(self.model_groups); })
        .def("all_p2p_groups", all_p2p_groups<Grid>)
        .def(
            "stage_to_global",
            [](const Grid& self, nb::handle stage_id, nb::args args, nb::kwargs kwargs) {
                return self.stage_to_global(int_of(stage_id, "stage_id"), coordinate_of(args, kwargs));
            },
            nb::sig("def stage_to_global(self, stage_id: int, **kwargs: int) -> int"),
            "The rank at another stage, with this rank's index on all other axes but those given.")
        .def("get_stage_id", &Grid::get_stage_id)
        .def("get_data_parallel_id", &Grid::get_data_parallel_id)
        .def("get_global_rank", &Grid::get_global_rank)
        .def("get_pipe_parallel_rank", &Grid::get_pipe_parallel_rank, "The stage of this rank.")
        .def("get_pipe_parallel_world_size", &Grid::get_pipe_parallel_world_size, "The number of stages.")
        .def("get_data_parallel_rank", &Grid::get_data_parallel_rank)
        .def("get_data_parallel_world_size", &Grid::get_data_parallel_world_size)
        .def("get_model_parallel_rank", &Grid::get_model_parallel_rank)
        .def("get_model_parallel_world_size", &Grid::get_model_parallel_world_size)
        .def("get_tensor_model_parallel_rank", &Grid::get_tensor_model_parallel_rank)
        .def("get_tensor_model_parallel_world_size", &Grid::get_tensor_model_parallel_world_size);
}

}  // namespace

void bind_topology(nb::module_& parent) {
    auto m = parent.def_submodule("topology", "Topologies and grids of named axes.");
    bind_process_topology(m);
    bind_grid(m);
}

}  // namespace rankmesh::python
