// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/rank_generator.hpp>

#include "frameworks.hpp"

namespace rankmesh::python {

using namespace megatron;

namespace {

using View = std::optional<std::string_view>;

void bind_rank_generator(nb::module_& m) {
    using Own = RankGenerator;
    const auto order = Parameter("order", "the order"), token = Parameter("token", "the token");
    auto own = nb::class_<Own>(m, "RankGenerator", "The ranks of some axes, listed innermost first.");
    def_constructor<int, int, int, int, int, std::string, int, int>(
        own, {"tp", "ep", "dp", "pp", "cp", order, "rank_offset", "gtp_remat"});
    own.def_prop_ro("world_size", &Own::world_size)
        .def_prop_ro("order", &Own::order)
        .def_prop_ro("ordered_size", &Own::ordered_size);
    def_method(own, "get_mask", &Own::get_mask, {order, token},
               "For each axis of `order` whether `token`, one or several with `-` between them, lists it.");
    def_method(own, "get_ranks", &Own::get_ranks, {token},
               "All groups along the axes of `token`, whose order does not matter, by their first ranks.");
    def_method(
        own, "group",
        +[](const Own& self, std::string_view along, int rank) -> std::optional<Ranks> {
            const auto axes = self.axes(along);
            if (!self.mesh().contains(rank)) return std::nullopt;
            return Ranks(self.mesh().group(rank, axes));
        },
        {token, Parameter("rank", "a rank")},
        "The group of one rank in closed form, None outside; an addition to the original.");
    def_named(m, "inject_gtp_remat_axis", inject_gtp_remat_axis, {"order", "after"});
    using Picked = std::vector<int>;
    def_named(m, "default_embedding_ranks", +[](Picked of) { return default_embedding_ranks(of); },
              {"pp_ranks"});
    def_named(m, "default_position_embedding_ranks",
              +[](Picked of) { return default_position_embedding_ranks(of); }, {"pp_ranks"});
}

void bind_grid(nb::module_& m) {
    const auto dims = Parameter("dims", "the dimensions"), view = Parameter("view", "a view");
    const auto rank = Parameter("rank", "a rank"), shape = Parameter("shape", "the shape");
    auto own = nb::class_<Grid>(
        m, "Grid", "A grid over a range of ranks, with groups along any dimensions of any view.");
    def_constructor<std::vector<int>, std::vector<std::string>, std::optional<int>, int>(
        own, {shape, "dim_names", "world_size", "rank_offset"});
    own.def_prop_ro("size", &Grid::size).def("destroy", &Grid::destroy);
    def_method(own, "is_rank_in_grid", &Grid::is_rank_in_grid, {rank});
    def_method(own, "register_view", &Grid::register_view,
               {Parameter("name", "a view"), shape, "dim_names", "shared_dims"});
    def_method(own, "mesh", &Grid::mesh, {view});
    def_method(own, "get_rank_enum", &Grid::get_rank_enum, {dims, view});
    def_method(own, "gen_rank_enum", &Grid::gen_rank_enum, {dims});
    def_method(own, "group",
               +[](const Grid& self, Dims along, View of, int asked) {
                   const auto is_inside = self.is_rank_in_grid(asked);
                   return is_inside ? std::optional(Ranks(self.group(asked, along, of))) : std::nullopt;
               },
               {dims, view, rank});
    def_method(own, "key",
               +[](const Grid& self, Dims along, View of) {
                   const auto key = self.key(along, of);
                   return std::make_pair(key.view, key.dims);
               },
               {dims, view});
    def_method(own, "create_pg", +[](Grid& self, Dims along, View of) { self.create_pg(along, of); },
               {dims, view});
    def_method(own, "get_pg", +[](const Grid& self, Dims along, View of) { self.get_pg(along, of); },
               {dims, view});
}

}  // namespace

void bind_megatron(nb::module_& m) {
    auto own = m.def_submodule("megatron", "Megatron-core of August 2026, without a process.");
    bind_rank_generator(own);
    bind_grid(own);
}

}  // namespace rankmesh::python
