"""AReaL's topology."""

from __future__ import annotations

from typing import Any

from rankmesh.areal import topology as areal
from rankmesh.areal.topology import FakeGrid

from golden import attempt
from golden.deepspeed_topology import all_of

Config = dict[str, Any]


def made(config: Config) -> areal.ProcessTopology:
    return areal.ProcessTopology(config.get("axes", ["pipe", "data", "tensor"]), config.get("dims", [2, 2, 2]))


def topology(config: Config, meta: Config) -> Any:
    return all_of(made(config))


ctor_error = ctor_extra_dims = ctor_degenerate = topology


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


def decompose_to_three_factors(config: Config, meta: Config) -> Any:
    factors = areal.decompose_to_three_factors(config["n"])
    distinct = sorted(set(factors))
    return {"count": len(factors), "distinct_sorted": distinct, "has_duplicates": len(distinct) != len(factors)}


def prime_factors(config: Config, meta: Config) -> Any:
    return areal._prime_factors(config["n"])


def str_repr(config: Config, meta: Config) -> Any:
    topo = made(config)
    return {"repr": repr(topo), "str": str(topo)}


def eq(config: Config, meta: Config) -> Any:
    a, b = (made({"axes": axes.split("#"), "dims": dims}) for axes, dims in (config["a"], config["b"]))
    return a == b


def eq_other_type(config: Config, meta: Config) -> Any:
    return made({}) == 3


def PipeDataTensorParallelTopology(config: Config, meta: Config) -> Any:  # noqa: N802
    topo = areal.PipeDataTensorParallelTopology(**config)
    names = ("axes", "dims", "sequence_parallel", "gradient_checkpointing", "gradient_accumulation_fusion")
    return {**{name: getattr(topo, name) for name in (*names, "max_prompt_len")}, "repr": repr(topo)}


def DataPipeTensorParallelTopology(config: Config, meta: Config) -> Any:  # noqa: N802
    topo = areal.DataPipeTensorParallelTopology(**config)
    return {
        **{name: getattr(topo, name) for name in ("axes", "dims", "sequence_parallel", "max_prompt_len")},
        "has_gradient_checkpointing": hasattr(topo, "gradient_checkpointing"),
        "has_gradient_accumulation_fusion": hasattr(topo, "gradient_accumulation_fusion"),
        "repr": repr(topo),
    }


def fake_grid(config: Config, meta: Config) -> Any:
    topo = made(config)
    first = FakeGrid(0, topo)

    def row(grid: FakeGrid) -> list[int]:
        ranks = grid.get_pipe_parallel_rank(), grid.get_data_parallel_rank(), grid.get_tensor_model_parallel_rank()
        return [grid.rank, *ranks]

    return {
        "pp_dp_tp_world_sizes": [
            first.get_pipe_parallel_world_size(),
            first.get_data_parallel_world_size(),
            first.get_tensor_model_parallel_world_size(),
        ],
        "world_size": first.world_size,
        "rank_pp_dp_tp": lambda rows: [row(FakeGrid(rank, topo)) for rank, *_ in rows],
        "get_group": attempt(first.get_pipe_parallel_group),
        "get_dp_group": attempt(first.get_data_parallel_group),
        "get_tp_group": attempt(first.get_tensor_model_parallel_group),
    }


def fake_grid_error(config: Config, meta: Config) -> Any:
    return FakeGrid(config["rank"], made(config)).dp_id
