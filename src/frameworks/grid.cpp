// SPDX-License-Identifier: Apache-2.0
#include "frameworks/grid.hpp"

namespace rankmesh::frameworks::of_grid {

// Names that no axis can have.
constexpr auto rank_count = "number of ranks", slice_count = "number of slices";
constexpr char model_kind[] = "ds_model_proc_group", data_kind[] = "dp_proc_group",
               pipe_kind[] = "pp_proc_group", slice_kind[] = "slice_proc_group";

/// The topology's rank on this rank of the world, -1 outside.
int topology_rank(const State& state, int rank) {
    const auto own = rank_on(Access::placed(state.groups()), rank).value_or(-1);
    return own < state.groups().mesh().size() ? own : -1;
}

Value global_rank(const State& state, const Given&) { return topology_rank(state, state.rank()); }

template <const char* kind>
Value in_topology(const State& state, const Given&) {
    const auto own = state.groups().of(kind, state.rank());
    if (!own) return kind == slice_kind ? Value() : Value(std::vector<int>{});
    auto ranks = std::vector<int>(own->begin(), own->end());
    for (auto& rank : ranks) rank = topology_rank(state, rank);
    return ranks;
}

ProcessTopology topology_of(const State& state) {
    const auto& given = Access::given(state);
    return {axes(given),
            given.numbers("dims"),
            {.coord = "ProcessCoord", .world_digits = Access::framework(state).name == "areal"}};
}

Value p2p_groups(const State& state, const Given& options) {
    const auto rank = options.number("rank", topology_rank(state, state.rank()));
    if (!state.groups().mesh().contains(rank)) topology_of(state).get_coord(rank);  // throws
    const auto next = *state.groups().mesh().neighbor(rank, "pipe", +1, Edge::wrap);
    const auto& on = Access::placed(state.groups());
    const auto world_rank = [&](int own) { return on ? on->at(static_cast<std::size_t>(own)) : own; };
    return std::vector{world_rank(rank), world_rank(next)};
}

Value stage_to_global(const State& state, const Given& options) {
    const auto own = topology_rank(state, state.rank());
    const auto stage = options.number("stage_id");
    if (own == -1) return -1;
    const auto stages = state.groups().mesh().group(own, "pipe");
    if (stage >= 0 && stage < stages.size()) return stages[stage];
    return topology_of(state).stage_to_global(own, stage);  // throws
}

Value rank_repr(const State& state, const Given&) {
    return topology_of(state).get_rank_repr(topology_rank(state, state.rank()));
}

KindRow kind(const std::string& name, const std::string& groups) {
    return {.name = name + "_proc_group", .groups = groups, .brief = name};
}

std::vector<KindRow> kinds(const std::string& slice, bool on_host) {
    auto rows = std::vector{kind("ds_model", "data | *"), kind("dp", "* | data"), kind("pp", "* | pipe"),
                            kind("slice", cat("* | ", slice))};
    for (std::size_t i = 0; on_host && i < rows.size(); i += 2) {
        auto row = rows[i];
        row.name += "_gloo";
        row.brief.clear();
        row.on_host = true;
        rows.insert(rows.begin() + static_cast<std::ptrdiff_t>(i) + 1, row);
    }
    return rows;
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    auto rows = std::vector<AccessorRow>{
        computed("global_rank", Type::number, global_rank, "The rank of the topology; -1 outside."),
        {"world_size", rank_count, value, "The number of ranks of the topology."},
        {"data_parallel_size", "data", value, "The size of `data`."},
        {"pipe_parallel_size", "pipe", value, "The number of stages."},
        {"model_parallel_size", slice_count, value, "The number of tensor slices."},
        {"slice_parallel_size", slice_count, value, "The number of tensor slices."},
        lenient("stage_id", pipe_kind, rank, "The stage of this rank.", -1),
        lenient("data_parallel_id", data_kind, rank, "This rank's place among the replicas.", -1),
        lenient("is_first_stage", pipe_kind, is_first, "True on the first stage.", false),
        lenient("is_last_stage", pipe_kind, is_last, "True on the last stage.", false),
        lenient("ds_model_rank", model_kind, rank, "This rank's place in its replica.", -1),
        {"ds_model_world_size", model_kind, size, "The number of stages and slices of one replica."},
        computed("dp_group", Type::number, in_topology<data_kind>,
                 "The topology ranks of this stage of all pipelines.", {}, ranks),
        computed("pp_group", Type::number, in_topology<pipe_kind>, "The topology ranks of this pipeline.", {},
                 ranks),
        computed("slice_group", Type::number, in_topology<slice_kind>,
                 "The topology ranks that share this stage of a replica.", {}, ranks),
        computed("p2p_groups", Type::number, p2p_groups,
                 "A topology rank and the one at the next stage, the first after the last.",
                 {{"rank", Type::maybe_number}}, ranks),
        computed("stage_to_global", Type::number, stage_to_global,
                 "The topology rank at another stage, with this rank's index on all other axes.",
                 {{.name = "stage_id", .needed = true}}),
        computed("__rank_repr", Type::word, rank_repr, "This rank's place on all axes but data and pipe.")};
    auto& model_size = *std::ranges::find(rows, "ds_model_world_size", &AccessorRow::name);
    model_size.raises = "AttributeError";
    model_size.missing = "ds_model_world_size is not set: no group of the model";
    std::ranges::find(rows, "slice_group", &AccessorRow::name)->without = Value();
    const auto slice = "get_tensor_model_parallel_rank";
    rows.push_back(lenient(slice, slice_kind, rank, "This rank's place among the tensor slices.", -1));
    rows.back().called = true;
    for (const auto& [name, of] : std::initializer_list<std::pair<const char*, std::string_view>>{
             {"get_stage_id", "stage_id"},
             {"get_data_parallel_id", "data_parallel_id"},
             {"get_global_rank", "global_rank"},
             {"get_pipe_parallel_rank", "stage_id"},
             {"get_pipe_parallel_world_size", "pipe_parallel_size"},
             {"get_data_parallel_rank", "data_parallel_id"},
             {"get_data_parallel_world_size", "data_parallel_size"},
             {"get_model_parallel_rank", "ds_model_rank"},
             {"get_model_parallel_world_size", "ds_model_world_size"},
             {"get_tensor_model_parallel_world_size", "slice_parallel_size"}})
        also(rows, name, of);
    return rows;
}

void add_groups(std::vector<AccessorRow>& rows, bool may_lack, const char* slice_getter) {
    const auto add = [&](const char* kind, const char* doc, const char* getter) {
        rows.push_back({kind, kind, Quantity::group, doc});
        if (may_lack) rows.back().without.emplace();
        also(rows, getter, kind);
    };
    add(model_kind, "All stages and slices of one replica.", "get_model_parallel_group");
    add(data_kind, "The ranks of the same stage of all pipelines.", "get_data_parallel_group");
    add(pipe_kind, "This rank's pipeline.", "get_pipe_parallel_group");
    add(slice_kind, "The tensor slices of this rank's stage and replica.", slice_getter);
}

void also(std::vector<AccessorRow>& rows, const std::string& name, std::string_view of) {
    auto row = *std::ranges::find(rows, of, &AccessorRow::name);
    row.name = name;
    row.called = true;
    rows.push_back(std::move(row));
}

void derive(Given& given, const ProcessTopology& topology, std::string_view slice) {
    for (const auto& axis : topology.axes()) given.derive(axis, topology.get_dim(axis));
    given.derive(rank_count, topology.world_size());
    given.derive(slice_count, std::max(topology.get_dim(slice), 1));
}

void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds&) {
    meshes = {{"topology", joined(axes(given), " ")}};
}

std::optional<std::int64_t> ranks(const Given& given) {
    if (given.is_none("dims")) return std::nullopt;
    auto product = std::int64_t{1};
    for (const auto dim : given.numbers("dims")) product *= dim;
    return product;
}

std::vector<Call> calls(const Given&) {
    return {{"p2p_groups[rank]", "p2p_groups", {}}, {"topology().get_rank_repr", "__rank_repr", {}}};
}

}  // namespace rankmesh::frameworks::of_grid
