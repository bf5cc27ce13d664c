"""OLMo-core's meshes and configurations."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

from rankmesh import olmo
from rankmesh.olmo import PipelineParallelConfig, PipelineScheduleType, PipelineSplitStyle

from golden import attempt

Config = dict[str, Any]


def configs_of(config: Config) -> Config:
    dp = config.get("dp")
    kinds = {
        "tp": olmo.TensorParallelConfig,
        "cp": olmo.ContextParallelConfig,
        "pp": olmo.PipelineParallelConfig,
        "ep": olmo.ExpertParallelConfig,
    }
    return {
        "dp": dp and olmo.DataParallelConfig(**{**dp, "name": olmo.DataParallelType(dp["name"])}),
        **{name: kind(config[name]) for name, kind in kinds.items() if config.get(name) is not None},
    }


def world_of(config: Config, rank: int) -> olmo.WorldMesh:
    return olmo.WorldMesh(rank=rank, world_size=config["world_size"])


def build_in(world: olmo.WorldMesh, config: Config) -> olmo.DeviceMesh:
    with mock.patch.dict(os.environ):
        for name in ("num_nodes", "local_world_size"):
            os.environ.pop(name.upper(), None)
            if config.get(name) is not None:
                os.environ[name.upper()] = str(config[name])
        return world.build_world_mesh(**configs_of(config))


def built(config: Config, rank: int) -> olmo.DeviceMesh:
    return build_in(world_of(config, rank), config)


def described(mesh: olmo.DeviceMesh) -> Config:
    return {
        "names": mesh.mesh_dim_names,
        "shape": mesh.shape,
        "ranks": list(mesh.mesh),
        "coord": mesh.get_coordinate(),
    }


def asked(mesh: olmo.DeviceMesh, what: str) -> Any:
    """The value of a question by its name."""
    questions: dict[str, Callable[[], Any]] = {
        "dp_process_group": lambda: list(olmo.get_dp_process_group(mesh)),
        "dp_group_rank": lambda: olmo.get_dp_process_group(mesh).index(mesh.get_rank()),
        "rank": mesh.get_rank,
        "names": lambda: mesh.mesh_dim_names,
        "shape": lambda: mesh.shape,
        "info": lambda: olmo.get_device_mesh_info(mesh),
    }
    return attempt(questions.get(what, lambda: described(getattr(olmo, f"get_{what}")(mesh))))


def all_asked(mesh: olmo.DeviceMesh, expected: Config) -> Config:
    """The questions that the case asks, in its order, of one mesh."""
    return {what: asked(mesh, what) for what in expected}


def build(config: Config, meta: Config) -> Any:
    world = world_of(config, 0)
    mesh = build_in(world, config)
    groups = world._state.groups
    made = [(kind, groups.partition(kind)) for kind in groups.kinds() if kind != "mesh_dp_cp"]  # made later
    answer = {
        "names": mesh.mesh_dim_names,
        "shape": mesh.shape,
        "info": olmo.get_device_mesh_info(mesh),
        "world_mesh_set": world.get_world_mesh() is not None,
        "new_group_calls_at_build": [[name, group] for name, listed in made for group in listed],
        "new_group_calls_at_build_by_desc": dict(made),
        "per_rank": lambda rows: [all_asked(built(config, row["rank"]), row) for row in rows],
    }
    return lambda expected: {name: answer.get(name) for name in expected}


build_error = build


def build_on_uncovered_rank(config: Config, meta: Config) -> Any:
    return described(built(config, config["rank"]))


def build_twice(config: Config, meta: Config) -> Any:
    world = world_of(config, 0)
    world.build_world_mesh(**configs_of(config))
    return described(world.build_world_mesh(**configs_of(config)))


def build_twice_no_config(config: Config, meta: Config) -> Any:
    world = world_of(config, 0)
    world.build_world_mesh()
    nothing_kept = world.get_world_mesh() is None
    world.build_world_mesh(dp=olmo.DataParallelConfig(olmo.DataParallelType.fsdp))
    return {"second_ok": nothing_kept, "world_mesh": world.get_world_mesh() is not None}


def unnamed_mesh(config: Config, meta: Config) -> Any:
    mesh = olmo.init_device_mesh(
        "cpu", config["shape"], mesh_dim_names=config.get("names"), rank=0, world_size=config["world_size"]
    )
    return lambda expected: all_asked(mesh, expected)


foreign_mesh = unnamed_mesh


def device_mesh_info(config: Config, meta: Config) -> Any:
    world = config["world_size"]
    return {
        name: olmo.get_device_mesh_info(
            olmo.init_device_mesh("cpu", (world,), mesh_dim_names=names, rank=0, world_size=world)
        )
        for name, names in (("unnamed_1d", None), ("named_1d", ("dp",)))
    }


def expert_parallel_mesh(config: Config, meta: Config) -> Any:
    def mesh(rank: int) -> olmo.DeviceMesh:
        expert = olmo.ExpertParallelConfig(config["degree"])
        return olmo.build_expert_parallel_mesh(expert, rank=rank, world_size=config["world_size"])

    mesh(0)
    return {"per_rank": lambda rows: [all_asked(mesh(row["rank"]), row) for row in rows]}


expert_parallel_mesh_error = expert_parallel_mesh


def replicate_and_shard(config: Config, meta: Config) -> Any:
    dp = olmo.DataParallelConfig(
        olmo.DataParallelType.hsdp, num_replicas=config["num_replicas"], shard_degree=config["shard_degree"]
    )
    with mock.patch.dict(os.environ, NUM_NODES=str(config["num_nodes"])):
        return dp.get_replicate_and_shard_degree(config["dp_world_size"])


def pipeline_of(config: Config) -> PipelineParallelConfig:
    given = {name: kind(config[name]) for name, kind in PIPELINE.items() if name in config}
    return PipelineParallelConfig(config.get("degree", 1), **given)


PIPELINE: dict[str, Any] = {"schedule": PipelineScheduleType, "style": PipelineSplitStyle}


def pp_schedule(config: Config, meta: Config) -> Any:
    schedule = PipelineScheduleType(config["schedule"])
    return {
        "is_single_stage": schedule.is_single_stage,
        "is_multi_stage": schedule.is_multi_stage,
        "default_style": str(schedule.default_style),
    }


def pp_config(config: Config, meta: Config) -> Any:
    pipeline = pipeline_of(config)

    def of_ranks(num_stages: int) -> list[tuple[int, ...]]:
        return [pipeline.stage_ids_this_rank(rank, num_stages) for rank in range(pipeline.degree)]

    return {
        "final_stage_rank": pipeline.final_stage_rank(),
        "rank_completion_order": list(pipeline.rank_completion_order()),
        "stage_ids": lambda expected: {n: attempt(lambda n=n: of_ranks(int(n))) for n in expected},
    }


def pp_infer_style(config: Config, meta: Config) -> Any:
    pipeline = pipeline_of(config)
    return {"style": str(pipeline.infer_style()), "final_stage_rank": pipeline.final_stage_rank()}


def pp_stage_ids_bad_rank(config: Config, meta: Config) -> Any:
    return pipeline_of(config).stage_ids_this_rank(config["pp_rank"], config["num_stages"])
