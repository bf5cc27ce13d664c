// SPDX-License-Identifier: Apache-2.0
// AReaL's ParallelGrid: one model on pipe, data and tensor, over all or some ranks of the world.
#include "frameworks/grid.hpp"

namespace rankmesh::frameworks::of_areal {

const std::vector<int>& placed(const Given& given) {
    static const auto none = std::vector<int>{};
    return given.is_none("rank_mapping") ? none : given.numbers("rank_mapping");
}

/// Throws for a topology that AReaL has not, and for a mapping that lacks a rank or does not rise.
void check(Given& given) {
    refuse_if(given.is_none("dims"), Fault::missing, "a topology needs dims: a size for each axis");
    const auto topology = areal::ProcessTopology(of_grid::axes(given), given.numbers("dims"));
    of_grid::derive(given, topology, "tensor");
    const auto size = topology.world_size();
    if (const auto& ranks = placed(given); !given.is_none("rank_mapping") && std::ssize(ranks) != size)
        throw Error(Fault::missing, std::ssize(ranks) < size
                                        ? cat("the rank mapping has no rank ", ranks.size())
                                        : cat("the rank mapping has ", ranks.size(), " ranks for ", size));
    const auto on = [&](int rank) {
        return placed(given).empty() ? rank : placed(given)[static_cast<std::size_t>(rank)];
    };
    const auto is_mapped = !placed(given).empty();
    for (int rank = is_mapped ? 0 : size - 1; rank < size; ++rank)
        refuse_if(on(rank) < 0 || on(rank) >= given.world_size(), Fault::out_of_range,
                  "The new group's rank should be within the world_size set by init_process_group; rank ",
                  on(rank), " is not in a world of ", given.world_size());
    for (int rank = 1; is_mapped && rank < size; ++rank)
        if (on(rank - 1) >= on(rank))
            throw Refusal(Fault::argument, "mapping-not-rising", "the rank mapping puts topology ranks ",
                          rank - 1, " and ", rank, " on ranks ", on(rank - 1), " and ", on(rank),
                          "; groups are sorted, so each rank must be above the one before");
}

std::vector<KindRow> kinds() {
    auto rows = of_grid::kinds("tensor", true);
    auto ends = {of_grid::kind("embedding", "* | pipe"), of_grid::kind("position_embedding", "* | pipe")};
    const auto first = rows.insert(rows.end() - 2, ends);
    first[0].at = "0 -1";
    first[1].at = "0";
    rows.push_back(of_grid::kind("tp_dp", "* | data tensor"));
    return rows;
}

std::vector<AccessorRow> accessors() {
    auto rows = of_grid::accessors();
    of_grid::add_groups(rows, true, "get_tensor_model_parallel_group");
    for (const auto& [kind, doc] : {std::pair("ds_model_proc_group_gloo", "A replica's ranks, on the host."),
                                    {"dp_proc_group_gloo", "The ranks of the same stage, on the host."},
                                    {"pp_proc_group_gloo", "This rank's pipeline, on the host."},
                                    {"embedding_proc_group", "The first and last stage, on these stages."},
                                    {"position_embedding_proc_group", "The first stage, on this stage."},
                                    {"slice_proc_group_gloo", "The tensor slices, on the host."},
                                    {"tp_dp_proc_group", "All replicas and slices of this rank's stage."}})
        rows.push_back(lenient(kind, kind, Quantity::group, doc));
    of_grid::also(rows, "get_data_parallel_group_gloo", "dp_proc_group_gloo");
    of_grid::also(rows, "get_tensor_model_parallel_cpu_group", "slice_proc_group_gloo");
    return rows;
}

Framework framework() {
    return {
        .name = "areal",
        .original = "realhf.base.topology",
        .title = "AReaL's grid: one model on pipe, data and tensor, over all or some ranks of the world.",
        .settings_of =
            "the axes and dims of ProcessTopology: pipe, data, tensor or data, pipe, tensor; reads a "
            "component of allocation_mode, too",
        .example = "pipe=2 data=4 tensor=2",
        .settings = {{.name = "axes",
                      .type = Type::words,
                      .doc = "The axes of the topology, outermost first",
                      .otherwise = std::vector<std::string>{"pipe", "data", "tensor"},
                      .needed = true},
                     {.name = "dims", .type = Type::numbers, .doc = "The size of each axis", .needed = true},
                     {"rank_mapping", Type::numbers,
                      "The world rank of each rank of the topology, rising; None: the first ranks"}},
        .meshes = {{"topology", "pipe data tensor"}},
        .kinds = kinds(),
        .accessors = accessors(),
        .check = check,
        .placed = placed,
        .extend = of_grid::extend,
        .roles = {{"pipe", "pp"}, {"data", "dp"}, {"tensor", "tp"}},
        .why = {{"cp", "AReaL's topology has no context parallelism; it has pipe, data, tensor"},
                {"ep, edp, etp", "AReaL's topology has no expert parallelism"},
                {"dp_replicate, dp_shard", "AReaL's topology has one data-parallel axis, data"}},
        .ranks = of_grid::ranks,
        .calls = of_grid::calls,
        .raises = {{"", "ValueError"},
                   {"sizes", "AssertionError"},
                   {"unknown", "AttributeError"},
                   {"missing", "KeyError"}},
        .initialize = "ParallelGrid",
        .base = "Answers",
        .start = {.by_itself = true}};
}

}  // namespace rankmesh::frameworks::of_areal
