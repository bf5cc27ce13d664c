"""OLMo-core's distributed.parallel: the world mesh, the expert mesh and their parts by name, for any rank.

>>> world = WorldMesh(rank=5, world_size=8)
>>> mesh = world.build_world_mesh(dp=DataParallelConfig(DataParallelType.fsdp), tp=TensorParallelConfig(2))
>>> get_device_mesh_info(mesh), list(get_tp_mesh(mesh).get_group())
('2D device mesh with shape (dp=4, tp=2)', [4, 5])
"""

from __future__ import annotations

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh, init_device_mesh
from rankmesh._dialects import olmo
from rankmesh._enums import StrEnum
from rankmesh._install import installer
from rankmesh._originals import raises
from rankmesh._world import world_of
from rankmesh.olmo._environment import machines
from rankmesh.olmo._faults import kind
from rankmesh.olmo.context_parallel import ContextParallelConfig
from rankmesh.olmo.data_parallel import DataParallelConfig, DataParallelType, DPMeshDimName
from rankmesh.olmo.exceptions import OLMoConfigurationError, OLMoError
from rankmesh.olmo.expert_parallel import ExpertParallelConfig
from rankmesh.olmo.pipeline_parallel import (
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
    "PipelineParallelConfig",
    "PipelineSchedule",
    "PipelineScheduleType",
    "PipelineSplitStyle",
    "TensorParallelConfig",
    "WorldMesh",
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


class WorldMesh:
    """The world mesh of one rank, once it is built; `rank` and `world_size` say whose, without a process."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        self._of = olmo.WorldMesh(*world_of("the world mesh", rank, world_size), *machines())
        self._built: DeviceMesh | None = None

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
    ) -> DeviceMesh:
        """The mesh of these configurations, which is kept unless nothing is given."""
        built = self._of.build_world_mesh(
            None if dp is None else dp._sizes(),
            *(None if given is None else given.degree for given in (tp, cp, pp, ep)),
        )
        mesh = DeviceMesh(built, device_type or "cpu")
        if self._of.get_world_mesh() is not None:
            self._built = mesh
        return mesh

    def get_world_mesh(self) -> DeviceMesh | None:
        """The mesh that is kept; None before."""
        return self._built


_world: WorldMesh | None = None


def get_world_mesh() -> DeviceMesh | None:
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
) -> DeviceMesh:
    """Builds the world mesh of this process, once; a WorldMesh of its own answers for any rank."""
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
) -> DeviceMesh:
    """The mesh of the experts, which is kept by nobody."""
    rank, world_size = world_of("build_expert_parallel_mesh", rank, world_size)
    return DeviceMesh(olmo.build_expert_parallel_mesh(ep_config.degree, rank, world_size), device_type or "cpu")


def get_device_mesh_info(device_mesh: DeviceMesh) -> str:
    """The dimensions of a mesh in words, as `2D device mesh with shape (dp=4, tp=2)`."""
    return olmo.get_device_mesh_info(device_mesh._of)


@raises(kind)
def get_dp_model_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """All dp dimensions for data-parallel models, cp folded into the one before it."""
    return device_mesh._like(olmo.get_dp_model_mesh(device_mesh._of))


@raises(kind)
def get_dp_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """All dp dimensions for data loading, without cp."""
    return device_mesh._like(olmo.get_dp_mesh(device_mesh._of))


@raises(kind)
def get_dp_process_group(device_mesh: DeviceMesh) -> Group:
    """The ranks that read different data."""
    return olmo.get_dp_process_group(device_mesh._of)


@raises(kind)
def get_dp_shard_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dp dimension that shards."""
    return device_mesh._like(olmo.get_dp_shard_mesh(device_mesh._of))


@raises(kind)
def get_dp_replicate_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dp dimension of replicas."""
    return device_mesh._like(olmo.get_dp_replicate_mesh(device_mesh._of))


@raises(kind)
def get_ep_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dimension that experts are sharded over."""
    return device_mesh._like(olmo.get_ep_mesh(device_mesh._of))


@raises(kind)
def get_tp_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dimension that tensors are sharded over."""
    return device_mesh._like(olmo.get_tp_mesh(device_mesh._of))


@raises(kind)
def get_cp_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dimension that sequences are sharded over."""
    return device_mesh._like(olmo.get_cp_mesh(device_mesh._of))


@raises(kind)
def get_pp_mesh(device_mesh: DeviceMesh) -> DeviceMesh:
    """The dimension of pipelines."""
    return device_mesh._like(olmo.get_pp_mesh(device_mesh._of))


@raises(kind)
def get_pp_stage_mesh(device_mesh: DeviceMesh, pp_mesh: DeviceMesh | None = None) -> DeviceMesh:
    """All dimensions but those of `pp_mesh`, the pipeline's unless given."""
    return device_mesh._like(olmo.get_pp_stage_mesh(device_mesh._of, None if pp_mesh is None else pp_mesh._of))


def flatten_mesh(device_mesh: DeviceMesh, name: str | None = None) -> DeviceMesh:
    """The mesh as one dimension, by whose name its root is indexable afterwards."""
    return device_mesh._flatten(mesh_dim_name=name)


install = installer(
    __name__,
    {
        "olmo_core.distributed.parallel": [
            "",
            "context_parallel",
            "data_parallel",
            "expert_parallel",
            "pipeline_parallel",
            "tensor_parallel",
        ]
    },
)
