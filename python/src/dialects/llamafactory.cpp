// SPDX-License-Identifier: Apache-2.0
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

std::optional<Dim> dim_of(nb::handle name) {
    if (name.is_none()) return std::nullopt;
    const auto given = text_of(name, "dim");
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
    nb::class_<Environment>(m, "Environment", "What the launcher says.")
        .def_static("from_environment", &Environment::from_environment)
        .def(
            "__init__",
            [](Environment* self, nb::handle rank, nb::handle world_size, nb::handle local_rank,
               nb::handle local_world_size) {
                new (self) Environment{.rank = optional_int(rank, "rank"),
                                       .world_size = int_of(world_size, "world_size"),
                                       .local_rank = int_of(local_rank, "local_rank"),
                                       .local_world_size = int_of(local_world_size, "local_world_size")};
            },
            nb::arg("rank").none(), nb::arg("world_size").none(), nb::arg("local_rank").none(),
            nb::arg("local_world_size").none())
        .def_ro("rank", &Environment::rank)
        .def_ro("world_size", &Environment::world_size)
        .def_ro("local_rank", &Environment::local_rank)
        .def_ro("local_world_size", &Environment::local_world_size);
    nb::class_<Interface>(m, "Interface", "What the interface knows of one rank.")
        .def(
            "__init__",
            [](Interface* self, nb::handle replicas, nb::handle shards, nb::handle dp, nb::handle cp,
               const Environment& environment) {
                new (self) Interface(config_of(replicas, shards, dp, cp), environment);
            },
            nb::arg("mp_replicate_size").none(), nb::arg("mp_shard_size").none(), nb::arg("dp_size").none(),
            nb::arg("cp_size").none(), nb::arg("environment"))
        .def(
            "get_group",
            [](const Interface& self, nb::handle dim) -> std::optional<Ranks> {
                if (const auto group = self.get_group(dim_of(dim))) return Ranks(*group);
                return std::nullopt;
            },
            nb::arg("dim").none())
        .def(
            "get_rank", [](const Interface& self, nb::handle dim) { return self.get_rank(dim_of(dim)); },
            nb::arg("dim").none())
        .def(
            "get_world_size",
            [](const Interface& self, nb::handle dim) { return self.get_world_size(dim_of(dim)); },
            nb::arg("dim").none())
        .def("__str__", &Interface::str);
}

}  // namespace rankmesh::python
