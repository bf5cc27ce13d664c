// SPDX-License-Identifier: Apache-2.0
// The topologies of DeepSpeed and AReaL.
#include <rankmesh/frameworks/topology.hpp>

#include "frameworks.hpp"

namespace rankmesh::python {

using frameworks::ProcessTopology;

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
            "_stage_to_global",
            [](const ProcessTopology& self, nb::handle rank, nb::handle stage_id, nb::args args,
               nb::kwargs kwargs) {
                return self.stage_to_global(int_of(rank, "rank"), int_of(stage_id, "stage_id"),
                                            coordinate_of(args, kwargs));
            },
            nb::sig("def _stage_to_global(self, rank: int, stage_id: int, **kwargs: int) -> int"))
        .def(
            "same_mapping",
            [](const ProcessTopology& self, const ProcessTopology& other) { return self == other; },
            nb::arg("other"))
        .def("__str__", &ProcessTopology::str);
}

}  // namespace

void bind_topology(nb::module_& parent) {
    auto m = parent.def_submodule("topology", "Topologies of named axes.");
    bind_process_topology(m);
    def_named(m, "prime_factors", frameworks::_prime_factors, {"N"},
              "The prime factors of a positive number, rising.");
    def_named(m, "decompose_to_three_factors",
              +[](int n) { return lists_of(areal::decompose_to_three_factors(n)); }, {"n"});
}

}  // namespace rankmesh::python
