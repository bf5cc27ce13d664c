"""torchtitan's distributed/parallel_dims.py: the degrees of parallelism, and the meshes they build.

Where torch.distributed is initialised, they are torch's DeviceMeshes of this process. `build_mesh(rank=5)` needs no
process, and they are those of that rank.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from rankmesh._device_mesh import DeviceMesh
from rankmesh._dialects import device_mesh, torchtitan
from rankmesh._enums import StrEnum
from rankmesh._install import installer
from rankmesh._originals import DialectError, original, raises
from rankmesh._world import of_torch, world_of

device_type: str | None = None
"""What device meshes are built for; None for what torch's default group works on, without a process "cpu"."""

AnyMesh: TypeAlias = Any
"""torch's DeviceMesh of this process, or of a rank without a process as much of one as can be asked there."""


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


@dataclass(frozen=True, slots=True)
class SpmdLayout:
    """How a tensor lies along axes, by what spmd_types says of each; here for those who import it from this module."""

    axis_types: dict[MeshAxisName, Any]
    partition_spec: Any = None

    def __post_init__(self) -> None:
        spmd = sys.modules.get("spmd_types")  # of which a Shard is
        sharded: dict[int, MeshAxisName] = {}
        for axis, kind in self.axis_types.items():
            if spmd is None or not isinstance(kind, spmd.Shard):
                continue
            if self.partition_spec is not None:
                raise original(
                    ValueError,
                    f"axis {axis} shards dim {kind.dim} beside a partition_spec, which says dims; give it V",
                    "exclusive",
                )
            if kind.dim in sharded:
                raise original(
                    ValueError,
                    f"axes {sharded[kind.dim]} and {axis} shard dim {kind.dim}; a partition_spec says in which order",
                    "missing",
                )
            sharded[kind.dim] = axis

    def axes(self) -> tuple[MeshAxisName, ...]:
        """The axes that it says something of."""
        return tuple(self.axis_types)

    def per_axis_spmd_types(self) -> dict[MeshAxisName, Any]:
        """What spmd_types says of each axis, with S(i) for each that the partition_spec has at i."""
        types = dict(self.axis_types)
        for dim, entry in enumerate(self.partition_spec or ()):
            for axis in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
                if not isinstance(axis, MeshAxisName):
                    raise original(TypeError, f"a partition_spec lists {axis!r}; it lists MeshAxisNames", "unknown")
                types[axis] = importlib.import_module("spmd_types").S(dim)
        return types


class Layout(Protocol):
    """What is asked of a layout, as torchtitan's SpmdLayout has it."""

    def axes(self) -> tuple[Any, ...]:
        """The axes that it says something of."""


def _kind(error: DialectError) -> type[Exception]:
    text = str(error)
    if error.fault == "world":
        return RuntimeError
    if error.fault == "sizes" or text.startswith("Inconsistent mesh axes"):
        return AssertionError
    if error.fault == "not initialised" or text.startswith("Invalid mesh_dim_names"):
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
    spmd_backend: Literal["partial_dtensor", "full_dtensor", "spmd_types"] = "spmd_types"

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
        self._kept: dict[tuple[str, ...], AnyMesh] = {}
        self._views: dict[tuple[str, ...], AnyMesh] | None = None

    @raises(_kind)
    def build_mesh(self, *, rank: int | None = None) -> AnyMesh:
        """Builds the meshes of this process, or of `rank` without a process; returns that of the whole world."""
        world = of_torch() if rank is None else None
        if world is None:
            rank, _ = world_of("build_mesh", rank, None if rank is None else self.world_size)
            self._built, self._views, self._kept = torchtitan.Meshes(self._dims, rank), None, {}
        else:
            self._connect(*world)
            assert self._built is not None
        return self._same(self._built.world_mesh)

    def _connect(self, rank: int, size: int) -> None:
        """Builds torch's meshes of this process, whose groups are made with those of all processes."""
        from rankmesh.torch._device_mesh import device_mesh, flatten, unflatten
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers
        from rankmesh.torch._world import default_device_type

        said = (
            f"torchtitan: pp={self.pp}, dp_replicate={self.dp_replicate}, dp_shard={self.dp_shard}, cp={self.cp}, "
            f"tp={self.tp}, ep={self.ep}, {self.spmd_backend}"
        )
        with errors_reach_peers(said):
            if self.world_size > size:
                raise original(
                    RuntimeError,
                    f"Mesh should not be bigger than default world size {size}, but found {self.world_size} ranks!",
                    "world",
                )
            if self.world_size < size:
                raise original(
                    RuntimeError,
                    f"degrees of a world of {self.world_size} leave ranks {self.world_size}..{size - 1} of torch's "
                    f"{size} out; give world_size={size}",
                    "world",
                )
            built = torchtitan.Meshes(self._dims, rank)
        parts = [built.get_optional_mesh(name, True) for name in built.mesh_dim_names()]
        roots = {tuple(part.root.axes): part.root for part in parts if part is not None}
        ranks = {"world": built.world_mesh.root.group(rank, "world")}
        ranks |= {axis: root.group(rank, axis) for root in roots.values() for axis in root.axes}
        ranks["loss"] = next(root.group(rank, "batch", "cp") for root in roots.values() if "batch" in root.axes)
        missing = {}
        if self.ep == 1 and len(efsdp := ranks["efsdp"]) > 1:
            missing["efsdp"] = (
                f"the group along efsdp is fake in torchtitan where ep is 1: its {len(efsdp)} ranks would exchange "
                "nothing; ask for the mesh without include_singleton_axes"
            )
        live = NamedGroups(said, [Named(name, group) for name, group in ranks.items() if name not in missing])
        root = device_mesh(device_type or default_device_type(), range(size), (size,), ("world",), [live["world"]])
        views = {
            axes: unflatten(root, mesh.shape, axes, [missing[a] if a in missing else live[a] for a in axes])
            for axes, mesh in roots.items()
        }
        for axes, view in views.items():
            if "batch" in axes:
                flatten(view, {"loss_mesh": (("batch", "cp"), live["loss"])})
                self._kept = {(*axes, "", "loss_mesh"): root._flatten_mapping["loss_mesh"]}
        self._built, self._views = built, {("world",): root, **views}

    @property
    def _meshes(self) -> torchtitan.Meshes:
        if self._built is None:
            self.build_mesh()
            assert self._built is not None
        return self._built

    @property
    def _single_axis_meshes(self) -> dict[str, AnyMesh]:
        """The mesh along each name, enabled or not; none before they are built."""
        if self._built is None:
            return {}
        found = {name: self._built.get_optional_mesh(name, True) for name in self._built.mesh_dim_names()}
        return {name: self._same(mesh) for name, mesh in found.items() if mesh is not None}

    def _same(self, of: device_mesh.DeviceMesh) -> AnyMesh:
        """One object for each mesh, as torchtitan compares them by identity."""
        axes, names = tuple(of.root.axes), tuple(of.mesh_dim_names or ())
        key = (*axes, "", *names)
        if key not in self._kept:
            self._kept[key] = DeviceMesh(of, device_type or "cpu") if self._views is None else self._views[axes][names]
        return self._kept[key]

    def _same_or_none(self, of: device_mesh.DeviceMesh | None) -> AnyMesh | None:
        return None if of is None else self._same(of)

    @raises(_kind)
    def get_optional_mesh(self, dims: str | list[str], *, include_singleton_axes: bool = False) -> AnyMesh | None:
        """The mesh along one name, or along several of one mesh; None where one of them is not enabled."""
        return self._same_or_none(self._meshes.get_optional_mesh(dims, bool(include_singleton_axes)))

    @raises(_kind)
    def get_mesh(self, dims: str | list[str]) -> AnyMesh:
        """The same; ValueError where there is none."""
        return self._same(self._meshes.get_mesh(dims))

    def spmd_meshes(self) -> list[AnyMesh]:
        """The meshes of dense layers and of experts along what is enabled of them."""
        return list(map(self._same, self._meshes.spmd_meshes()))

    @raises(_kind)
    def spmd_dense_mesh(self) -> AnyMesh:
        """dp, cp and tp under spmd_types."""
        return self._same(self._meshes.spmd_dense_mesh())

    def spmd_sparse_mesh(self) -> AnyMesh | None:
        """dp_replicate, efsdp and ep where experts are parallel under spmd_types."""
        return self._same_or_none(self._meshes.spmd_sparse_mesh())

    @raises(_kind)
    def get_dense_tp_mesh(self) -> AnyMesh:
        """The tp of the dense mesh."""
        return self._same(self._meshes.get_dense_tp_mesh())

    @raises(_kind)
    def get_activated_mesh(self, axes: list[str]) -> AnyMesh | None:
        """The mesh along those of these axes that exist and are enabled; None where none is."""
        return self._same_or_none(self._meshes.get_activated_mesh(axes))

    @raises(_kind)
    def resolve_mesh(self, axes: Iterable[MeshAxisName | str]) -> AnyMesh | None:
        """The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor.

        Under full_dtensor dp is dp_replicate and dp_shard, and a mesh that is none of spmd_meshes() a ValueError.
        """
        return self._same_or_none(self._meshes.resolve_mesh(axes))

    @raises(_kind)
    def resolve_shared_mesh(self, placements: Iterable[Layout | None]) -> AnyMesh | None:
        """The mesh of the axes that all given layouts have."""
        listed = [None if layout is None else layout.axes() for layout in placements]
        return self._same_or_none(self._meshes.resolve_shared_mesh(listed))

    def get_all_one_dimensional_meshes(self) -> dict[str, AnyMesh]:
        """The enabled meshes of several ranks along one name, by that name."""
        return {name: self._same(mesh) for name, mesh in self._meshes.get_all_one_dimensional_meshes()}

    @property
    def world_mesh(self) -> AnyMesh:
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
