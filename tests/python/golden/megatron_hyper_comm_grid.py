"""Megatron-core's HyperCommGrid."""

from __future__ import annotations

import math
from typing import Any

from rankmesh.megatron import HyperCommGrid

from golden import attempt

Config = dict[str, Any]


def made(config: Config, shape: str = "shape", dims: str = "dims", rank: int = 0) -> HyperCommGrid:
    offset = config.get("rank_offset", 0)
    return HyperCommGrid(config[shape], config[dims], offset, rank=rank, world_size=config.get("world_size"))


def key(grid: HyperCommGrid, dims: list[str]) -> Any:
    grid.destroy()
    grid.create_pg(dims)
    return next(iter(grid._pgs))


def grid(config: Config, meta: Config) -> Any:
    base = made(config)
    return lambda expected: {
        "size": base.size,
        "enum": {dims: attempt(lambda d=dims: base.get_rank_enum(d.split(","))) for dims in expected["enum"]},
        **(
            {"keys": {dims: attempt(lambda d=dims: key(base, d.split(","))) for dims in expected["keys"]}}
            if "keys" in expected
            else {}
        ),
    }


def gen_rank_enum_unordered(config: Config, meta: Config) -> Any:
    base = HyperCommGrid(config["shape"], config["dims"], world_size=math.prod(config["shape"]))
    return lambda expected: {dims: base._gen_rank_enum(dims.split(",")) for dims in expected}


def ctor(config: Config, meta: Config) -> Any:
    return {"size": made({"shape": [], "dims": [], **config}).size}


ctor_no_world = ctor


def view(config: Config, meta: Config) -> Any:
    base = made(config, "base_shape", "base_dims")
    base.register_view("expert", config["view_shape"], config["view_dims"], config["shared"])
    return lambda expected: {
        "enum": {
            dims: attempt(lambda d=dims: base.get_rank_enum(d.split(","), view="expert")) for dims in expected["enum"]
        }
    }


def create_pg_sequence(config: Config, meta: Config) -> Any:
    shape = config["shape"]
    base = made(config, rank=config["rank"])

    def own(group: Any) -> list[int]:
        return list(group)

    def again() -> bool:
        base.register_view("base", shape, base.dim_names)
        return True

    answer = {
        "get_before_create": attempt(lambda: own(base.get_pg("tp"))),
        "tp": attempt(lambda: own(base.create_pg("tp"))),
        "dup": attempt(lambda: own(base.create_pg("tp"))),
        "dp_cp": attempt(lambda: own(base.create_pg(["dp", "cp"]))),
        "get_other_order": base.get_pg(["cp", "dp"]) is base.get_pg(["dp", "cp"]),
        "keys": [str(key) for key in base._pgs],
        "unknown_dim": attempt(lambda: own(base.create_pg("zz"))),
        "unknown_view": attempt(lambda: own(base.create_pg("tp", view="zz"))),
        "in_grid": base.is_current_rank_in_grid(),
        "dup_view_name": attempt(again),
    }
    base.register_view("expert", [shape[0] * shape[1], shape[2]], ["ep", "dp"], ["dp"])
    shared = base.create_pg("dp", view="expert")
    return {
        **answer,
        "shared_reuse": [own(shared), shared is base.get_pg("dp")],
        "view_private": attempt(lambda: own(base.create_pg("ep", view="expert"))),
        "view_key": [str(key) for key in base._pgs],
        "view_dup": attempt(lambda: own(base.create_pg("ep", view="expert"))),
        "view_get_missing": attempt(lambda: own(base.get_pg(["ep", "dp"], view="expert"))),
    }
