"""DeepSpeed's topology and grid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rankmesh.deepspeed.topology import PipelineParallelGrid, ProcessTopology

from golden import attempt, fnv1a64

Config = dict[str, Any]


def made(config: Config) -> ProcessTopology:
    return ProcessTopology(config.get("axes", ["pipe", "data", "model"]), config.get("dims", [2, 2, 2]))


def all_of(topo: ProcessTopology) -> Config:
    """Everything of kind `topology`."""
    axes = topo.get_axis_names()

    def coords(rows: Iterable[list[int]]) -> list[list[int]]:
        found = [topo.get_coord(rank) for rank, *_ in rows]
        return [[topo.get_rank(**coord._asdict()), *coord] for coord in found]

    def repr_row(rank: int) -> list[Any]:
        return [
            rank,
            topo.get_rank_repr(rank),
            topo.get_rank_repr(rank, []),
            topo.get_rank_repr(rank, axes[:1]),
            topo.get_rank_repr(rank, omit_axes=axes),
            topo.get_rank_repr(rank, omit_axes=[], inner_sep="=", outer_sep="/"),
        ]

    return {
        "world_size": topo.world_size(),
        "dims": {axis: topo.get_dim(axis) for axis in axes},
        "coords": coords,
        "comm_lists": {axis: topo.get_axis_comm_lists(axis) for axis in axes},
        "axis_list": lambda rows: [[axis, idx, topo.get_axis_list(axis, idx)] for axis, idx, _ in rows],
        "filter_match": lambda rows: [[given, topo.filter_match(**given)] for given, _ in rows],
        "rank_repr": lambda rows: [repr_row(rank) for rank, *_ in rows],
    }


def topology(config: Config, meta: Config) -> Any:
    return all_of(made(config))


ctor_error = ctor_extra_dims = ctor_degenerate = topology


def ctor_empty(config: Config, meta: Config) -> Any:
    topo = made(config)
    return {"world_size": topo.world_size(), "get_coord_0": list(topo.get_coord(0)), "get_rank": topo.get_rank()}


def get_rank_error(config: Config, meta: Config) -> Any:
    return made(config).get_rank(**config["kwargs"])


def get_coord_error(config: Config, meta: Config) -> Any:
    return list(made(config).get_coord(config["rank"]))


def get_axis_comm_lists_unknown(config: Config, meta: Config) -> Any:
    return made(config).get_axis_comm_lists(config["axis"])


def get_dim_unknown(config: Config, meta: Config) -> Any:
    return made(config).get_dim(config["axis"])


def get_axis_list_error(config: Config, meta: Config) -> Any:
    return made(config).get_axis_list(config["axis"], config["idx"])


get_axis_list_out_of_range = get_axis_list_error


def filter_match_error(config: Config, meta: Config) -> Any:
    return made(config).filter_match(**config["filter"])


filter_match_empty = filter_match_error


def get_rank_repr_error(config: Config, meta: Config) -> Any:
    omitted = {"omit_axes": config["omit_axes"]} if "omit_axes" in config else {}
    return made(config).get_rank_repr(config["rank"], **omitted)


get_rank_repr_all_omitted_bad_rank = get_rank_repr_unknown_omit = get_rank_repr_wide = get_rank_repr_error


def grid_of(config: Config, rank: int) -> PipelineParallelGrid:
    topo = None if config["dims"] is None else made(config)
    return PipelineParallelGrid(topo, rank=rank, world_size=config["world_size"])


def attribute(place: PipelineParallelGrid, name: str) -> Any:
    value = getattr(place, name)
    value = attempt(value) if callable(value) else value
    return list(value) if name.endswith("_group") else value


def in_form_of(expected: Any, listed: list[list[int]]) -> Any:
    """A grid's calls as a list or, where the case has them so, by number and hash of their text."""
    if isinstance(expected, dict) and expected.keys() == {"n", "fnv1a64"}:
        text = ";".join(",".join(map(str, group)) for group in listed)
        return {"n": len(listed), "fnv1a64": fnv1a64(text)}
    return listed


def grid(config: Config, meta: Config) -> Any:
    first = grid_of(config, 0)

    def row(rank: int) -> list[Any]:
        place = grid_of(config, rank)
        asked = {name: attribute(place, name) for name in [*meta["attrs"], *meta["group_attrs"]]}
        asked["get"] = [attribute(place, name) for name in meta["get_order"]]
        asked["stage_to_global"] = [place.stage_to_global(stage) for stage in range(place.pipe_parallel_size)]
        return [rank, asked]

    groups = first._groups.groups
    return {
        "axes": list(first.topology().axes),
        "dims": list(first.topology().dims),
        "calls": lambda expected: in_form_of(
            expected, [ranks for kind in groups.kinds() for ranks in groups.partition(kind)]
        ),
        "p2p_groups": first.p2p_groups,
        "per_rank": lambda rows: [row(rank) for rank, _ in rows],
    }


grid_error = grid
