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
std::optional<Ranks> handle(const ModelGrid& grid, const std::optional<Group>& group) {
    if (!group) return std::nullopt;
    if (grid.rank_mapping.step() == 1 && grid.rank_mapping[0] == 0) return Ranks(*group);
    return Ranks(grid.mapped(*group));
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
    auto grid = nb::class_<ModelGrid, deepspeed::GridRankInfo>(m, "ModelGrid",
                                                               "What AReaL's grid knows of one rank.");
    grid.def(
            "__init__",
            [](ModelGrid* self, const ProcessTopology& topology, nb::handle rank, nb::handle world_size,
               nb::handle rank_mapping) {
                new (self) ModelGrid(topology, int_of(rank, "rank"), int_of(world_size, "world_size"),
                                     mapping_of(rank_mapping));
            },
            nb::arg("topology"), nb::arg("rank"), nb::arg("world_size"), nb::arg("rank_mapping").none())
        .def("mapped_p2p_groups",
             [](const ModelGrid& self) {
                 auto pairs = std::vector<std::array<int, 2>>{};
                 for (int rank = 0; rank < self.world_size; ++rank) pairs.push_back(self.p2p_groups(rank));
                 return lists_of(pairs);
             })
        .def(
            "asked_groups",
            [](const ModelGrid& self) {
                auto registry = ProcessGroupRegistry();
                self.make_groups(registry);
                auto asked = nb::typed<nb::list, nb::typed<nb::tuple, IntList, nb::str>>(nb::list());
                for (const auto& group : registry.made())
                    asked.append(nb::make_tuple(list_of(group.ranks), group.backend));
                return asked;
            },
            "The ranks and backend of each group that the original's grid asks for, once, in its order.");
    // Torch's groups, where the object has them as _handles, else their ranks.
    const auto add = [&grid](const std::string& name, std::optional<Group> ModelGrid::*group, const char* doc,
                             const std::string& getter = {}) {
        const auto get = [name, group](nb::handle self) -> nb::object {
            const auto handles = nb::object(nb::getattr(self, "_handles", nb::none()));
            const auto& pure = nb::cast<const ModelGrid&>(self);
            return handles.is_none() ? nb::cast(handle(pure, pure.*group)) : handles.attr("get")(name);
        };
        const auto sig = [](const std::string& of) {
            return detail::cat("def ", of, "(self) -> typing.Any");
        };
        grid.def_prop_ro(name.c_str(), get, nb::sig(sig(name).c_str()), doc);
        if (!getter.empty()) grid.def(getter.c_str(), get, nb::sig(sig(getter).c_str()), doc);
    };
    const auto add_both = [&](const std::string& name, std::optional<Group> ModelGrid::*group,
                              const char* doc, const char* getter, const char* on_host = "") {
        add(name, group, doc, getter);
        add(name + "_gloo", group, "The same on the host.", on_host);
    };
    add_both("ds_model_proc_group", &ModelGrid::ds_model_group, "All stages and slices of one replica.",
             "get_model_parallel_group");
    add_both("dp_proc_group", &ModelGrid::dp_group, "The ranks of the same stage of all pipelines.",
             "get_data_parallel_group", "get_data_parallel_group_gloo");
    add_both("pp_proc_group", &ModelGrid::pp_group, "This rank's pipeline.", "get_pipe_parallel_group");
    add("embedding_proc_group", &ModelGrid::embedding_group, "The first and last stage, on these stages.");
    add("position_embedding_proc_group", &ModelGrid::position_embedding_group,
        "The first stage, on this stage.");
    add_both("slice_proc_group", &ModelGrid::slice_group,
             "The tensor slices of this rank's stage and replica.", "get_tensor_model_parallel_group",
             "get_tensor_model_parallel_cpu_group");
    add("tp_dp_proc_group", &ModelGrid::tp_dp_group, "All replicas and slices of this rank's stage.");
}

}  // namespace

void bind_areal(nb::module_& parent) {
    auto m = parent.def_submodule("areal", "AReaL's topology, grid and registry, without a process.");
    bind_model_topology(m);
    bind_model_grid(m);
}

}  // namespace rankmesh::python
