"""OLMo-core's distributed.parallel: the world mesh, the expert mesh and their parts by name.

Where torch.distributed is initialised, they are torch's DeviceMeshes of this process. With `rank=5, world_size=8` they
need no process, and are those of that rank.

>>> world = WorldMesh(rank=5, world_size=8)
>>> mesh = world.build_world_mesh(dp=DataParallelConfig(DataParallelType.fsdp), tp=TensorParallelConfig(2))
>>> get_device_mesh_info(mesh), list(get_tp_mesh(mesh).get_group())
('2D device mesh with shape (dp=4, tp=2)', [4, 5])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from rankmesh._device_mesh import DeviceMesh, init_device_mesh, native_of
from rankmesh._dialects import device_mesh as _native
from rankmesh._dialects import olmo
from rankmesh._enums import StrEnum
from rankmesh._install import installer
from rankmesh._originals import raises
from rankmesh._world import of_torch, world_of
from rankmesh.olmo.context_parallel import ContextParallelConfig
from rankmesh.olmo.data_parallel import DataParallelConfig, DataParallelType, DPMeshDimName
from rankmesh.olmo.exceptions import OLMoConfigurationError, OLMoError, kind
from rankmesh.olmo.expert_parallel import ExpertParallelConfig
from rankmesh.olmo.pipeline_parallel import (
    PipelineP2PBackend,
    PipelineParallelConfig,
    PipelineSchedule,
    PipelineScheduleType,
    PipelineSplitStyle,
)
from rankmesh.olmo.tensor_parallel import TensorParallelConfig

__all__ = [
    "ContextParallelConfig",
    "DPMeshDimName",
    "DataParallelConfig",
    "DataParallelType",
    "DeviceMesh",
    "ExpertParallelConfig",
    "MeshDimName",
    "OLMoConfigurationError",
    "OLMoError",
    "PipelineP2PBackend",
    "PipelineParallelConfig",
    "PipelineSchedule",
    "PipelineScheduleType",
    "PipelineSplitStyle",
    "TensorParallelConfig",
    "WorldMesh",
    "build_dense_and_moe_mesh",
    "build_expert_parallel_mesh",
    "build_world_mesh",
    "flatten_mesh",
    "get_cp_mesh",
    "get_device_mesh_info",
    "get_dp_mesh",
    "get_dp_model_mesh",
    "get_dp_process_group",
    "get_dp_replicate_mesh",
    "get_dp_shard_mesh",
    "get_ep_mesh",
    "get_pp_mesh",
    "get_pp_stage_mesh",
    "get_tp_mesh",
    "get_world_mesh",
    "init_device_mesh",
    "install",
]


class MeshDimName(StrEnum):
    """The names of dimensions."""

    dp = "dp"
    dp_replicate = "dp_replicate"
    dp_shard = "dp_shard"
    tp = "tp"
    cp = "cp"
    pp = "pp"
    ep = "ep"
    ep_replicate = "ep_replicate"
    ep_shard = "ep_shard"
    dp_ep = "dp_ep"
    dp_cp = "dp_cp"
    ep_mp = "ep_mp"
    ep_dp = "ep_dp"


AnyMesh: TypeAlias = Any
"""torch's DeviceMesh, or a DeviceMesh of this module."""


def _made(
    what: str, said: str, build: Callable[[], _native.DeviceMesh], device_type: str | None, is_live: bool
) -> AnyMesh:
    """The mesh that `build` gives, or torch's of that shape, after all ranks have said the same."""
    if not is_live:
        return DeviceMesh(build(), device_type or "cpu")
    from rankmesh.torch._framework_mesh import device_meshes
    from rankmesh.torch._named import errors_reach_peers

    with errors_reach_peers(f"olmo: {what} of {said}"):
        mesh = build()
    olmo.get_dp_model_mesh(mesh)  # flattens what the functions below ask for
    said = f"olmo: {what} {mesh.root.text}"
    (made,), _ = device_meshes(said, [mesh.root], device_type=device_type, flattened=mesh.flattened)
    return made


def _said(dp: DataParallelConfig | None, *others: Any) -> str:
    sizes = [] if dp is None else [f"dp={(str(dp.name), dp.num_replicas, dp.shard_degree)}"]
    given = zip(("tp", "cp", "pp", "ep"), others, strict=True)
    return ", ".join(sizes + [f"{name}={config.degree}" for name, config in given if config is not None])


def _place(what: str, rank: int | None, world_size: int | None) -> tuple[bool, int, int]:
    """Whether torch's meshes are asked for, and the rank and the world."""
    return rank is None and world_size is None and of_torch() is not None, *world_of(what, rank, world_size)


class WorldMesh:
    """The world mesh of one rank, once it is built.

    Without `rank` and `world_size` it is this process's in torch.distributed; with them it is that rank's, without a
    process.
    """

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        self._live, *self._place = _place("the world mesh", rank, world_size)
        self._of = olmo.world_mesh(*self._place)
        self._built: AnyMesh | None = None

    @raises(kind)
    def build_world_mesh(
        self,
        *,
        dp: DataParallelConfig | None = None,
        tp: TensorParallelConfig | None = None,
        cp: ContextParallelConfig | None = None,
        pp: PipelineParallelConfig | None = None,
        ep: ExpertParallelConfig | None = None,
        device_type: str | None = None,
    ) -> AnyMesh:
        """The mesh of these configurations, which is kept unless nothing is given."""
        given = (dp, tp, cp, pp, ep)
        is_live = self._live and self._built is None
        if is_live:
            self._of = olmo.world_mesh(*self._place)  # a build on which the ranks did not agree is none
        mesh = _made("world mesh", _said(*given), lambda: self._of.build_world_mesh(given), device_type, is_live)
        if dp is not None:
            self._built = mesh
        return mesh

    def get_world_mesh(self) -> AnyMesh | None:
        """The mesh that is kept; None before."""
        return self._built


_world: WorldMesh | None = None


def get_world_mesh() -> AnyMesh | None:
    """The world mesh of this process; None before it is built."""
    return None if _world is None else _world.get_world_mesh()


def build_world_mesh(
    *,
    dp: DataParallelConfig | None = None,
    tp: TensorParallelConfig | None = None,
    cp: ContextParallelConfig | None = None,
    pp: PipelineParallelConfig | None = None,
    ep: ExpertParallelConfig | None = None,
    device_type: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> AnyMesh:
    """Builds the world mesh of this process, once. For another rank, use WorldMesh(rank=5, world_size=32)."""
    global _world
    if _world is None or _world.get_world_mesh() is None:
        _world = WorldMesh(rank=rank, world_size=world_size)
    return _world.build_world_mesh(dp=dp, tp=tp, cp=cp, pp=pp, ep=ep, device_type=device_type)


@raises(kind)
def build_expert_parallel_mesh(
    ep_config: ExpertParallelConfig,
    device_type: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
) -> AnyMesh:
    """The mesh of the experts, which is kept by nobody."""
    live, *place = _place("build_expert_parallel_mesh", rank, world_size)
    build = functools.partial(olmo.build_expert_parallel_mesh, ep_config.degree, *place)
    return _made("expert mesh", f"degree {ep_config.degree}", build, device_type, live)


@raises(kind)
def build_dense_and_moe_mesh(
    *,
    dp: DataParallelConfig | None = None,
    tp: TensorParallelConfig | None = None,
    cp: ContextParallelConfig | None = None,
    pp: PipelineParallelConfig | None = None,
    ep: ExpertParallelConfig | None = None,
    device_type: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> dict[str, AnyMesh | None]:
    """The meshes that OLMoDDPTrainModule keeps as `world_mesh`: `dense`, and `moe`, which is None without `ep`.

    The experts of `moe` take their ranks from dp and cp together.

    >>> given = {"dp": DataParallelConfig(DataParallelType.ddp), "ep": ExpertParallelConfig(4)}
    >>> mesh = build_dense_and_moe_mesh(**given, cp=ContextParallelConfig(2), rank=5, world_size=8)
    >>> get_device_mesh_info(mesh["dense"]), list(mesh["moe"].get_group("ep_mp"))
    ('2D device mesh with shape (dp=4, cp=2)', [4, 5, 6, 7])
    """
    live, *place = _place("build_dense_and_moe_mesh", rank, world_size)
    given = (dp, tp, cp, pp, ep)

    def made(what: str, number: int) -> AnyMesh:
        def build() -> _native.DeviceMesh:
            return olmo.build_dense_and_moe_mesh(given, *place)[number]

        return _made(f"{what} mesh", _said(*given), build, device_type, live)

    return {"dense": made("dense", 0), "moe": None if ep is None else made("moe", 1)}


def _part(mesh: AnyMesh, part: _native.DeviceMesh) -> AnyMesh:
    """The part of a mesh that the native one has answered with."""
    if isinstance(mesh, DeviceMesh):
        return mesh._like(part)
    names, sets = tuple(part.mesh_dim_names or ()), part.flattened
    flat = {name: flatten_mesh(mesh[sets[name]], name) for name in names if name not in mesh.mesh_dim_names}
    return flat[names[0]] if len(names) == 1 and flat else mesh[names]


def _of_mesh(find: Callable[[_native.DeviceMesh], _native.DeviceMesh]) -> Callable[[AnyMesh], AnyMesh]:
    """A function of a mesh, torch's or one without a process, which returns a part of it."""

    @raises(kind)
    @functools.wraps(find)
    def part(device_mesh: AnyMesh) -> AnyMesh:
        return _part(device_mesh, find(native_of(device_mesh)))

    return part


get_dp_model_mesh = _of_mesh(olmo.get_dp_model_mesh)
get_dp_mesh = _of_mesh(olmo.get_dp_mesh)
get_dp_shard_mesh = _of_mesh(olmo.get_dp_shard_mesh)
get_dp_replicate_mesh = _of_mesh(olmo.get_dp_replicate_mesh)
get_ep_mesh = _of_mesh(olmo.get_ep_mesh)
get_tp_mesh = _of_mesh(olmo.get_tp_mesh)
get_cp_mesh = _of_mesh(olmo.get_cp_mesh)
get_pp_mesh = _of_mesh(olmo.get_pp_mesh)


def get_device_mesh_info(device_mesh: AnyMesh) -> str:
    """The dimensions of a mesh in words, as `2D device mesh with shape (dp=4, tp=2)`."""
    return olmo.get_device_mesh_info(native_of(device_mesh))


@raises(kind)
def get_dp_process_group(device_mesh: AnyMesh) -> Any:
    """The group, or without a process the ranks, of those that read different data."""
    mesh = get_dp_mesh(device_mesh)
    return (flatten_mesh(mesh, "dp") if mesh.ndim > 1 else mesh).get_group()


@raises(kind)
def get_pp_stage_mesh(device_mesh: AnyMesh, pp_mesh: AnyMesh | None = None) -> AnyMesh:
    """All dimensions but those of `pp_mesh`, the pipeline's unless given."""
    stage = olmo.get_pp_stage_mesh(native_of(device_mesh), None if pp_mesh is None else native_of(pp_mesh))
    return _part(device_mesh, stage)


def flatten_mesh(device_mesh: AnyMesh, name: str | None = None) -> AnyMesh:
    """The mesh as one dimension, by whose name its root is indexable afterwards."""
    if isinstance(device_mesh, DeviceMesh):
        return device_mesh._flatten(mesh_dim_name=name)
    from rankmesh.torch._init_device_mesh import making

    with making("flatten_mesh") as made:
        return made(device_mesh._flatten(name))


_modules = ["", "context_parallel", "data_parallel", "expert_parallel", "pipeline_parallel", "tensor_parallel"]
install = installer(__name__, {"olmo_core.distributed.parallel": _modules})
