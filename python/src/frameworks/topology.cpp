// SPDX-License-Identifier: Apache-2.0
// The topologies of DeepSpeed and AReaL, and how Megatron orders its axes.
#include <nanobind/stl/array.h>

#include <rankmesh/frameworks/topology.hpp>

#include "frameworks.hpp"
#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::python {

using frameworks::ProcessTopology;

namespace {

/// The empty list where there is no group.
std::vector<int> list_or_empty(const std::optional<Group>& group) {
    return group ? std::vector(group->begin(), group->end()) : std::vector<int>{};
}

void bind_process_topology(nb::module_& m) {
    using Self = ProcessTopology;
    auto c = nb::class_<Self>(m, "ProcessTopology", "The ranks of a job on named axes, row-major.");
    method(c,
           "def __init__(self, axes: collections.abc.Iterable[str], dims: collections.abc.Iterable[int], "
           "of_areal: bool = False) -> None",
           "", [](Self* self, nb::handle axes, nb::handle dims, bool of_areal) {
               const auto names = texts_of(axes, "axes");
               const auto sizes = ints_of(dims, "dims");
               new (self) Self(of_areal ? areal::ProcessTopology(names, sizes) : Self(names, sizes));
           });
    c.def("world_size", &Self::world_size, "The number of ranks.");
    method(c, "def get_dim(self, axis: str) -> int",
           "The size of an axis; 0 where there is none of that name.",
           [](const Self& self, nb::handle axis) { return self.get_dim(text_of(axis, "axis")); });
    method(c, "def get_rank(self, **coord_kwargs: int) -> int", "The rank at a coordinate of all axes.",
           [](const Self& self, nb::args args, nb::kwargs coord) {
               return self.get_rank(coordinate_of(args, coord));
           });
    method(c, "def get_coord(self, rank: int) -> list[int]", "", [](const Self& self, nb::handle rank) {
        const auto coord = self.get_coord(int_of(rank, "rank"));
        auto indices = std::vector<int>{};
        for (int i = 0; i < coord.size(); ++i) indices.push_back(coord[AxisId{i}]);
        return indices;
    });
    method(c,
           "def get_rank_repr(self, rank: int, omit_axes: collections.abc.Iterable[str] = ['data', 'pipe'], "
           "inner_sep: str = '_', outer_sep: str = '-') -> str",
           "The rank's place on all axes but those left out, as `model_01`, for the names of files.",
           [](const Self& self, nb::handle rank, nb::handle omit_axes, nb::handle inner_sep,
              nb::handle outer_sep) {
               return self.get_rank_repr(int_of(rank, "rank"), texts_of(omit_axes, "omit_axes"),
                                         text_of(inner_sep, "inner_sep"), text_of(outer_sep, "outer_sep"));
           });
    method(c, "def get_axis_comm_lists(self, axis: str) -> list[list[int]]",
           "The groups along an axis; none where there is no axis of that name.",
           [](const Self& self, nb::handle axis) {
               auto lists = std::vector<std::vector<int>>{};
               if (const auto groups = self.get_axis_comm_lists(text_of(axis, "axis")))
                   for (const auto& group : *groups) lists.emplace_back(group.begin(), group.end());
               return lists;
           });
    method(c, "def get_axis_list(self, axis: str, idx: int) -> list[int]",
           "The ranks at an index of an axis.", [](const Self& self, nb::handle axis, nb::handle idx) {
               return list_or_empty(self.get_axis_list(text_of(axis, "axis"), int_of(idx, "idx")));
           });
    method(c, "def filter_match(self, **filter_kwargs: int) -> list[int]",
           "The ranks at these indices of some axes.",
           [](const Self& self, nb::args args, nb::kwargs filter) {
               return list_or_empty(self.filter_match(coordinate_of(args, filter)));
           });
    method(c, "def _stage_to_global(self, rank: int, stage_id: int, **kwargs: int) -> int", "",
           [](const Self& self, nb::handle rank, nb::handle stage_id, nb::args args, nb::kwargs kwargs) {
               return self.stage_to_global(int_of(rank, "rank"), int_of(stage_id, "stage_id"),
                                           coordinate_of(args, kwargs));
           });
    c.def(
        "same_mapping", [](const Self& self, const Self& other) { return self == other; }, nb::arg("other"));
    c.def("__str__", &Self::str);
}

}  // namespace

void bind_topology(nb::module_& parent) {
    auto m = parent.def_submodule("topology", "Topologies of named axes.");
    bind_process_topology(m);
    function(m, "def prime_factors(N: int) -> list[int]", "The prime factors of a positive number, rising.",
             [](nb::handle n) { return frameworks::_prime_factors(int_of(n, "N")); });
    function(m, "def decompose_to_three_factors(n: int) -> list[list[int]]", "",
             [](nb::handle n) { return areal::decompose_to_three_factors(int_of(n, "n")); });
    function(m, "def inject_gtp_remat_axis(order: str, after: str) -> str", "",
             [](nb::handle order, nb::handle after) {
                 return frameworks::of_megatron::inject_gtp_remat_axis(text_of(order, "order"),
                                                                       text_of(after, "after"));
             });
    function(m,
             "def in_order(order: str, sizes: collections.abc.Sequence[int], rank_offset: int) -> tuple[str, "
             "list[tuple[str, int]]]",
             "The order with all axes, and these with their sizes, outermost first.",
             [](nb::handle order, nb::handle sizes, nb::handle rank_offset) {
                 auto made = frameworks::of_megatron::in_order(
                     text_of(order, "order"), ints_of(sizes, "sizes"), int_of(rank_offset, "rank_offset"));
                 return std::make_pair(std::move(made.text), std::move(made.axes));
             });
}

}  // namespace rankmesh::python
