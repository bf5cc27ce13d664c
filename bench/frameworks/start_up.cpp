// SPDX-License-Identifier: Apache-2.0
// What one rank asks a framework at start-up, at 65,536 ranks beside 64, and what it allocates for that.
//
//     bench_framework_start_up [FRAMEWORK]
//
// Start-up is the pure part, every accessor of it, and this rank's own groups with their ends; joining is
// what bench_engine_join measures. Texts that list the whole world, as the originals print it, are left out.
#include <cstdio>
#include <string>
#include <string_view>

#include <rankmesh/frameworks/areal.hpp>
#include <rankmesh/frameworks/deepspeed.hpp>
#include <rankmesh/frameworks/deepspeed_groups.hpp>
#include <rankmesh/frameworks/llamafactory.hpp>
#include <rankmesh/frameworks/megatron.hpp>
#include <rankmesh/frameworks/megatron2022.hpp>
#include <rankmesh/frameworks/picotron.hpp>

#include "../measure.hpp"
#include "allocated.hpp"
#include "sizes.hpp"

namespace {

using namespace rankmesh::bench;

constexpr auto rank = 5;  // on the first stage, which has every group

template <class T>
void seen(const T& value) {
    asm volatile("" : : "r"(&value) : "memory");
}
template <class... Values>
void keep(Values&&... values) {
    (seen(values), ...);
}
/// A group with its ends, its size and this rank's place.
void keep_group(const auto& group) {
    keep(group.size(), group.front(), group.back(), group.group_rank(rank), group);
}

void picotron(const Sizes& s) {
    const auto state = rankmesh::picotron::State({s.tp, s.cp, s.pp, s.dp}, rank, s.world);
    for (const auto& group : {state.tp_group(), state.cp_group(), state.pp_group(), state.dp_group(),
                              state.cp_dp_group(), state.pp_dp_group()})
        keep_group(group);
    keep(state, state.str());
}

void llamafactory(const Sizes& s) {
    const auto state =
        rankmesh::llamafactory::State({.mp_replicate_size = s.dp, .cp_size = s.cp}, rank, s.world);
    for (const auto* dim : {"mp_replicate", "mp_shard", "dp", "cp"}) {
        keep_group(state.get_group(dim));
        keep(state.get_rank(dim), state.get_world_size(dim), state.get_device_mesh(dim));
    }
    keep(state.get_rank(), state.get_world_size());
}

void olmo(const Sizes& s) {
    const auto state = rankmesh::olmo::State(olmo_settings(s), rank, s.world);
    const auto mesh = *state.get_world_mesh();
    for (const auto* name : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "dp"}) {
        keep_group(mesh.get_group(name));
        keep(mesh.get_local_rank(name));
    }
    keep_group(state.get_dp_process_group());
    for (const auto& part : {state.get_dp_model_mesh(mesh), state.get_dp_mesh(mesh), state.get_tp_mesh(mesh),
                             state.get_cp_mesh(mesh), state.get_pp_mesh(mesh), state.get_pp_stage_mesh(mesh),
                             state.get_dp_replicate_mesh(mesh)})
        keep(part.mesh(), part.get_coordinate());
    keep(state.get_device_mesh_info(mesh));
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

void megatron(const Sizes& s) {
    const auto mpu = rankmesh::megatron::State(megatron_sizes(s), rank, s.world);
    for (const auto& kind : mpu.groups().kinds())
        if (const auto group = mpu.groups().of(kind, rank)) keep_group(*group);
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
void keep_grid(const auto& state, const auto& topology) {
    keep(state.p2p_groups(), state.stage_to_global(1), state.get_stage_id(), state.get_data_parallel_id());
    keep(state.get_model_parallel_rank(), state.get_model_parallel_world_size());
    keep(state.get_tensor_model_parallel_rank(), state.get_tensor_model_parallel_world_size());
    keep(topology.get_coord(rank), topology.get_rank_repr(rank), topology.get_axis_comm_lists("data"));
    keep_group(*topology.get_axis_list("pipe", 0));
}
void deepspeed(const Sizes& s) {
    const auto topology = deepspeed_topology(s);
    const auto state = rankmesh::deepspeed::State({topology.axes(), topology.dims()}, rank, s.world);
    for (const auto& group : {state.ds_model_proc_group(), state.dp_proc_group(), state.pp_proc_group(),
                              state.slice_proc_group()})
        keep_group(group);
    keep_grid(state, topology);
}

void deepspeed_groups(const Sizes& s) {
    auto info = rankmesh::deepspeed_groups::State(rank, s.world);
    info._init_tp_mesh_device(s.tp);
    info.sequence_parallel_mesh(s.cp);
    info._create_zero_param_parallel_group(8);
    info._get_local_all_to_all_group(8);
    info._create_expert_data_and_model_parallel(s.cp, s.tp, s.pp);
    const auto name = info._get_max_expert_size_name();
    keep_group(info._get_expert_parallel_group_ranks(name));
    keep_group(info._get_expert_data_parallel_group_ranks(name));
    keep_group(info._get_data_parallel_group_ranks());
    keep_group(info._get_zero_param_intra_parallel_group_ranks());
    keep(info.get_tensor_model_parallel_world_size(), info.get_tensor_model_parallel_rank());
    keep(info.get_tensor_model_parallel_src_rank(), info.get_data_parallel_world_size());
    keep(info.get_data_parallel_rank(), info._get_expert_parallel_world_size(name));
    keep(info._get_expert_parallel_rank(name), info._get_expert_data_parallel_rank(name));
    keep(info._get_expert_broadcast_src_rank(name), info._get_broadcast_src_rank());
    keep(info._get_data_parallel_rank(), info._get_sequence_parallel_rank());
}

void areal(const Sizes& s) {
    const auto topology = areal_topology(s);
    const auto state = rankmesh::areal::State({topology.axes(), topology.dims()}, rank, s.world);
    for (const auto& group :
         {state.ds_model_proc_group(), state.dp_proc_group(), state.pp_proc_group(), state.slice_proc_group(),
          state.embedding_proc_group(), state.position_embedding_proc_group(), state.tp_dp_proc_group()})
        keep_group(*group);
    keep_grid(state, topology);
}

struct Framework {
    const char* name;
    void (*ask)(const Sizes&);
};
constexpr Framework frameworks[] = {{"picotron", picotron},
                                    {"llamafactory", llamafactory},
                                    {"olmo", olmo},
                                    {"megatron2022", megatron2022},
                                    {"megatron", megatron},
                                    {"deepspeed", deepspeed},
                                    {"deepspeed_groups", deepspeed_groups},
                                    {"areal", areal}};

/// In a world of 65,536 ranks beside one of 64, and what it allocates there.
void compare(const Framework& framework) {
    framework.ask(small);  // the rows of all frameworks are made once in a process
    const auto before = allocated_bytes();
    framework.ask(large);
    const auto bytes = allocated_bytes() - before;
    report(std::string("start-up of 65,536 ranks beside 64/") + framework.name,
           in_turn(
               rounds_of(301), 20, [&] { framework.ask(large); }, [&] { framework.ask(small); }));
    std::printf("%44s allocates %zu bytes\n", "", bytes);
}

}  // namespace

int main(int argc, char** argv) {
    // What ./bench/compare takes in turn with a framework's Python: nanoseconds of one.
    for (const auto& framework : frameworks)
        if (argc > 1 && std::string_view(argv[1]) == framework.name) {
            time_of(100, [&] { framework.ask(large); });
            std::printf("%.1f\n", time_of(2000, [&] { framework.ask(large); }));
            return 0;
        }
    std::printf("promised: at most 1.5, and 65,536 bytes\n");
    for (const auto& framework : frameworks) compare(framework);
}
