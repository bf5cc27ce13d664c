"""torchtitan's ParallelDims."""

from __future__ import annotations

from typing import Any

from rankmesh._device_mesh import DeviceMesh
from rankmesh.torchtitan import ParallelDims

from golden import attempt

Config = dict[str, Any]

NUMBERS = (
    "dp_shard",
    "dp_enabled",
    "dp_replicate_enabled",
    "dp_shard_enabled",
    "cp_enabled",
    "dp_cp_enabled",
    "fsdp_enabled",
    "tp_enabled",
    "pp_enabled",
    "ep_enabled",
    "non_data_parallel_size",
    "seq_len_divisor",
)


def described(mesh: DeviceMesh | None) -> Any:
    if mesh is None:
        return None
    return {
        "names": mesh.mesh_dim_names,
        "shape": mesh.shape,
        "ranks": list(mesh.mesh),
        "coord": mesh.get_coordinate(),
    }


def row_of(dims: ParallelDims, expected: Config) -> Config:
    dims.build_mesh(rank=expected["rank"])
    names = list(expected["optional"])

    def optional(name: str, **kwargs: bool) -> Any:
        return attempt(lambda: described(dims.get_optional_mesh(name, **kwargs)))

    return {
        "rank": dims.world_mesh.get_rank(),
        "one_dimensional": list(dims.get_all_one_dimensional_meshes()),
        "optional": {name: optional(name) for name in names},
        "with_singletons": {name: optional(name, include_singleton_axes=True) for name in names},
        "lists": [[asked, attempt(lambda a=asked: described(dims.get_mesh(a)))] for asked, _ in expected["lists"]],
        "unknown": attempt(lambda: described(dims.get_mesh("nothing"))),
        "spmd_dense_mesh": attempt(lambda: described(dims.spmd_dense_mesh())),
        "spmd_sparse_mesh": described(dims.spmd_sparse_mesh()),
        "get_dense_tp_mesh": attempt(lambda: described(dims.get_dense_tp_mesh())),
        "resolve_mesh": described(dims.resolve_mesh(["dp", "cp", "tp"])),
        "get_activated_mesh": described(dims.get_activated_mesh(["dp_replicate", "efsdp", "ep", "nothing"])),
    }


def build(config: Config, meta: Config) -> Any:
    dims = ParallelDims(**config)
    return {
        **{name: getattr(dims, name) for name in NUMBERS},
        "per_rank": lambda rows: [row_of(dims, row) for row in rows],
    }
