// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace torchtitan;
using OfRank = torchtitan::RankInfo;

namespace {

void bind_dims(nb::module_& m) {
    m.def(
        "unfold_dp_axis", [](nb::handle axis) { return unfold_dp_axis(text_of(axis, "axis")); },
        nb::arg("axis").none());
    nb::class_<ParallelDims>(m, "Dims", "Degrees that fit a world, all of them known.")
        .def(
            "__init__",
            [](ParallelDims* self, nb::handle dp_replicate, nb::handle dp_shard, nb::handle cp, nb::handle tp,
               nb::handle pp, nb::handle ep, nb::handle world_size, nb::handle backend) {
                const auto degrees = Degrees{.dp_replicate = int_of(dp_replicate, "dp_replicate"),
                                             .dp_shard = int_of(dp_shard, "dp_shard"),
                                             .cp = int_of(cp, "cp"),
                                             .tp = int_of(tp, "tp"),
                                             .pp = int_of(pp, "pp"),
                                             .ep = int_of(ep, "ep")};
                new (self) ParallelDims(degrees, int_of(world_size, "world_size"),
                                        spmd_backend(text_of(backend, "spmd_backend")));
            },
            nb::arg("dp_replicate").none(), nb::arg("dp_shard").none(), nb::arg("cp").none(),
            nb::arg("tp").none(), nb::arg("pp").none(), nb::arg("ep").none(), nb::arg("world_size").none(),
            nb::arg("spmd_backend").none())
        .def_ro("dp_shard", &ParallelDims::dp_shard)
        .def_prop_ro("dp_enabled", &ParallelDims::dp_enabled)
        .def_prop_ro("dp_replicate_enabled", &ParallelDims::dp_replicate_enabled)
        .def_prop_ro("dp_shard_enabled", &ParallelDims::dp_shard_enabled)
        .def_prop_ro("cp_enabled", &ParallelDims::cp_enabled)
        .def_prop_ro("dp_cp_enabled", &ParallelDims::dp_cp_enabled)
        .def_prop_ro("fsdp_enabled", &ParallelDims::fsdp_enabled)
        .def_prop_ro("tp_enabled", &ParallelDims::tp_enabled)
        .def_prop_ro("pp_enabled", &ParallelDims::pp_enabled)
        .def_prop_ro("ep_enabled", &ParallelDims::ep_enabled)
        .def_prop_ro("non_data_parallel_size", &ParallelDims::non_data_parallel_size)
        .def_prop_ro("seq_len_divisor", &ParallelDims::seq_len_divisor);
}

void bind_meshes_of_rank(nb::module_& m) {
    nb::class_<OfRank>(m, "Meshes", "The meshes that ParallelDims builds, as one rank sees them.")
        .def(
            "__init__",
            [](OfRank* self, const ParallelDims& dims, nb::handle rank) {
                new (self) OfRank(dims, int_of(rank, "rank"));
            },
            nb::arg("dims"), nb::arg("rank").none())
        .def_prop_ro("world_mesh", &OfRank::world_mesh)
        .def(
            "get_optional_mesh",
            [](const OfRank& self, nb::handle dims, bool include_singleton_axes) {
                return self.get_optional_mesh(texts_of(dims, "dims"), include_singleton_axes);
            },
            nb::arg("dims").none(), nb::arg("include_singleton_axes"))
        .def(
            "get_mesh",
            [](const OfRank& self, nb::handle dims) {
                return nb::isinstance<nb::str>(dims) ? self.get_mesh(text_of(dims, "dims"))
                                                     : self.get_mesh(texts_of(dims, "dims"));
            },
            nb::arg("dims").none())
        .def("mesh_dim_names", &OfRank::mesh_dim_names)
        .def("get_all_one_dimensional_meshes", &OfRank::get_all_one_dimensional_meshes)
        .def("spmd_meshes", &OfRank::spmd_meshes)
        .def("spmd_dense_mesh", &OfRank::spmd_dense_mesh)
        .def("spmd_sparse_mesh", &OfRank::spmd_sparse_mesh)
        .def("get_dense_tp_mesh", &OfRank::get_dense_tp_mesh)
        .def(
            "get_activated_mesh",
            [](const OfRank& self, nb::handle axes) {
                return self.get_activated_mesh(texts_of(axes, "axes"));
            },
            nb::arg("axes").none())
        .def(
            "resolve_mesh",
            [](const OfRank& self, nb::handle axes) { return self.resolve_mesh(texts_of(axes, "axes")); },
            nb::arg("axes").none())
        .def(
            "resolve_shared_mesh",
            [](const OfRank& self, nb::handle placements) {
                auto listed = std::vector<std::optional<AxisNames>>{};
                for (nb::handle axes : placements)
                    listed.push_back(axes.is_none() ? std::nullopt
                                                    : std::optional(texts_of(axes, "placements")));
                return self.resolve_shared_mesh(listed);
            },
            nb::arg("placements").none());
}

}  // namespace

void bind_torchtitan(nb::module_& parent) {
    auto m = parent.def_submodule("torchtitan", "torchtitan's degrees and meshes.");
    bind_dims(m);
    bind_meshes_of_rank(m);
}

}  // namespace rankmesh::python
