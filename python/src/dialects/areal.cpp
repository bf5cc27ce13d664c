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

/// The ranks of the world in each group of this rank, by the name of its handle; those of `_gloo` are on the
/// host.
nb::typed<nb::dict, nb::str, Ranks> handles(const ModelGrid& grid) {
    auto handles = nb::typed<nb::dict, nb::str, Ranks>(nb::dict());
    const auto whole = grid.rank_mapping.step() == 1 && grid.rank_mapping[0] == 0;
    const auto add = [&](const char* name, const std::optional<Group>& group, bool on_host = false) {
        if (!group) return;
        const auto ranks = nb::cast(whole ? Ranks(*group) : Ranks(grid.mapped(*group)));
        handles[name] = ranks;
        if (on_host) handles[detail::cat(name, "_gloo").c_str()] = ranks;
    };
    add("ds_model_proc_group", grid.ds_model_group, true);
    add("dp_proc_group", grid.dp_group, true);
    add("pp_proc_group", grid.pp_group, true);
    add("embedding_proc_group", grid.embedding_group);
    add("position_embedding_proc_group", grid.position_embedding_group);
    add("slice_proc_group", grid.slice_group, true);
    add("tp_dp_proc_group", grid.tp_dp_group);
    return handles;
}

}  // namespace

void bind_areal(nb::module_& parent) {
    auto m = parent.def_submodule("areal", "AReaL's grid and registry, without a process.");
    def_named(m, "decompose_to_three_factors", +[](int n) { return lists_of(decompose_to_three_factors(n)); },
              {"n"});
    nb::class_<ModelGrid, deepspeed::GridRankInfo>(m, "ModelGrid", "What AReaL's grid knows of one rank.")
        .def(
            "__init__",
            [](ModelGrid* self, const deepspeed::ProcessTopology& topology, nb::handle rank,
               nb::handle world_size, nb::handle rank_mapping) {
                new (self) ModelGrid({topology.axes(), topology.dims()}, int_of(rank, "rank"),
                                     int_of(world_size, "world_size"), mapping_of(rank_mapping));
            },
            nb::arg("topology"), nb::arg("rank"), nb::arg("world_size"), nb::arg("rank_mapping").none())
        .def("handles", handles)
        .def("all_p2p_groups", all_p2p_groups<ModelGrid>)
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
}

}  // namespace rankmesh::python
