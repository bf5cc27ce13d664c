// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <rankmesh/dialect/llamafactory/interface.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace llamafactory;
using Interface = llamafactory::RankInfo;

namespace {

Config config_of(nb::handle replicas, nb::handle shards, nb::handle dp, nb::handle cp) {
    return {.mp_replicate_size = int_of(replicas, "mp_replicate_size"),
            .mp_shard_size = optional_int(shards, "mp_shard_size"),
            .dp_size = optional_int(dp, "dp_size"),
            .cp_size = int_of(cp, "cp_size")};
}

/// A member of the enumeration Dim; its text is not one, as in the original.
std::optional<Dim> dim_of(nb::handle member) {
    if (member.is_none()) return std::nullopt;
    const auto given = text_of(member.attr("value"), "dim");
    for (auto dim : {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp})
        if (to_string(dim) == given) return dim;
    throw UnknownName("no dimension is called '" + given + "'; they are mp_replicate, mp_shard, dp and cp");
}

}  // namespace

void bind_llamafactory(nb::module_& parent) {
    auto m = parent.def_submodule("llamafactory", "LlamaFactory's strategy and interface.");
    m.def(
        "strategy",
        [](nb::handle replicas, nb::handle shards, nb::handle dp, nb::handle cp, nb::handle world_size) {
            const auto world = optional_int(world_size, "world_size");
            const auto made = DistributedStrategy(config_of(replicas, shards, dp, cp), world.value_or(1),
                                                  world.has_value());
            return std::pair(made.mp_shard_size, made.dp_size);
        },
        nb::arg("mp_replicate_size").none(), nb::arg("mp_shard_size").none(), nb::arg("dp_size").none(),
        nb::arg("cp_size").none(), nb::arg("world_size").none(),
        "The sizes of mp_shard and dp in a world, None where nothing is distributed.");
    m.def(
        "environment",
        [] {
            const auto [rank, world_size, local_rank, local_world_size] = Environment::from_environment();
            return std::tuple(rank, world_size, local_rank, local_world_size);
        },
        "RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE of the launcher; None where RANK is not set.");
    nb::class_<Interface>(m, "Interface", "What the interface knows of one rank.")
        .def(
            "__init__",
            [](Interface* self, nb::handle replicas, nb::handle shards, nb::handle dp, nb::handle cp,
               nb::handle rank, nb::handle world_size, nb::handle local_rank, nb::handle local_world_size) {
                new (self) Interface(config_of(replicas, shards, dp, cp),
                                     {.rank = optional_int(rank, "rank"),
                                      .world_size = int_of(world_size, "world_size"),
                                      .local_rank = int_of(local_rank, "local_rank"),
                                      .local_world_size = int_of(local_world_size, "local_world_size")});
            },
            nb::arg("mp_replicate_size").none(), nb::arg("mp_shard_size").none(), nb::arg("dp_size").none(),
            nb::arg("cp_size").none(), nb::arg("rank").none(), nb::arg("world_size").none(),
            nb::arg("local_rank").none(), nb::arg("local_world_size").none())
        .def(
            "ranks",
            [](const Interface& self, nb::handle dim) -> std::optional<Ranks> {
                if (const auto group = self.get_group(dim_of(dim))) return Ranks(*group);
                return std::nullopt;
            },
            nb::arg("dim").none(), "This rank's group along a dimension; None where nothing is distributed.")
        .def(
            "get_rank", [](const Interface& self, nb::handle dim) { return self.get_rank(dim_of(dim)); },
            nb::arg("dim") = nb::none(),
            nb::sig("def get_rank(self, dim: rankmesh._enums.StrEnum | None = None) -> int"),
            "This rank's place in its group along a dimension, or in the world.")
        .def(
            "get_world_size",
            [](const Interface& self, nb::handle dim) { return self.get_world_size(dim_of(dim)); },
            nb::arg("dim") = nb::none(),
            nb::sig("def get_world_size(self, dim: rankmesh._enums.StrEnum | None = None) -> int"),
            "The number of ranks along a dimension, or in the world.")
        .def("get_local_rank", &Interface::get_local_rank, "This rank's place on its host.")
        .def("get_local_world_size", &Interface::get_local_world_size, "The number of ranks on its host.")
        .def("__str__", &Interface::str);
}

}  // namespace rankmesh::python
