// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace deepspeed;
using PipelineGrid = deepspeed::RankInfo;

namespace {

Ranks ranks_of(const dialect::GroupPart& part) { return Ranks(std::vector<int>(part.begin(), part.end())); }

/// All groups of several lists, one after the other.
IntLists all_lists_of(const auto& lists) {
    auto all = IntLists(nb::list());
    for (const auto& groups : lists)
        for (const auto& group : groups) all.append(list_of(group));
    return all;
}

/// The ranks of each group of this rank, by the name of its handle.
nb::typed<nb::dict, nb::str, Ranks> handles(const PipelineGrid& grid) {
    auto handles = nb::typed<nb::dict, nb::str, Ranks>(nb::dict());
    handles["ds_model_proc_group"] = Ranks(*grid.ds_model_group);
    handles["dp_proc_group"] = Ranks(*grid.dp_group);
    handles["pp_proc_group"] = Ranks(*grid.pp_group);
    handles["slice_proc_group"] = Ranks(*grid.slice_group);
    return handles;
}

void bind_pipeline_grid(nb::module_& m) {
    nb::class_<PipelineGrid, GridRankInfo>(m, "PipelineGrid", "What DeepSpeed's grid knows of one rank.")
        .def(
            "__init__",
            [](PipelineGrid* self, const ProcessTopology& topology, nb::handle rank, nb::handle world_size) {
                new (self) PipelineGrid(topology, int_of(rank, "rank"), int_of(world_size, "world_size"));
            },
            nb::arg("topology"), nb::arg("rank").none(), nb::arg("world_size").none())
        .def("handles", handles)
        .def("get_pipeline_model_parallel_rank", &PipelineGrid::get_pipeline_model_parallel_rank)
        .def("get_pipeline_model_parallel_world_size", &PipelineGrid::get_pipeline_model_parallel_world_size)
        .def("get_slice_parallel_rank", &PipelineGrid::get_slice_parallel_rank)
        .def("get_slice_parallel_world_size", &PipelineGrid::get_slice_parallel_world_size)
        .def(
            "new_groups", [](const PipelineGrid& self) { return all_lists_of(self.new_groups()); },
            "The groups that the original makes, in its order: model, data, pipe, slice.");
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
    def_named(m, "prime_factors", _prime_factors, {"N"}, "The prime factors of a positive number, rising.");
    def_named(
        m, "default_dims", +[](int world_size) { return default_topology(world_size).dims(); },
        {"world_size"}, "The sizes of pipe and data where no topology is given.");
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
    auto m = parent.def_submodule("deepspeed", "DeepSpeed's grid and groups.");
    bind_pipeline_grid(m);
    bind_expert_groups(m);
    bind_functions(m);
}

}  // namespace rankmesh::python
