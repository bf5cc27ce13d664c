"""torchtitan's distributed/parallel_dims.py: the degrees of parallelism, and the meshes they build.

Where torch.distributed is initialised, they are torch's DeviceMeshes of this process. `build_mesh(rank=5)` needs no
process, and they are those of that rank.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh
from rankmesh._dialects import device_mesh, torchtitan
from rankmesh._enums import StrEnum
from rankmesh._install import installer
from rankmesh._originals import DialectError, inherits, original, raises
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


def _kind(error: DialectError) -> type[Exception]:
    text = str(error)
    if error.fault == "world":
        return RuntimeError
    if error.fault == "sizes" or text.startswith("Inconsistent mesh axes"):
        return AssertionError
    if error.fault == "not initialised" or text.startswith("Invalid mesh_dim_names"):
        return KeyError
    return ValueError


@inherits(raises(_kind))
@dataclass
class ParallelDims(torchtitan.Dims):
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
        super().__init__(vars(self))
        self.dp_shard = torchtitan.dp_shard_of(self)
        self._kept: dict[tuple[str, ...], AnyMesh] = {}
        self._views: dict[tuple[str, ...], AnyMesh] | None = None

    @raises(_kind)
    def build_mesh(self, *, rank: int | None = None) -> AnyMesh:
        """Builds the meshes of this process, or of `rank` without a process; returns that of the whole world."""
        world = of_torch() if rank is None else None
        if world is None:
            rank, _ = world_of("build_mesh", rank, None if rank is None else self.world_size)
            torchtitan.build(self, rank)
            self._views, self._kept = None, {}
        else:
            self._connect(*world)
        return self.world_mesh

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
            roots = {tuple(root.axes): root for root in torchtitan.roots(self)}
        ranks = {"world": Group(range(size))}
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
        torchtitan.build(self, rank)
        self._views = {("world",): root, **views}

    @property
    def _single_axis_meshes(self) -> dict[str, AnyMesh]:
        meshes: dict[str, AnyMesh] = torchtitan.single_axis_meshes(self)
        return meshes

    def _same(self, of: device_mesh.DeviceMesh) -> AnyMesh:
        """One object for each mesh, as torchtitan compares them by identity."""
        axes, names = tuple(of.root.axes), tuple(of.mesh_dim_names or ())
        key = (*axes, "", *names)
        if key not in self._kept:
            self._kept[key] = DeviceMesh(of, device_type or "cpu") if self._views is None else self._views[axes][names]
        return self._kept[key]


install = installer(__name__, {"torchtitan.distributed.parallel_dims": [""]})
