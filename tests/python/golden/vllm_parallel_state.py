"""vLLM's first parallel_state, which is Megatron-core's of October 2022."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rankmesh.megatron2022.parallel_state import ParallelState

from golden import attempt

Config = dict[str, Any]
KINDS = {
    "data": "_DATA_PARALLEL_GROUP",
    "model": "_MODEL_PARALLEL_GROUP",
    "tensor": "_TENSOR_MODEL_PARALLEL_GROUP",
    "pipeline": "_PIPELINE_MODEL_PARALLEL_GROUP",
    "embedding": "_EMBEDDING_GROUP",
    "position_embedding": "_POSITION_EMBEDDING_GROUP",
}


def made(sizes: Iterable[int | None], rank: int, world: int) -> ParallelState:
    state = ParallelState(rank, world)
    state.initialize_model_parallel(*sizes)
    return state


def sizes_of(config: Config) -> list[Any]:
    return [config.get(name) for name in ("tp", "pp", "vpp", "split")]


def split_queries(mpu: ParallelState) -> list[bool]:
    return [
        mpu.is_pipeline_stage_before_split(),
        mpu.is_pipeline_stage_after_split(),
        mpu.is_pipeline_stage_at_split(),
    ]


def virtual_rows(mpu: ParallelState) -> list[list[Any]]:
    rows = []
    size = mpu.get_virtual_pipeline_model_parallel_world_size()
    for rank in [None] if size is None else range(size):
        mpu.set_virtual_pipeline_model_parallel_rank(rank)
        answers = mpu.is_pipeline_first_stage(), mpu.is_pipeline_last_stage(), mpu.is_rank_in_embedding_group()
        rows.append([rank, *answers])
    return rows


def one_rank(mpu: ParallelState, names: Iterable[str]) -> Config:
    def several(*getters: Callable[[], Any]) -> Callable[[], list[Any]]:
        return lambda: [getter() for getter in getters]

    answers: dict[str, Callable[[], Any]] = {
        "data": lambda: list(mpu.get_data_parallel_group()),
        "model": lambda: list(mpu.get_model_parallel_group()),
        "tensor": lambda: list(mpu.get_tensor_model_parallel_group()),
        "pipeline": lambda: list(mpu.get_pipeline_model_parallel_group()),
        "embedding": lambda: list(mpu.get_embedding_group()),
        "position_embedding": lambda: list(mpu.get_position_embedding_group()),
        "embedding_global_ranks": lambda: mpu.variable("_EMBEDDING_GLOBAL_RANKS"),
        "position_embedding_global_ranks": lambda: mpu.variable("_POSITION_EMBEDDING_GLOBAL_RANKS"),
        "sizes_tp_pp_dp": several(
            mpu.get_tensor_model_parallel_world_size,
            mpu.get_pipeline_model_parallel_world_size,
            mpu.get_data_parallel_world_size,
        ),
        "ranks_tp_pp_dp": several(
            mpu.get_tensor_model_parallel_rank, mpu.get_pipeline_model_parallel_rank, mpu.get_data_parallel_rank
        ),
        "src_tp_dp": several(mpu.get_tensor_model_parallel_src_rank, mpu.get_data_parallel_src_rank),
        "pp_first_last_next_prev": several(
            mpu.get_pipeline_model_parallel_first_rank,
            mpu.get_pipeline_model_parallel_last_rank,
            mpu.get_pipeline_model_parallel_next_rank,
            mpu.get_pipeline_model_parallel_prev_rank,
        ),
        "virtual_rank_size": several(
            mpu.get_virtual_pipeline_model_parallel_rank, mpu.get_virtual_pipeline_model_parallel_world_size
        ),
        "before_after_at_split": lambda: split_queries(mpu),
        "first_last_ignore_virtual": lambda: [mpu.is_pipeline_first_stage(True), mpu.is_pipeline_last_stage(True)],
        "in_embedding_ignore_virtual": lambda: mpu.is_rank_in_embedding_group(True),
        "in_position_embedding": mpu.is_rank_in_position_embedding_group,
        "virtual": lambda: virtual_rows(mpu),
    }
    return {name: attempt(answers[name]) for name in names}


def calls(mpu: ParallelState) -> int:
    return sum(len(mpu.groups.partition(kind)) for kind in KINDS.values())


def init(config: Config, meta: Config) -> Any:
    world = config["world_size"]
    first = made(sizes_of(config), 0, world)
    return {
        "groups": lambda expected: {kind: first.groups.partition(KINDS[kind]) for kind in expected},
        "n_new_group_calls": calls(first),
        "initialized": first.model_parallel_is_initialized(),
        "per_rank": lambda rows: [[rank, one_rank(made(sizes_of(config), rank, world), row)] for rank, row in rows],
    }


def init_error(config: Config, meta: Config) -> Any:
    mpu = made(sizes_of(config), 0, config["world_size"])
    return {
        "ok": True,
        "n_new_group_calls": calls(mpu),
        "initialized_after": mpu.model_parallel_is_initialized(),
        "vpp_size_after": mpu.get_virtual_pipeline_model_parallel_world_size(),
        "split_after": mpu.variable("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK"),
    }


split_out_of_range = init_error


def not_initialized_dist(config: Config, meta: Config) -> Any:
    ParallelState().initialize_model_parallel()


def double_init(config: Config, meta: Config) -> Any:
    made(config["first"], 0, config["world_size"]).initialize_model_parallel(*config["second"])


def uninitialized_accessors(config: Config, meta: Config) -> Any:
    mpu = ParallelState(config["rank"], config["world_size"])
    return lambda expected: {name: attempt(getattr(mpu, name)) for name in expected}


def overrides(config: Config, meta: Config) -> Any:
    mpu = made(sizes_of(config), config["rank"], config["world_size"])

    def next_prev() -> list[int]:
        return [mpu.get_pipeline_model_parallel_next_rank(), mpu.get_pipeline_model_parallel_prev_rank()]

    said: Config = {}
    mpu.set_tensor_model_parallel_world_size(4)
    said["tp_size"] = mpu.get_tensor_model_parallel_world_size()
    said["tp_src"] = mpu.get_tensor_model_parallel_src_rank()
    mpu.set_tensor_model_parallel_rank(3)
    said["tp_rank"] = mpu.get_tensor_model_parallel_rank()
    mpu.set_pipeline_model_parallel_world_size(2)
    said["pp_size"] = mpu.get_pipeline_model_parallel_world_size()
    said["pp_last"] = attempt(mpu.get_pipeline_model_parallel_last_rank)
    said["next_prev"] = attempt(next_prev)
    mpu.set_pipeline_model_parallel_rank(1)
    said["pp_rank"] = mpu.get_pipeline_model_parallel_rank()
    said["is_last"] = mpu.is_pipeline_last_stage()
    said["next_prev2"] = attempt(next_prev)
    mpu.set_pipeline_model_parallel_split_rank(0)
    said["split_setter_effect_before_after"] = split_queries(mpu)[:2]
    said["split_global"] = mpu.variable("_PIPELINE_MODEL_PARALLEL_SPLIT_RANK")
    for back in (
        mpu.set_tensor_model_parallel_world_size,
        mpu.set_tensor_model_parallel_rank,
        mpu.set_pipeline_model_parallel_world_size,
        mpu.set_pipeline_model_parallel_rank,
    ):
        back(None)
    said["restored"] = [
        mpu.get_tensor_model_parallel_world_size(),
        mpu.get_tensor_model_parallel_rank(),
        mpu.get_pipeline_model_parallel_world_size(),
        mpu.get_pipeline_model_parallel_rank(),
    ]
    said["split_query"] = lambda rows: [
        [rank, mpu.is_pipeline_stage_before_split(rank), mpu.is_pipeline_stage_after_split(rank)] for rank, *_ in rows
    ]
    return said


def destroy(config: Config, meta: Config) -> Any:
    mpu = made(config["first"], config["rank"], config["world_size"])
    mpu.set_tensor_model_parallel_world_size(1)
    mpu.set_pipeline_model_parallel_world_size(1)
    mpu.set_tensor_model_parallel_rank(0)
    mpu.set_pipeline_model_parallel_rank(0)
    mpu.destroy_model_parallel()

    def set_rank() -> None:
        """What was set is gone: the group is asked for again."""
        try:
            mpu.get_tensor_model_parallel_rank()
        except AssertionError:
            return
        raise ValueError("the rank that was set is still there")

    def answer(expected: Config) -> Config:
        said: Config = {
            "initialized": mpu.model_parallel_is_initialized(),
            "stale": {name: attempt(lambda n=name: mpu.variable(n)) for name in expected["stale"]},
            "cleared": {
                name: set_rank() if name.startswith("_MPU") else mpu.variable(name) for name in expected["cleared"]
            },
        }
        mpu.initialize_model_parallel(*config["second"])
        said["reinit_ok"] = mpu.model_parallel_is_initialized()
        said["split_leaks_into_reinit_before_after_at"] = attempt(lambda: split_queries(mpu))
        said["reinit_embedding"] = mpu.variable("_EMBEDDING_GLOBAL_RANKS")
        return said

    return answer
