"""AReaL's ParallelGrid and its registry of process groups."""

from __future__ import annotations

import json
from typing import Any

from rankmesh.areal import topology as areal
from rankmesh.areal.topology import GLOBAL_PROCESS_GROUP_REGISTRY as REGISTRY
from rankmesh.areal.topology import ParallelGrid, ProcessTopology

from golden import attempt, fnv1a64

Config = dict[str, Any]


def topology_of(config: Config) -> ProcessTopology:
    return ProcessTopology(config.get("axes", ["pipe", "data", "tensor"]), config.get("dims", [2, 2, 2]))


def grid_of(config: Config, rank: int) -> ParallelGrid:
    topo = topology_of(config)
    mapping = None
    if "rank_mapping" in config:
        mapping = dict(enumerate(config["rank_mapping"]))
    elif config.get("mapping", "").startswith("missing key "):
        missing = int(config["mapping"].removeprefix("missing key "))
        mapping = {rank: rank for rank in range(topo.world_size()) if rank != missing}
    world = config.get("global_world_size", topo.world_size())
    return ParallelGrid(topo, None, mapping, rank=rank, world_size=world)


def attribute(place: ParallelGrid, name: str) -> Any:
    value = attempt(lambda: getattr(place, name))
    if name == "ds_model_world_size" and not isinstance(value, int):
        return "<unset>"
    value = attempt(value) if name.startswith("get_") else value
    return list(value) if name.endswith(("_group", "_gloo")) and value is not None else value


def in_form_of(expected: Any, made: list[tuple[list[int], str]]) -> Any:
    """The calls as a list or, where the case has them so, by number and hash of their text."""
    if isinstance(expected, dict):
        text = ";".join(f"{backend}:{','.join(map(str, ranks))}" for ranks, backend in made)
        return {"n": len(made), "fnv1a64": fnv1a64(text)}
    return made


def asked(groups: Any) -> list[tuple[list[int], str]]:
    """The ranks and backend of each group that the original's grid asks for, once, in its order."""
    blocks: list[list[str]] = []
    for kind in groups.kinds():  # those on the host and the ends of pipelines follow each group of the kind before
        if kind.endswith("_gloo") or "embedding" in kind:
            blocks[-1].append(kind)
        else:
            blocks.append([kind])
    made: dict[tuple[tuple[int, ...], str], None] = {}
    for block in blocks:
        for each in zip(*map(groups.partition, block), strict=True):
            for kind, ranks in zip(block, each, strict=True):
                made[tuple(ranks), "gloo" if kind.endswith("_gloo") else "nccl"] = None
    return [(list(ranks), backend) for ranks, backend in made]


def grid(config: Config, meta: Config) -> Any:
    first = grid_of(config, 0)

    def row(rank: int) -> list[Any]:
        place = grid_of(config, rank)
        stages = range(place.pipe_parallel_size)
        last = place.data_parallel_size - 1
        return [
            rank,
            {
                **{name: attribute(place, name) for name in [*meta["attrs"], *meta["group_attrs"]]},
                "get": [attribute(place, name) for name in meta["get_order"]],
                "stage_to_global": [place.stage_to_global(stage) for stage in stages],
                "stage_to_global_data_last": [place.stage_to_global(stage, data=last) for stage in stages],
            },
        ]

    return lambda expected: {
        "calls": lambda calls: in_form_of(calls, asked(first._groups.groups)),
        "p2p_groups": first.p2p_groups,
        "dp_groups": first.dp_groups,
        "pipe_groups": first.pipe_groups,
        "model_groups": first.model_groups,
        **({"per_rank": [row(rank) for rank, _ in expected["per_rank"]]} if "per_rank" in expected else {}),
    }


grid_error = grid


def stage_to_global_error(config: Config, meta: Config) -> Any:
    return grid_of(config, config["rank"]).stage_to_global(config["stage_id"], **config.get("kwargs", {}))


def stage_to_global_kwargs(config: Config, meta: Config) -> Any:
    place = grid_of(config, config["rank"])
    return [place.stage_to_global(stage, **config["kwargs"]) for stage in range(place.pipe_parallel_size)]


def registry_reuse(config: Config, meta: Config) -> Any:
    REGISTRY.clear()

    def new_calls(name: str) -> int:
        axes, dims = config[name]
        before = len(REGISTRY)
        for ranks, backend in asked(grid_of({"axes": axes.split("#"), "dims": dims}, 0)._groups.groups):
            areal.new_or_get_group(ranks, backend)
        return len(REGISTRY) - before

    answer = {
        "new_calls_grid1": new_calls("a"),
        "new_calls_grid2": new_calls("b"),
        "new_calls_grid1_again": new_calls("a"),
        "registry_size": len(REGISTRY),
    }
    areal.destroy_all_comm_groups()  # without processes
    answer["after_destroy_uninitialized"] = len(REGISTRY)
    REGISTRY.clear()
    return {**answer, "after_destroy": len(REGISTRY)}


def new_or_get_group(config: Config, meta: Config) -> Any:
    """The operations are texts such as `[3,1,2];[1,2,3]gloo`."""
    REGISTRY.clear()
    groups = []
    for operation in config["ops"].split(";"):
        ranks, backend = operation[: operation.index("]") + 1], operation[operation.index("]") + 1 :]
        groups.append(areal.new_or_get_group(json.loads(ranks), backend or None))
    return {
        "same_any_order": groups[0] is groups[1],
        "different_backend_differs": groups[1] is not groups[2],
        "default_backend_same_as_nccl": groups[1] is groups[3],
        "calls": [[list(ranks), backend] for ranks, backend in REGISTRY],
    }
