"""LlamaFactory's strategy and interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from rankmesh.llamafactory import Dim, DistributedInterface

from golden import attempt

Config = dict[str, Any]


@contextmanager
def environment(values: Config) -> Iterator[None]:
    """A process that starts with these variables."""
    with mock.patch.dict(os.environ), mock.patch.object(DistributedInterface, "_instance", None):
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            os.environ.pop(name, None)
        os.environ.update({name: str(value) for name, value in values.items()})
        yield


def of_rank(config: Config, rank: int) -> DistributedInterface:
    return DistributedInterface(config["config"], rank=rank, world_size=config["world_size"])


def strategy_of(place: DistributedInterface) -> Config:
    names = ("mp_replicate_size", "mp_shard_size", "dp_size", "cp_size")
    return {name: getattr(place.strategy, name) for name in names}


def row_of(place: DistributedInterface) -> Config:
    row = {"rank": place.get_rank(), "get_rank_none": place.get_rank(), "get_world_size_none": place.get_world_size()}
    for dim in Dim:
        mesh = place.get_device_mesh(dim)
        assert mesh is not None
        assert mesh.get_group() == place.get_group(dim)
        row[dim.value] = {
            "group": list(place.get_group(dim)),
            "rank": place.get_rank(dim),
            "size": place.get_world_size(dim),
        }
    return row


def both(answer: Any) -> Any:
    """Both versions of the original answer; the later one differs only where it refuses."""
    return {"seed": answer, "head": lambda head: head if head == "same_as_seed" else answer}


def interface(config: Config, meta: Config) -> Any:
    first = of_rank(config, 0)
    return both(
        {
            "strategy": strategy_of(first),
            "model_mesh": [first.strategy.model_mesh_dim_names, first.strategy.model_mesh_shape],
            "data_mesh": [first.strategy.data_mesh_dim_names, first.strategy.data_mesh_shape],
            "timeout_s": float(first.timeout),
            "per_rank": lambda rows: [row_of(of_rank(config, row["rank"])) for row in rows],
        }
    )


def invalid_or_uneven(config: Config, meta: Config) -> Any:
    def answer() -> Any:
        place = of_rank(config, 0)
        return {"strategy": strategy_of(place), "row0": row_of(place)}

    return both(attempt(answer))


def uncovered_rank_seed(config: Config, meta: Config) -> Any:
    return row_of(of_rank(config, config["rank"]))


def not_distributed(config: Config, meta: Config) -> Any:
    with environment({}):
        alone = DistributedInterface(config["config"])
        strategy = strategy_of(alone)
        return {
            "strategy": list(strategy.values()),
            "model_mesh_shape": alone.strategy.model_mesh_shape,
            "data_mesh_shape": alone.strategy.data_mesh_shape,
            "get_rank": alone.get_rank(),
            "get_rank_dp": alone.get_rank(Dim.DP),
            "get_world_size": alone.get_world_size(),
            "get_world_size_cp": alone.get_world_size(Dim.CP),
            "get_group_dp": alone.get_group(Dim.DP),
            "get_device_mesh_dp": alone.get_device_mesh(Dim.DP),
            "get_device_mesh_none": attempt(alone.get_device_mesh),
            "all_gather_passthrough": alone.all_gather([1, 2]),
            "all_reduce_passthrough": alone.all_reduce(3),
            "broadcast_passthrough": alone.broadcast("x"),
            "local_rank": alone.get_local_rank(),
            "local_world_size": alone.get_local_world_size(),
        }


def env(config: Config, meta: Config) -> Any:
    variables = dict(config)
    cp_size = variables.pop("cp_size")
    with environment(variables):
        place = DistributedInterface({"cp_size": cp_size})
        again = DistributedInterface({"cp_size": 1})
        return {
            "local_rank": place.get_local_rank(),
            "local_world_size": place.get_local_world_size(),
            "rank": place.get_rank(),
            "get_device_mesh_none": attempt(place.get_device_mesh),
            "get_group_none": place.get_group(),
            "raw_string_dim": attempt(lambda: place.get_device_mesh("dp")),
            "singleton": place is again,
            "singleton_keeps_cp": again.strategy.cp_size,
            "str": str(place),
        }
