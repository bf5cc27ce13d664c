// SPDX-License-Identifier: Apache-2.0
// What one rank asks a dialect at start-up, at 65,536 ranks beside 64, and what it allocates for that; and
// what writing all data-parallel groups costs beside memset of as many bytes.
//
//     bench_dialect_start_up
//
// Start-up is the pure part, every accessor of it, and this rank's own groups with their ends; joining is
// what bench_engine_join measures. Texts that list the whole world, as the originals print it, are left out.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/dialect/areal/parallel_grid.hpp>
#include <rankmesh/dialect/deepspeed/groups.hpp>
#include <rankmesh/dialect/deepspeed/pipeline_parallel_grid.hpp>
#include <rankmesh/dialect/llamafactory/interface.hpp>
#include <rankmesh/dialect/megatron/parallel_state.hpp>
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>
#include <rankmesh/dialect/olmo/world_mesh.hpp>
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "allocated.hpp"

namespace {

using rankmesh::Group;

/// Both worlds are cut on every axis, the large one into more.
struct Sizes {
    int world, tp, cp, pp, dp;
};
constexpr auto small = Sizes{64, 2, 2, 4, 4};
constexpr auto large = Sizes{65536, 8, 8, 16, 64};
constexpr auto rank = 5;  // on the first stage, which has every group

template <class... Values>
void keep(Values&&... values) {
    (benchmark::DoNotOptimize(values), ...);
}
/// A group with its ends, its size and this rank's place.
void keep_group(const auto& group) {
    keep(group.size(), group.front(), group.back(), group.position(rank), group);
}

void picotron(const Sizes& s) {
    const auto place =
        rankmesh::picotron::Place({.tp = s.tp, .cp = s.cp, .pp = s.pp, .dp = s.dp}, rank, s.world);
    for (const auto* group : {&place.tp_group_ids, &place.cp_group_ids, &place.pp_group_ids,
                              &place.dp_group_ids, &place.cp_dp_group_ids, &place.pp_dp_group_ids})
        keep_group(*group);
    keep(place, place.str());
}

void llamafactory(const Sizes& s) {
    using namespace rankmesh::llamafactory;
    const auto place = Place({.mp_replicate_size = s.dp, .cp_size = s.cp},
                             {.rank = rank, .world_size = s.world, .local_rank = 5, .local_world_size = 8});
    for (auto dim : {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp}) {
        keep_group(*place.get_group(dim));
        keep(place.get_rank(dim), place.get_world_size(dim), place.get_device_mesh(dim));
    }
    keep(place.get_rank(), place.get_world_size(), place.get_local_rank(), place.get_local_world_size());
}

rankmesh::olmo::ParallelConfigs olmo_configs(const Sizes& s) {
    using namespace rankmesh::olmo;
    const auto dp = DataParallelConfig{.name = DataParallelType::hsdp, .num_replicas = s.dp / 2};
    return {.dp = dp, .tp = {{s.tp}}, .cp = {{s.cp}}, .pp = {{.degree = s.pp}}};
}
void olmo(const Sizes& s) {
    using namespace rankmesh::olmo;
    const auto mesh = WorldMesh(rank, s.world).build_world_mesh(olmo_configs(s));
    for (const auto* name : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "dp"}) {
        keep_group(mesh.get_group(name));
        keep(mesh.get_local_rank(name));
    }
    keep_group(get_dp_process_group(mesh));
    for (const auto& part : {get_dp_model_mesh(mesh), get_dp_mesh(mesh), get_tp_mesh(mesh), get_cp_mesh(mesh),
                             get_pp_mesh(mesh), get_pp_stage_mesh(mesh), get_dp_replicate_mesh(mesh)})
        keep(part.mesh(), part.get_coordinate());
    keep(get_device_mesh_info(mesh));
}

void megatron2022(const Sizes& s) {
    auto mpu = rankmesh::megatron2022::State(rank, s.world);
    mpu.initialize_model_parallel({s.tp, s.pp, 2, 2});
    keep_group(mpu.get_model_parallel_group()), keep_group(mpu.get_tensor_model_parallel_group());
    keep_group(mpu.get_pipeline_model_parallel_group()), keep_group(mpu.get_data_parallel_group());
    keep_group(mpu.get_embedding_group()), keep_group(mpu.get_position_embedding_group());
    keep(mpu.get_tensor_model_parallel_world_size(), mpu.get_tensor_model_parallel_rank());
    keep(mpu.get_pipeline_model_parallel_world_size(), mpu.get_pipeline_model_parallel_rank());
    keep(mpu.get_data_parallel_world_size(), mpu.get_data_parallel_rank());
    keep(mpu.get_tensor_model_parallel_src_rank(), mpu.get_data_parallel_src_rank());
    keep(mpu.get_pipeline_model_parallel_first_rank(), mpu.get_pipeline_model_parallel_last_rank());
    keep(mpu.get_pipeline_model_parallel_next_rank(), mpu.get_pipeline_model_parallel_prev_rank());
    keep(mpu.is_pipeline_first_stage(), mpu.is_pipeline_last_stage(), mpu.is_rank_in_embedding_group());
    keep(mpu.is_rank_in_position_embedding_group(), mpu.is_pipeline_stage_before_split());
    keep(mpu.is_pipeline_stage_after_split(), mpu.is_pipeline_stage_at_split());
}

rankmesh::megatron::Sizes megatron_sizes(const Sizes& s) {
    return {.tensor_model_parallel_size = s.tp,
            .pipeline_model_parallel_size = s.pp,
            .context_parallel_size = s.cp,
            .expert_model_parallel_size = s.cp,
            .num_distributed_optimizer_instances = 2};
}
void megatron(const Sizes& s) {
    const auto mpu = rankmesh::megatron::State(megatron_sizes(s), rank, s.world);
    for (const auto& name : mpu.process_groups().descriptions())
        if (const auto group = mpu.find(name)) keep_group(*group);
    keep(mpu.get_tensor_model_parallel_rank(), mpu.get_tensor_model_parallel_world_size());
    keep(mpu.get_pipeline_model_parallel_rank(), mpu.get_pipeline_model_parallel_world_size());
    keep(mpu.get_data_parallel_rank(), mpu.get_data_parallel_world_size());
    keep(mpu.get_context_parallel_rank(), mpu.get_context_parallel_world_size());
    keep(mpu.get_expert_model_parallel_rank(), mpu.get_expert_model_parallel_world_size());
    keep(mpu.get_expert_tensor_parallel_rank(), mpu.get_expert_tensor_parallel_world_size());
    keep(mpu.get_expert_data_parallel_rank(), mpu.get_expert_data_parallel_world_size());
    keep(mpu.get_tensor_and_context_parallel_rank(), mpu.get_tensor_and_context_parallel_world_size());
    keep(mpu.get_expert_tensor_and_model_parallel_rank(), mpu.get_tensor_model_parallel_src_rank());
    keep(mpu.get_data_parallel_src_rank(), mpu.get_model_parallel_src_rank());
    keep(mpu.get_expert_model_parallel_src_rank(), mpu.get_pipeline_model_parallel_first_rank());
    keep(mpu.get_pipeline_model_parallel_last_rank(), mpu.get_pipeline_model_parallel_next_rank());
    keep(mpu.get_pipeline_model_parallel_prev_rank(), mpu.is_pipeline_first_stage());
    keep(mpu.is_pipeline_last_stage(), mpu.is_rank_in_embedding_group(), mpu.get_all_ranks());
}

/// What both grids answer.
void keep_grid(const auto& grid) {
    keep_group(*grid.ds_model_group), keep_group(*grid.dp_group);
    keep_group(*grid.pp_group), keep_group(*grid.slice_group);
    keep(grid.dp_groups, grid.pipe_groups, grid.model_groups, grid.p2p_groups(rank), grid.stage_to_global(1));
    keep(grid.get_stage_id(), grid.get_data_parallel_id(), grid.get_model_parallel_rank());
    keep(grid.get_model_parallel_world_size(), grid.get_tensor_model_parallel_rank());
    keep(grid.topology().get_coord(rank), grid.topology().get_rank_repr(rank));
}
rankmesh::deepspeed::PipeModelDataParallelTopology deepspeed_topology(const Sizes& s) {
    return {s.pp, s.tp, s.dp * s.cp};
}
void deepspeed(const Sizes& s) {
    keep_grid(rankmesh::deepspeed::Place(deepspeed_topology(s), rank, s.world));
}

rankmesh::deepspeed::GroupSizes deepspeed_sizes(const Sizes& s) {
    return {.world_size = s.world,
            .tensor_parallel_size = s.tp,
            .sequence_parallel_size = s.cp,
            .zero_hpz_partition_size = 8,
            .device_per_node = 8,
            .expert = {rankmesh::deepspeed::_get_expert_parallel_ranks(s.world, s.tp, s.cp, s.pp)}};
}
void deepspeed_groups(const Sizes& s) {
    const auto sizes = deepspeed_sizes(s);
    const auto place = rankmesh::deepspeed::GroupsPlace(sizes, rank);
    const auto name = place._get_max_expert_size_name();
    keep_group(place._get_expert_parallel_group_ranks(name));
    keep_group(place._get_expert_data_parallel_group_ranks(name));
    keep_group(place._get_data_parallel_group_ranks());
    keep_group(place._get_zero_param_intra_parallel_group_ranks());
    keep(place.get_tensor_model_parallel_world_size(), place.get_tensor_model_parallel_rank());
    keep(place.get_tensor_model_parallel_src_rank(), place.get_data_parallel_world_size());
    keep(place.get_data_parallel_rank(), place._get_expert_parallel_world_size(name));
    keep(place._get_expert_parallel_rank(name), place._get_expert_data_parallel_rank(name));
    keep(place._get_expert_parallel_src_rank(name), place._get_expert_broadcast_src_rank(name));
    keep(place._get_broadcast_src_rank(), place._get_data_parallel_rank(),
         place._get_sequence_parallel_rank());
}

rankmesh::areal::PipeDataTensorParallelTopology areal_topology(const Sizes& s) {
    return {s.pp, s.tp, s.dp * s.cp, true, false, false};
}
void areal(const Sizes& s) {
    const auto place = rankmesh::areal::Place(areal_topology(s), rank, s.world);
    keep_grid(place);
    keep_group(*place.embedding_group), keep_group(*place.position_embedding_group);
    keep_group(*place.tp_dp_group);
}

// --- all data-parallel groups, one after the other

void list(const rankmesh::Partition& groups, std::span<int> out) { groups.copy_to(out); }

void list_picotron(std::span<int> out) {
    const auto& s = large;
    list(rankmesh::picotron::mesh({.tp = s.tp, .cp = s.cp, .pp = s.pp, .dp = s.dp}, s.world).partition("dp"),
         out);
}
void list_llamafactory(std::span<int> out) {
    const auto config = rankmesh::llamafactory::Config{.cp_size = large.cp};
    list(rankmesh::llamafactory::DistributedStrategy(config, large.world, true).data_mesh().partition("dp"),
         out);
}
void list_olmo(std::span<int> out) {
    list(rankmesh::olmo::mesh(olmo_configs(large), large.world).partition("dp_replicate", "dp_shard"), out);
}
void list_megatron2022(std::span<int> out) {
    list(rankmesh::megatron2022::Groups({large.tp, large.pp}, large.world).data(), out);
}
void list_megatron(std::span<int> out) {
    rankmesh::megatron::ProcessGroups(megatron_sizes(large), large.world)
        .groups("DATA_PARALLEL_GROUP")
        .copy_to(out);
}
void list_deepspeed(std::span<int> out) { list(*deepspeed_topology(large).get_axis_comm_lists("data"), out); }
void list_deepspeed_groups(std::span<int> out) {
    deepspeed_sizes(large).expert[0].expert_data_parallel().copy_to(out);
}
void list_areal(std::span<int> out) { list(*areal_topology(large).get_axis_comm_lists("data"), out); }
void list_memset(std::span<int> out) { std::memset(out.data(), 1, out.size_bytes()); }

struct Dialect {
    const char* name;
    void (*ask)(const Sizes&);
    void (*list)(std::span<int>);
};
constexpr Dialect dialects[] = {{"picotron", picotron, list_picotron},
                                {"llamafactory", llamafactory, list_llamafactory},
                                {"olmo", olmo, list_olmo},
                                {"megatron2022", megatron2022, list_megatron2022},
                                {"megatron", megatron, list_megatron},
                                {"deepspeed", deepspeed, list_deepspeed},
                                {"deepspeed_groups", deepspeed_groups, list_deepspeed_groups},
                                {"areal", areal, list_areal}};

void start_up(benchmark::State& state, void (*ask)(const Sizes&), const Sizes& sizes) {
    const auto before = allocated_bytes();
    ask(sizes);
    const auto bytes = allocated_bytes() - before;
    for (auto _ : state) ask(sizes);
    state.counters["bytes"] = static_cast<double>(bytes);
}

void all_groups(benchmark::State& state, void (*list)(std::span<int>)) {
    auto room = std::vector<int>(large.world, 1);
    for (auto _ : state) {
        list(room);
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(room.size() * sizeof(int)));
}

/// Prints as usual and keeps the least time of each benchmark, and what it allocates, for the closing table.
class Reporter : public benchmark::ConsoleReporter {
public:
    Reporter() : ConsoleReporter(OO_Tabular) {}
    void ReportRuns(const std::vector<Run>& runs) override {
        for (const auto& run : runs)
            if (run.run_type == Run::RT_Iteration) {
                const auto time = run.GetAdjustedCPUTime();
                const auto [known, fresh] = least_.try_emplace(run.run_name.function_name, time);
                if (!fresh) known->second = std::min(known->second, time);
                const auto bytes = run.counters.find("bytes");
                if (bytes != run.counters.end()) bytes_[run.run_name.function_name] = bytes->second;
            }
        ConsoleReporter::ReportRuns(runs);
    }
    void compare(const std::string& ours, const std::string& bare) const {
        const auto a = least_.find(ours);
        const auto b = least_.find(bare);
        if (a == least_.end() || b == least_.end()) return;
        std::printf("%-32s %10.1f ns   %-28s %10.1f ns   ratio %5.2f", ours.c_str(), a->second, bare.c_str(),
                    b->second, a->second / b->second);
        if (bytes_.contains(ours)) std::printf("   allocates %6.0f bytes", bytes_.at(ours));
        std::printf("\n");
    }

private:
    std::map<std::string, double> least_, bytes_;
};

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    const auto add = [](const std::string& name, auto... arguments) {
        benchmark::RegisterBenchmark(name.c_str(), arguments...)->Repetitions(5)->MinTime(0.05);
    };
    for (const auto& dialect : dialects) {
        add(std::string("start_up/") + dialect.name + "_64", start_up, dialect.ask, small);
        add(std::string("start_up/") + dialect.name + "_65536", start_up, dialect.ask, large);
    }
    for (const auto& dialect : dialects)
        add(std::string("all_groups/") + dialect.name, all_groups, dialect.list);
    add("all_groups/memset", all_groups, list_memset);

    auto reporter = Reporter();
    benchmark::RunSpecifiedBenchmarks(&reporter);
    std::printf("\nleast of all repetitions; promised: at most 1.5 and 65,536 bytes\n");
    for (const auto& dialect : dialects) {
        const auto name = std::string("start_up/") + dialect.name;
        reporter.compare(name + "_65536", name + "_64");
    }
    std::printf("\nall groups of one kind at 65,536 ranks; promised: at most 1.5\n");
    for (const auto& dialect : dialects)
        reporter.compare(std::string("all_groups/") + dialect.name, "all_groups/memset");
}
