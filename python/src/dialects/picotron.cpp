// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using Manager = picotron::RankInfo;

namespace {

template <Group Manager::*group>
Ranks ranks(const Manager& self) {
    return Ranks(self.*group);
}
template <Group Manager::*group>
IntList ids(const Manager& self) {
    return list_of(self.*group);
}

}  // namespace

void bind_picotron(nb::module_& parent) {
    auto m = parent.def_submodule("picotron", "picotron's manager.");
    nb::class_<Manager>(m, "Manager", "What picotron's manager knows of one rank.")
        .def(
            "__init__",
            [](Manager* self, nb::handle tp, nb::handle cp, nb::handle pp, nb::handle dp, nb::handle rank,
               nb::handle world_size, nb::handle local_rank) {
                const auto sizes = picotron::Sizes{.tp = int_of(tp, "tp_size"),
                                                   .cp = int_of(cp, "cp_size"),
                                                   .pp = int_of(pp, "pp_size"),
                                                   .dp = int_of(dp, "dp_size")};
                new (self) Manager(sizes, int_of(rank, "rank"), int_of(world_size, "world_size"),
                                   optional_int(local_rank, "local_rank"));
            },
            nb::arg("tp_size").none(), nb::arg("cp_size").none(), nb::arg("pp_size").none(),
            nb::arg("dp_size").none(), nb::arg("rank").none(), nb::arg("world_size").none(),
            nb::arg("local_rank").none())
        .def_prop_ro(
            "grid", [](const Manager& self) { return self.grid; },
            "The mesh dp pp cp tp; the original has a tensor of ranks.")
        .def_ro("global_rank", &Manager::global_rank)
        .def_ro("world_size", &Manager::world_size)
        .def_ro("local_rank", &Manager::local_rank)
        .def_ro("dp_rank", &Manager::dp_rank)
        .def_ro("pp_rank", &Manager::pp_rank)
        .def_ro("cp_rank", &Manager::cp_rank)
        .def_ro("tp_rank", &Manager::tp_rank)
        .def_prop_ro("tp_group_ids", &ids<&Manager::tp_group_ids>)
        .def_prop_ro("cp_group_ids", &ids<&Manager::cp_group_ids>)
        .def_prop_ro("pp_group_ids", &ids<&Manager::pp_group_ids>)
        .def_prop_ro("dp_group_ids", &ids<&Manager::dp_group_ids>)
        .def_prop_ro("cp_dp_group_ids", &ids<&Manager::cp_dp_group_ids>)
        .def_prop_ro("tp_group", &ranks<&Manager::tp_group_ids>)
        .def_prop_ro("cp_group", &ranks<&Manager::cp_group_ids>)
        .def_prop_ro("pp_group", &ranks<&Manager::pp_group_ids>)
        .def_prop_ro("dp_group", &ranks<&Manager::dp_group_ids>)
        .def_prop_ro("cp_dp_group", &ranks<&Manager::cp_dp_group_ids>)
        .def_prop_ro("pp_dp_group", &ranks<&Manager::pp_dp_group_ids>)
        .def_prop_ro("world_group", [](const Manager& self) { return Ranks(self.grid.ranks()); })
        .def_ro("tp_world_size", &Manager::tp_world_size)
        .def_ro("tp_first_rank", &Manager::tp_first_rank)
        .def_ro("tp_last_rank", &Manager::tp_last_rank)
        .def_ro("cp_world_size", &Manager::cp_world_size)
        .def_ro("cp_first_rank", &Manager::cp_first_rank)
        .def_ro("cp_last_rank", &Manager::cp_last_rank)
        .def_ro("cp_send_rank", &Manager::cp_send_rank)
        .def_ro("cp_recv_rank", &Manager::cp_recv_rank)
        .def_ro("pp_world_size", &Manager::pp_world_size)
        .def_ro("pp_first_rank", &Manager::pp_first_rank)
        .def_ro("pp_last_rank", &Manager::pp_last_rank)
        .def_ro("pp_is_first_stage", &Manager::pp_is_first_stage)
        .def_ro("pp_is_last_stage", &Manager::pp_is_last_stage)
        .def_ro("pp_next_rank", &Manager::pp_next_rank)
        .def_ro("pp_prev_rank", &Manager::pp_prev_rank)
        .def_ro("dp_world_size", &Manager::dp_world_size)
        .def_ro("dp_first_rank", &Manager::dp_first_rank)
        .def_ro("dp_last_rank", &Manager::dp_last_rank)
        .def_ro("cp_dp_world_size", &Manager::cp_dp_world_size)
        .def_ro("pp_dp_world_size", &Manager::pp_dp_world_size)
        .def("__str__", &Manager::str);
}

}  // namespace rankmesh::python
