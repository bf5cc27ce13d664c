"""torchtitan's distributed/parallel_dims.py: the degrees of parallelism, and the meshes they build for any rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rankmesh._device_mesh import DeviceMesh
from rankmesh._dialects import device_mesh, torchtitan
from rankmesh._enums import StrEnum
from rankmesh._install import installer
from rankmesh._originals import DialectError, raises
from rankmesh._world import world_of

device_type: str = "cpu"
"""What device meshes are built for."""


class MeshAxisName(StrEnum):
    """The names of mesh axes that layouts of tensors use."""

    DP = "dp"
    DP_REPLICATE = "dp_replicate"
    DP_SHARD = "dp_shard"
    FSDP = "fsdp"
    TP = "tp"
    CP = "cp"
    PP = "pp"
    EP = "ep"
    EFSDP = "efsdp"


@raises(ValueError)
def unfold_dp_axis(axis: MeshAxisName | str) -> tuple[MeshAxisName, ...]:
    """The axes that store what is laid out along `axis`: dp_replicate and dp_shard for dp, else itself."""
    return tuple(map(MeshAxisName, torchtitan.unfold_dp_axis(axis)))


def unfold_dp_axes(axes: Iterable[MeshAxisName | str]) -> list[str]:
    """The same of each axis, one after the other."""
    return [concrete.value for axis in axes for concrete in unfold_dp_axis(axis)]


class Layout(Protocol):
    """What is asked of a layout, as torchtitan's SpmdLayout has it."""

    def axes(self) -> tuple[Any, ...]:
        """The axes that it says something of."""


def _kind(error: DialectError) -> type[Exception]:
    text = str(error)
    if error.fault == "sizes" or text.startswith("Inconsistent mesh axes"):
        return AssertionError
    if error.fault == "not initialised" or "ascending order" in text:
        return KeyError
    return ValueError


@dataclass
class ParallelDims:
    """Degrees that fit a world, and the meshes of a rank; a dp_shard of -1 stands for the ranks that the others leave.

    >>> dims = ParallelDims(dp_replicate=2, dp_shard=-1, cp=1, tp=2, pp=1, ep=1, world_size=8)
    >>> dims.build_mesh(rank=5).shape
    (8,)
    >>> list(dims.get_mesh("dp_shard").get_group())
    [5, 7]
    """

    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    pp: int
    ep: int
    world_size: int
    spmd_backend: Literal["partial_dtensor", "spmd_types"] = "spmd_types"

    @classmethod
    def from_config(cls, parallelism_config: Any, world_size: int) -> ParallelDims:
        """The degrees that torchtitan's ParallelismConfig says."""
        return cls(
            dp_replicate=parallelism_config.data_parallel_replicate_degree,
            dp_shard=parallelism_config.data_parallel_shard_degree,
            cp=parallelism_config.context_parallel_degree,
            tp=parallelism_config.tensor_parallel_degree,
            pp=parallelism_config.pipeline_parallel_degree,
            ep=parallelism_config.expert_parallel_degree,
            world_size=world_size,
            spmd_backend=parallelism_config.spmd_backend,
        )

    @raises(_kind)
    def __post_init__(self) -> None:
        self._dims = torchtitan.Dims(
            self.dp_replicate,
            self.dp_shard,
            self.cp,
            self.tp,
            self.pp,
            self.ep,
            self.world_size,
            self.spmd_backend,
        )
        self.dp_shard = self._dims.dp_shard
        self._built: torchtitan.Meshes | None = None
        self._kept: dict[tuple[str, ...], DeviceMesh] = {}

    @raises(_kind)
    def build_mesh(self, *, rank: int | None = None) -> DeviceMesh:
        """Builds the meshes of this process, or of `rank` without a process; returns that of the whole world."""
        rank, _ = world_of("build_mesh", rank, None if rank is None else self.world_size)
        self._built = torchtitan.Meshes(self._dims, rank)
        self._kept = {}
        return self._same(self._built.world_mesh)

    @property
    def _meshes(self) -> torchtitan.Meshes:
        if self._built is None:
            self.build_mesh()
            assert self._built is not None
        return self._built

    @property
    def _single_axis_meshes(self) -> dict[str, DeviceMesh]:
        """The mesh along each name, enabled or not; none before they are built."""
        if self._built is None:
            return {}
        found = {name: self._built.get_optional_mesh(name, True) for name in self._built.mesh_dim_names()}
        return {name: self._same(mesh) for name, mesh in found.items() if mesh is not None}

    def _same(self, of: device_mesh.DeviceMesh) -> DeviceMesh:
        """One object for each mesh, as torchtitan compares them by identity."""
        key = (*of.root.axes, "", *(of.mesh_dim_names or ()))
        return self._kept.setdefault(key, DeviceMesh(of, device_type))

    def _same_or_none(self, of: device_mesh.DeviceMesh | None) -> DeviceMesh | None:
        return None if of is None else self._same(of)

    @raises(_kind)
    def get_optional_mesh(self, dims: str | list[str], *, include_singleton_axes: bool = False) -> DeviceMesh | None:
        """The mesh along one name, or along several of one mesh; None where one of them is not enabled."""
        return self._same_or_none(self._meshes.get_optional_mesh(dims, bool(include_singleton_axes)))

    @raises(_kind)
    def get_mesh(self, dims: str | list[str]) -> DeviceMesh:
        """The same; ValueError where there is none."""
        return self._same(self._meshes.get_mesh(dims))

    @raises(_kind)
    def spmd_dense_mesh(self) -> DeviceMesh:
        """dp, cp and tp under spmd_types."""
        return self._same(self._meshes.spmd_dense_mesh())

    def spmd_sparse_mesh(self) -> DeviceMesh | None:
        """dp_replicate, efsdp and ep where experts are parallel under spmd_types."""
        return self._same_or_none(self._meshes.spmd_sparse_mesh())

    @raises(_kind)
    def get_dense_tp_mesh(self) -> DeviceMesh:
        """The tp of the dense mesh."""
        return self._same(self._meshes.get_dense_tp_mesh())

    @raises(_kind)
    def get_activated_mesh(self, axes: list[str]) -> DeviceMesh | None:
        """The mesh along those of these axes that exist and are enabled; None where none is."""
        return self._same_or_none(self._meshes.get_activated_mesh(axes))

    @raises(_kind)
    def resolve_mesh(self, axes: Iterable[MeshAxisName | str]) -> DeviceMesh | None:
        """The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor."""
        return self._same_or_none(self._meshes.resolve_mesh(axes))

    @raises(_kind)
    def resolve_shared_mesh(self, placements: Iterable[Layout | None]) -> DeviceMesh | None:
        """The mesh of the axes that all given layouts have."""
        listed = [None if layout is None else layout.axes() for layout in placements]
        return self._same_or_none(self._meshes.resolve_shared_mesh(listed))

    def get_all_one_dimensional_meshes(self) -> dict[str, DeviceMesh]:
        """The enabled meshes of several ranks along one name, by that name."""
        return {name: self._same(mesh) for name, mesh in self._meshes.get_all_one_dimensional_meshes()}

    @property
    def world_mesh(self) -> DeviceMesh:
        """All ranks along one axis, `world`."""
        return self._same(self._meshes.world_mesh)

    @property
    def dp_enabled(self) -> bool:
        """True for several replicas or shards."""
        return self._dims.dp_enabled

    @property
    def dp_replicate_enabled(self) -> bool:
        """True for several replicas."""
        return self._dims.dp_replicate_enabled

    @property
    def dp_shard_enabled(self) -> bool:
        """True for several shards."""
        return self._dims.dp_shard_enabled

    @property
    def cp_enabled(self) -> bool:
        """True where several ranks share a sequence."""
        return self._dims.cp_enabled

    @property
    def dp_cp_enabled(self) -> bool:
        """True where dp or cp is."""
        return self._dims.dp_cp_enabled

    @property
    def fsdp_enabled(self) -> bool:
        """True where dp_shard or cp is."""
        return self._dims.fsdp_enabled

    @property
    def tp_enabled(self) -> bool:
        """True where several ranks share a tensor."""
        return self._dims.tp_enabled

    @property
    def pp_enabled(self) -> bool:
        """True for several stages."""
        return self._dims.pp_enabled

    @property
    def ep_enabled(self) -> bool:
        """True where experts are sharded."""
        return self._dims.ep_enabled

    @property
    def non_data_parallel_size(self) -> int:
        """The ranks of one replica's shard: cp times tp times pp."""
        return self._dims.non_data_parallel_size

    @property
    def seq_len_divisor(self) -> int:
        """What a sequence's length is a multiple of."""
        return self._dims.seq_len_divisor


install = installer(__name__, {"torchtitan.distributed.parallel_dims": [""]})
