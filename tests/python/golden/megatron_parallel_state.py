"""Megatron-core's parallel_state."""

from __future__ import annotations

from typing import Any

from rankmesh.megatron.parallel_state import ParallelState

from golden import attempt

Config = dict[str, Any]
ARGUMENTS = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "hcp": "hierarchical_context_parallel_sizes",
    "hybrid_cp": "hybrid_context_parallel",
    "ep": "expert_model_parallel_size",
    "gtp": "gtp_remat_size",
    "egtp": "expert_gtp_remat_size",
    "ndoi": "num_distributed_optimizer_instances",
    "etp": "expert_tensor_parallel_size",
    "gloo": "create_gloo_process_groups",
}


def initialise(state: ParallelState, config: Config) -> None:
    state.initialize_model_parallel(
        **{ARGUMENTS.get(name, name): value for name, value in config.items() if name != "world_size"}
    )


def row_of(config: Config, accessors: list[str], expected: Config) -> Config:
    state = ParallelState(expected["rank"], config["world_size"])
    initialise(state, config)
    answers = {
        "rank": lambda: state.rank,
        "values": lambda: [attempt(getattr(state, name)) for name in accessors],
        "dp_cp_rank_size": lambda: [
            state.get_data_parallel_rank(with_context_parallel=True),
            state.get_data_parallel_world_size(with_context_parallel=True),
        ],
        "all_ranks": state.get_all_ranks,
        "intra_dist_opt": lambda: list(state.get_intra_distributed_optimizer_instance_group()),
        "inter_dist_opt": lambda: list(state.get_inter_distributed_optimizer_instance_group()),
        "partial_dp_cp": lambda: list(
            state.get_data_parallel_group(with_context_parallel=True, partial_data_parallel=True)
        ),
        "partial_expert_dp": lambda: list(state.get_expert_data_parallel_group(partial_expert_data_parallel=True)),
        "hierarchical_cp": lambda: [list(level) for level in state.get_hierarchical_context_parallel_groups()],
    }
    return {name: attempt(answers[name]) for name in expected}


def init(config: Config, meta: Config) -> Any:
    state = ParallelState(0, config["world_size"])
    initialise(state, config)
    groups = state.groups
    return lambda expected: {
        "n_new_group_calls": sum(len(groups.partition(kind)) for kind in groups.kinds()),
        "desc_order": groups.kinds(),
        "groups": {kind: groups.partition(kind) for kind in groups.kinds()},
        **(
            {"per_rank": [row_of(config, meta["accessors"], row) for row in expected["per_rank"]]}
            if "per_rank" in expected
            else {}
        ),
    }


def uninitialized_accessors(config: Config, meta: Config) -> Any:
    state = ParallelState(0, config["world_size"])
    asked = {name: attempt(getattr(state, name)) for name in meta["accessors"]}
    return {"init": attempt(ParallelState().initialize_model_parallel), **asked}


def double_init(config: Config, meta: Config) -> Any:
    state = ParallelState(0, config["world_size"])
    initialise(state, config)
    initialise(state, config)
