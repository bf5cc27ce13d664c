// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace deepspeed;

namespace {

Ranks ranks_of(const dialect::GroupPart& part) { return Ranks(std::vector<int>(part.begin(), part.end())); }

/// All groups of several lists, one after the other.
IntLists all_lists_of(const auto& lists) {
    auto all = IntLists(nb::list());
    for (const auto& groups : lists)
        for (const auto& group : groups) all.append(list_of(group));
    return all;
}

void bind_expert_groups(nb::module_& m) {
    nb::class_<ExpertGroups>(m, "ExpertGroups", "The expert and expert-data groups of one expert size.")
        .def_prop_ro("group_name", &ExpertGroups::group_name)
        .def("expert_parallel", [](const ExpertGroups& self) { return lists_of(self.expert_parallel()); })
        .def("expert_data_parallel",
             [](const ExpertGroups& self) { return lists_of(self.expert_data_parallel()); })
        .def(
            "of_rank",
            [](const ExpertGroups& self, int rank) {
                return std::pair(ranks_of(self.expert_parallel_of(rank)),
                                 ranks_of(self.expert_data_parallel_of(rank)));
            },
            nb::arg("rank"), "The expert and the expert-data group of a rank.")
        .def(
            "new_groups", [](const ExpertGroups& self) { return all_lists_of(self.new_groups()); },
            "All groups in the order in which the original makes them.");
}

void bind_functions(nb::module_& m) {
    def_named(m, "expert_parallel_ranks", _get_expert_parallel_ranks,
              {"world_size", "tensor_parallel_size_", "expert_parallel_size_", "pipeline_parallel_size_",
               "use_data_before_expert_parallel_"});
    def_named(m, "expert_and_data_parallel", _create_expert_and_data_parallel,
              {"world_size", "expert_parallel_size_", "mp_size", "pp_size", "mp_mode",
               "use_data_before_expert_parallel_"});
    def_named(m, "tensor_mesh", _init_tp_mesh_device,
              {"world_size", "tensor_model_parallel_size", "data_parallel_size"});
    def_named(m, "model_mesh", _create_model_parallel, {"world_size", "model_parallel_size_"});
    def_named(m, "zero_mesh", _create_zero_param_parallel_group, {"world_size", "group_size"});
    def_named(m, "sequence_mesh", sequence_parallel_mesh, {"world_size", "sequence_parallel_size"});
    def_named(m, "initialize_sequence_parallel", deepspeed::initialize_sequence_parallel,
              {"world_size", "sequence_parallel_size"});
    def_named(m, "all_to_all_mesh", _get_local_all_to_all_group, {"world_size", "device_per_node"});
}

}  // namespace

void bind_deepspeed(nb::module_& parent) {
    auto m = parent.def_submodule("deepspeed", "DeepSpeed's groups.");
    bind_expert_groups(m);
    bind_functions(m);
}

}  // namespace rankmesh::python
