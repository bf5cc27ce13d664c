// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <rankmesh/dialect/areal/parallel_grid.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace areal;
using ModelGrid = areal::RankInfo;

namespace {

RankMapping mapping_of(nb::handle ranks) {
    if (ranks.is_none()) return {};
    if (!nb::hasattr(ranks, "items"))
        throw TypeFault(detail::cat("the rank mapping is ", described(ranks),
                                    "; it must be a mapping such as {0: 4, 1: 5}"));
    auto table = std::map<int, int>{};
    const auto items = nb::object(ranks.attr("items")());
    for (auto item : items)
        table[int_of(nb::object(item[0]), "a rank of the topology")] =
            int_of(nb::object(item[1]), "a rank of the world");
    return table;
}

/// The world ranks of a group of topology ranks, None outside the model.
auto handle(std::optional<Group> ModelGrid::*group) {
    return [group](const ModelGrid& self) -> std::optional<Ranks> {
        if (!(self.*group)) return std::nullopt;
        if (self.rank_mapping.step() == 1 && self.rank_mapping[0] == 0) return Ranks(*(self.*group));
        const auto mapped = self.mapped(*(self.*group));
        return Ranks(std::vector<int>(mapped.begin(), mapped.end()));
    };
}
/// The same of what a grid has in common with DeepSpeed's.
auto handle(std::optional<Group> deepspeed::GridRankInfo::*group) {
    return handle(static_cast<std::optional<Group> ModelGrid::*>(group));
}

void bind_model_topology(nb::module_& m) {
    nb::class_<ProcessTopology, deepspeed::ProcessTopology>(m, "ProcessTopology",
                                                            "DeepSpeed's, with two orders of three axes.")
        .def(
            "__init__",
            [](ProcessTopology* self, nb::handle axes, nb::handle dims) {
                new (self) ProcessTopology(texts_of(axes, "axes"), ints_of(dims, "dims"));
            },
            nb::arg("axes"), nb::arg("dims"))
        .def("__repr__", &ProcessTopology::repr);
    m.def(
        "decompose_to_three_factors",
        [](nb::handle n) {
            auto triples = nb::typed<nb::list, nb::typed<nb::tuple, int, int, int>>(nb::list());
            for (const auto& [i, j, k] : decompose_to_three_factors(int_of(n, "n")))
                triples.append(nb::make_tuple(i, j, k));
            return triples;
        },
        nb::arg("n"));
}

void bind_model_grid(nb::module_& m) {
    using Registry = ProcessGroupRegistry;
    nb::class_<Registry>(m, "ProcessGroupRegistry",
                         "The sets of ranks for which AReaL would have made a process group, each once a "
                         "backend.")
        .def(
            "__init__",
            [](Registry* self, nb::handle backend) { new (self) Registry(text_of(backend, "the backend")); },
            nb::arg("backend") = "nccl", nb::sig("def __init__(self, backend: str = 'nccl') -> None"))
        .def(
            "new_or_get_group",
            [](Registry& self, nb::handle ranks, nb::handle backend) {
                return self.new_or_get_group(
                    ints_of(ranks, "the ranks"),
                    backend.is_none() ? std::nullopt : std::optional(text_of(backend, "the backend")));
            },
            nb::arg("ranks"), nb::arg("backend").none() = nb::none(),
            nb::sig("def new_or_get_group(self, ranks: collections.abc.Iterable[int], "
                    "backend: str | None = None) -> int"),
            "The number of the group of these ranks, in any order, on this backend.")
        .def(
            "made",
            [](const Registry& self) {
                auto made = nb::typed<nb::list, nb::typed<nb::tuple, IntList, nb::str>>(nb::list());
                for (const auto& group : self.made())
                    made.append(nb::make_tuple(list_of(group.ranks), group.backend));
                return made;
            },
            "What was made, in this order: sorted ranks and the backend.")
        .def("__len__", &Registry::size)
        .def("destroy_all_comm_groups", &Registry::destroy_all_comm_groups, nb::arg("is_initialized") = true,
             "Forgets all groups; nothing happens where the processes were never initialised.");
    nb::class_<ModelGrid, deepspeed::GridRankInfo>(m, "ModelGrid", "What AReaL's grid knows of one rank.")
        .def(
            "__init__",
            [](ModelGrid* self, const ProcessTopology& topology, nb::handle rank, nb::handle world_size,
               nb::handle rank_mapping) {
                new (self) ModelGrid(topology, int_of(rank, "rank"), int_of(world_size, "world_size"),
                                     mapping_of(rank_mapping));
            },
            nb::arg("topology"), nb::arg("rank"), nb::arg("world_size"), nb::arg("rank_mapping").none())
        .def_prop_ro("ds_model_proc_group", handle(&ModelGrid::ds_model_group))
        .def_prop_ro("dp_proc_group", handle(&ModelGrid::dp_group))
        .def_prop_ro("pp_proc_group", handle(&ModelGrid::pp_group))
        .def_prop_ro("slice_proc_group", handle(&ModelGrid::slice_group))
        .def_prop_ro("embedding_proc_group", handle(&ModelGrid::embedding_group))
        .def_prop_ro("position_embedding_proc_group", handle(&ModelGrid::position_embedding_group))
        .def_prop_ro("tp_dp_proc_group", handle(&ModelGrid::tp_dp_group))
        .def("mapped_p2p_groups",
             [](const ModelGrid& self) {
                 auto pairs = std::vector<std::array<int, 2>>{};
                 for (int rank = 0; rank < self.world_size; ++rank) pairs.push_back(self.p2p_groups(rank));
                 return lists_of(pairs);
             })
        .def("make_groups", &ModelGrid::make_groups, nb::arg("registry"),
             "Asks for every group of the grid in the original's order, so that those which the registry "
             "lacks are made.");
    nb::class_<FakeGrid>(m, "FakeGrid", "A grid of ranks and sizes without groups.")
        .def(
            "__init__",
            [](FakeGrid* self, nb::handle rank, const ProcessTopology& topo) {
                new (self) FakeGrid(int_of(rank, "rank"), topo);
            },
            nb::arg("rank"), nb::arg("topo"))
        .def_ro("rank", &FakeGrid::rank)
        .def_ro("data_parallel_size", &FakeGrid::data_parallel_size)
        .def_ro("pipe_parallel_size", &FakeGrid::pipe_parallel_size)
        .def_ro("model_parallel_size", &FakeGrid::model_parallel_size)
        .def_ro("world_size", &FakeGrid::world_size)
        .def_ro("dp_id", &FakeGrid::dp_id)
        .def_ro("pp_id", &FakeGrid::pp_id)
        .def_ro("mp_id", &FakeGrid::mp_id)
        .def("get_pipe_parallel_world_size", &FakeGrid::get_pipe_parallel_world_size)
        .def("get_pipe_parallel_rank", &FakeGrid::get_pipe_parallel_rank)
        .def("get_data_parallel_world_size", &FakeGrid::get_data_parallel_world_size)
        .def("get_data_parallel_rank", &FakeGrid::get_data_parallel_rank)
        .def("get_tensor_model_parallel_world_size", &FakeGrid::get_tensor_model_parallel_world_size)
        .def("get_tensor_model_parallel_rank", &FakeGrid::get_tensor_model_parallel_rank)
        .def("get_pipe_parallel_group", [](const FakeGrid& self) { self.get_pipe_parallel_group(); })
        .def("get_data_parallel_group", [](const FakeGrid& self) { self.get_data_parallel_group(); })
        .def("get_tensor_model_parallel_group",
             [](const FakeGrid& self) { self.get_tensor_model_parallel_group(); });
}

}  // namespace

void bind_areal(nb::module_& parent) {
    auto m = parent.def_submodule("areal", "AReaL's topology, grid and registry, without a process.");
    bind_model_topology(m);
    bind_model_grid(m);
}

}  // namespace rankmesh::python
