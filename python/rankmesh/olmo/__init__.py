"""OLMo-core's distributed.parallel: the world mesh, the expert mesh and their parts by name.

Where torch.distributed is initialised, they are torch's DeviceMeshes of this process. With `rank=5, world_size=8` they
need no process, and are those of that rank. This is written by hand, because it keeps meshes of torch.

>>> world = WorldMesh(rank=5, world_size=8)
>>> mesh = world.build_world_mesh(dp=DataParallelConfig(DataParallelType.fsdp), tp=TensorParallelConfig(2))
>>> get_device_mesh_info(mesh), list(get_tp_mesh(mesh).get_group())
('2D device mesh with shape (dp=4, tp=2)', [4, 5])
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from rankmesh._device_mesh import DeviceMesh as DeviceMesh
from rankmesh._device_mesh import init_device_mesh as init_device_mesh
from rankmesh._device_mesh import native_of
from rankmesh._enums import StrEnum
from rankmesh._frameworks import device_mesh as _native
from rankmesh._frameworks import rows
from rankmesh._install import installer
from rankmesh._olmo import Answers
from rankmesh._originals import original, raises
from rankmesh._world import world_of
from rankmesh.olmo._configs import ContextParallelConfig as ContextParallelConfig
from rankmesh.olmo._configs import DataParallelConfig as DataParallelConfig
from rankmesh.olmo._configs import DataParallelType as DataParallelType
from rankmesh.olmo._configs import DPMeshDimName as DPMeshDimName
from rankmesh.olmo._configs import DType as DType
from rankmesh.olmo._configs import ExpertParallelConfig as ExpertParallelConfig
from rankmesh.olmo._configs import PipelineP2PBackend as PipelineP2PBackend
from rankmesh.olmo._configs import PipelineParallelConfig as PipelineParallelConfig
from rankmesh.olmo._configs import PipelineScheduleType as PipelineScheduleType
from rankmesh.olmo._configs import PipelineSplitStyle as PipelineSplitStyle
from rankmesh.olmo._configs import TensorParallelConfig as TensorParallelConfig
from rankmesh.olmo.exceptions import OLMoConfigurationError as OLMoConfigurationError
from rankmesh.olmo.exceptions import OLMoError as OLMoError
from rankmesh.olmo.exceptions import _ask, kind


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
    what: str,
    settings: dict[str, Any],
    of: tuple[int | None, int | None],
    device_type: str | None,
    build: Callable[[tuple[int, int]], list[Any]],
    number: int = 0,
) -> AnyMesh:
    """The mesh of this number that `build` gives to rank and world, or torch's of that shape.

    Torch's is made after all ranks have said the same.
    """
    place = world_of(f"the {what}", *of)
    if of != (None, None):
        return DeviceMesh(build(place)[number], device_type or "cpu")
    from rankmesh.torch._named import device_meshes, errors_reach_peers

    said = ", ".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    with errors_reach_peers(f"olmo: {what} of {said}"):
        mesh = build(place)[number]
    _ask("get_dp_model_mesh", device_mesh=mesh)  # flattens what the functions below ask for
    said = f"olmo: {what} {mesh.root.text}"
    (made,), _ = device_meshes(said, [mesh.root], device_type=device_type, flattened=mesh.flattened)
    return made


def _settings(dp: DataParallelConfig | None, **others: Any) -> dict[str, Any]:
    """The settings of these configurations, which are ours or OLMo-core's: anything with these attributes."""
    given = {} if dp is None else {"dp_type": str(dp.name), "num_replicas": dp.num_replicas}
    given |= {} if dp is None else {"shard_degree": dp.shard_degree}
    return given | {name: config.degree for name, config in others.items() if config is not None}


class WorldMesh:
    """The world mesh of one rank, once it is built.

    Without `rank` and `world_size` it is this process's in torch.distributed; with them it is that rank's, without a
    process.
    """

    @raises(kind)
    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        self._given = rank, world_size
        self._state = rows.State("olmo")
        if self._given != (None, None):
            self._state.enter(*world_of("the world mesh", rank, world_size))
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
        rank: int | None = None,
        world_size: int | None = None,
    ) -> AnyMesh:
        """Builds the mesh of these configurations, once. It is kept unless `dp` is None."""
        if self._built is not None:
            text = "world mesh already exists! You can only call 'build_world_mesh' once!"
            raise original(RuntimeError, text, "exists")
        settings = _settings(dp, tp=tp, cp=cp, pp=pp, ep=ep)
        given = self._given if (rank, world_size) == (None, None) else (rank, world_size)

        def build(place: tuple[int, int]) -> list[_native.DeviceMesh]:
            self._state.destroy()  # a build on which the ranks did not agree is none
            self._state.enter(*place)
            self._state.initialize(settings)
            return self._state.ask("get_world_mesh")  # type: ignore[no-any-return]

        mesh = _made("world mesh", settings, given, device_type, build)
        if dp is not None:
            self._built = mesh
        return mesh

    def get_world_mesh(self) -> AnyMesh | None:
        """The mesh that is kept; None before."""
        return self._built


_world = WorldMesh()
build_world_mesh, get_world_mesh = _world.build_world_mesh, _world.get_world_mesh


@raises(kind)
def build_expert_parallel_mesh(
    ep_config: ExpertParallelConfig,
    device_type: str | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
) -> AnyMesh:
    """The mesh of the experts, which is kept by nobody."""
    given = {"degree": ep_config.degree}
    build = partial(_ask, "build_expert_parallel_mesh", **given)
    return _made("expert mesh", given, (rank, world_size), device_type, build)


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
    given = _settings(None, tp=tp, cp=cp, pp=pp, ep=ep) | {"dp_type": None if dp is None else str(dp.name)}
    of, build = (rank, world_size), partial(_ask, "build_dense_and_moe_mesh", **given)
    dense = _made("dense mesh", given, of, device_type, build)
    return {"dense": dense, "moe": None if ep is None else _made("moe mesh", given, of, device_type, build, 1)}


def _part(mesh: AnyMesh, part: _native.DeviceMesh) -> AnyMesh:
    """The part of a mesh that the native one has answered with."""
    if isinstance(mesh, DeviceMesh):
        return DeviceMesh(part, mesh.device_type)
    names, sets = tuple(part.mesh_dim_names or ()), part.flattened
    flat = {name: flatten_mesh(mesh[sets[name]], name) for name in names if name not in mesh.mesh_dim_names}
    return flat[names[0]] if len(names) == 1 and flat else mesh[names]


class _Parts(Answers):
    """The answers about any mesh, torch's or one without a process."""

    def _ask(self, accessor: str, **options: Any) -> Any:
        given = {name: native_of(each) for name, each in options.items() if each is not None}
        answer = _ask(accessor, **given)
        return _part(options["device_mesh"], answer[0]) if isinstance(answer, list) else answer


_parts = _Parts()
get_device_mesh_info = _parts.get_device_mesh_info
get_dp_model_mesh = _parts.get_dp_model_mesh
get_dp_mesh = _parts.get_dp_mesh
get_dp_shard_mesh = _parts.get_dp_shard_mesh
get_dp_replicate_mesh = _parts.get_dp_replicate_mesh
get_ep_mesh = _parts.get_ep_mesh
get_tp_mesh = _parts.get_tp_mesh
get_cp_mesh = _parts.get_cp_mesh
get_pp_mesh = _parts.get_pp_mesh
get_pp_stage_mesh = _parts.get_pp_stage_mesh


def get_dp_process_group(device_mesh: AnyMesh) -> Any:
    """The group, or without a process the ranks, of those that read different data."""
    mesh = get_dp_mesh(device_mesh)
    return (flatten_mesh(mesh, "dp") if mesh.ndim > 1 else mesh).get_group()


def flatten_mesh(device_mesh: AnyMesh, name: str | None = None) -> AnyMesh:
    """The mesh as one dimension, by whose name its root is indexable afterwards."""
    if isinstance(device_mesh, DeviceMesh):
        return device_mesh._flatten(mesh_dim_name=name)
    from rankmesh.torch._init_device_mesh import making

    with making("flatten_mesh") as made:
        return made(device_mesh._flatten(name))


def __getattr__(name: str) -> Any:
    if name == "PipelineSchedule":  # runs stages: OLMo-core's own
        return importlib.import_module("olmo_core.distributed.parallel.pipeline_parallel").PipelineSchedule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


install = installer(__name__, {"olmo_core.distributed.parallel": [""]})
