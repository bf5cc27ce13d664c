// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/expert_groups.hpp>
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

void bind_pipeline_grid(nb::module_& m) {
    m.def(
        "prime_factors", [](nb::handle n) { return list_of(_prime_factors(int_of(n, "N"))); },
        nb::arg("N").none());
    m.def(
        "default_dims",
        [](nb::handle world_size) {
            return list_of(default_topology(int_of(world_size, "world_size")).dims());
        },
        nb::arg("world_size").none(), "The sizes of pipe and data where no topology is given.");
    nb::class_<PipelineGrid, GridRankInfo>(m, "PipelineGrid", "What DeepSpeed's grid knows of one rank.")
        .def(
            "__init__",
            [](PipelineGrid* self, const ProcessTopology& topology, nb::handle rank, nb::handle world_size) {
                new (self) PipelineGrid(topology, int_of(rank, "rank"), int_of(world_size, "world_size"));
            },
            nb::arg("topology"), nb::arg("rank").none(), nb::arg("world_size").none())
        .def_prop_ro("ds_model_proc_group",
                     [](const PipelineGrid& self) { return Ranks(*self.ds_model_group); })
        .def_prop_ro("dp_proc_group", [](const PipelineGrid& self) { return Ranks(*self.dp_group); })
        .def_prop_ro("pp_proc_group", [](const PipelineGrid& self) { return Ranks(*self.pp_group); })
        .def_prop_ro("slice_proc_group", [](const PipelineGrid& self) { return Ranks(*self.slice_group); })
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
    m.def(
        "expert_parallel_ranks",
        [](nb::handle world, nb::handle tensor, nb::handle expert, nb::handle pipeline, bool data_first) {
            return _get_expert_parallel_ranks(int_of(world, "world_size"),
                                              int_of(tensor, "tensor_parallel_size_"),
                                              int_of(expert, "expert_parallel_size_"),
                                              int_of(pipeline, "pipeline_parallel_size_"), data_first);
        },
        nb::arg("world_size").none(), nb::arg("tensor_parallel_size_").none(),
        nb::arg("expert_parallel_size_").none(), nb::arg("pipeline_parallel_size_").none(),
        nb::arg("use_data_before_expert_parallel_"));
    m.def(
        "expert_and_data_parallel",
        [](nb::handle world, nb::handle expert, nb::handle mp, nb::handle pp, nb::handle mode,
           bool data_first) {
            return _create_expert_and_data_parallel(int_of(world, "world_size"),
                                                    int_of(expert, "expert_parallel_size_"),
                                                    optional_int(mp, "mp_size"), optional_int(pp, "pp_size"),
                                                    text_of(mode, "mp_mode"), data_first);
        },
        nb::arg("world_size").none(), nb::arg("expert_parallel_size_").none(), nb::arg("mp_size").none(),
        nb::arg("pp_size").none(), nb::arg("mp_mode").none(), nb::arg("use_data_before_expert_parallel_"));
}

void bind_meshes(nb::module_& m) {
    m.def(
        "tensor_mesh",
        [](nb::handle world, nb::handle tensor, nb::handle data) {
            return _init_tp_mesh_device(int_of(world, "world_size"),
                                        int_of(tensor, "tensor_model_parallel_size"),
                                        optional_int(data, "data_parallel_size"));
        },
        nb::arg("world_size").none(), nb::arg("tensor_model_parallel_size").none(),
        nb::arg("data_parallel_size").none());
    m.def(
        "model_mesh",
        [](nb::handle world, nb::handle size) {
            return _create_model_parallel(int_of(world, "world_size"), int_of(size, "model_parallel_size_"));
        },
        nb::arg("world_size").none(), nb::arg("model_parallel_size_").none());
    m.def(
        "zero_mesh",
        [](nb::handle world, nb::handle size) {
            return _create_zero_param_parallel_group(int_of(world, "world_size"), int_of(size, "group_size"));
        },
        nb::arg("world_size").none(), nb::arg("group_size").none());
    m.def(
        "sequence_mesh",
        [](nb::handle world, nb::handle size) {
            return sequence_parallel_mesh(int_of(world, "world_size"),
                                          int_of(size, "sequence_parallel_size"));
        },
        nb::arg("world_size").none(), nb::arg("sequence_parallel_size").none());
    m.def(
        "initialize_sequence_parallel",
        [](nb::handle world, nb::handle size) {
            return initialize_sequence_parallel(int_of(world, "world_size"),
                                                int_of(size, "sequence_parallel_size"));
        },
        nb::arg("world_size").none(), nb::arg("sequence_parallel_size").none());
    m.def(
        "all_to_all_groups",
        [](nb::handle world, nb::handle devices) {
            const auto mesh =
                _get_local_all_to_all_group(int_of(world, "world_size"), int_of(devices, "device_per_node"));
            const auto local = mesh.partition("local"), global = mesh.partition("global");
            auto groups = nb::typed<nb::dict, std::string, Ranks>(nb::dict());
            auto at = 0;
            for (const auto& name : all_to_all_names(mesh)) {
                groups[nb::cast(name)] = Ranks(at < local.size() ? local[at] : global[at - local.size()]);
                ++at;
            }
            return groups;
        },
        nb::arg("world_size").none(), nb::arg("device_per_node").none());
}

}  // namespace

void bind_deepspeed(nb::module_& parent) {
    auto m = parent.def_submodule("deepspeed", "DeepSpeed's grid and groups.");
    bind_pipeline_grid(m);
    bind_expert_groups(m);
    bind_meshes(m);
}

}  // namespace rankmesh::python
