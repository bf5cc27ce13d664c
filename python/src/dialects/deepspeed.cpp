// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>

#include "grids.hpp"

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

void bind_pipeline_grid(nb::module_& m) {
    auto grid =
        nb::class_<PipelineGrid, GridRankInfo>(m, "PipelineGrid", "What DeepSpeed's grid knows of one rank.");
    grid.def(
            "__init__",
            [](PipelineGrid* self, const ProcessTopology& topology, nb::handle rank, nb::handle world_size) {
                new (self) PipelineGrid(topology, int_of(rank, "rank"), int_of(world_size, "world_size"));
            },
            nb::arg("topology"), nb::arg("rank").none(), nb::arg("world_size").none())
        .def("get_pipeline_model_parallel_rank", &PipelineGrid::get_pipeline_model_parallel_rank)
        .def("get_pipeline_model_parallel_world_size", &PipelineGrid::get_pipeline_model_parallel_world_size)
        .def("get_slice_parallel_rank", &PipelineGrid::get_slice_parallel_rank)
        .def("get_slice_parallel_world_size", &PipelineGrid::get_slice_parallel_world_size)
        .def(
            "new_groups", [](const PipelineGrid& self) { return all_lists_of(self.new_groups()); },
            "The groups that the original makes, in its order: model, data, pipe, slice.");
    def_handles<PipelineGrid>(
        grid,
        {{"ds_model_proc_group", &PipelineGrid::ds_model_group, "All stages and slices of one replica.",
          "get_model_parallel_group"},
         {"dp_proc_group", &PipelineGrid::dp_group, "The ranks of the same stage of all pipelines.",
          "get_data_parallel_group"},
         {"pp_proc_group", &PipelineGrid::pp_group, "This rank's pipeline.", "get_pipe_parallel_group"},
         {"slice_proc_group", &PipelineGrid::slice_group,
          "The tensor slices of this rank's stage and replica.", "get_slice_parallel_group"}},
        [](const PipelineGrid&, const Group& group) { return Ranks(group); });
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
