"""picotron's process group manager."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from rankmesh.picotron import process_group_manager as pgm

from golden import groups

Config = dict[str, Any]

AXES = {"tp": ["tp"], "cp": ["cp"], "pp": ["pp"], "dp": ["dp"], "cp_dp": ["cp", "dp"], "pp_dp": ["pp", "dp"]}


def made(config: Config, rank: int) -> pgm.ProcessGroupManager:
    sizes = (config["tp"], config["cp"], config["pp"], config["dp"])
    return pgm.ProcessGroupManager(*sizes, rank=rank, world_size=config["world_size"])


def manager(config: Config, meta: Config) -> Any:
    grid = made(config, 0).grid
    listed = {name: groups(grid.partition(*axes)) for name, axes in AXES.items()}

    def row(rank: int) -> Config:
        place = made(config, rank)
        return {
            "rank": place.global_rank,
            "attrs": [getattr(place, name) for name in meta["attrs"]],
            "group_ranks": [list(getattr(place, name)) for name in meta["group_attrs"]],
            "str": str(place),
        }

    return {
        "per_rank": lambda rows: [row(wanted["rank"]) for wanted in rows],
        "groups": listed,
        "n_new_group_calls": sum(map(len, listed.values())),
    }


error = manager


def setup_global(config: Config, meta: Config) -> Any:
    sizes = {f"{axis}_size": config[axis] for axis in ("tp", "cp", "pp", "dp")}
    pgm.setup_process_group_manager(**sizes, rank=config["rank"], world_size=config["world_size"])
    return str(pgm.process_group_manager)


def local_rank(config: Config, meta: Config) -> Any:
    sizes = {"tp": 1, "cp": 1, "pp": 1, "dp": config["world_size"], "world_size": config["world_size"]}

    def of_environment(value: str | None) -> int:
        with mock.patch.dict(os.environ):
            os.environ.pop("LOCAL_RANK", None)
            if value is not None:
                os.environ["LOCAL_RANK"] = value
            return made(sizes, config["rank"]).local_rank

    # `env_3`: what LOCAL_RANK says; `unset`: nothing.
    return lambda expected: {name: of_environment(name[4:] if name[:4] == "env_" else None) for name in expected}
