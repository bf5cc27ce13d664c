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

from rankmesh._device_mesh import DeviceMesh
from rankmesh._enums import StrEnum
from rankmesh._frameworks import device_mesh, rows
from rankmesh._install import installer
from rankmesh._originals import FrameworkError, original, raises, refuse_if
from rankmesh._torchtitan import Answers
from rankmesh._world import no_rank, of_torch

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


def unfold_dp_axis(axis: MeshAxisName | str) -> tuple[MeshAxisName, ...]:
    """The axes that store what is laid out along `axis`: dp_replicate and dp_shard for dp, else itself."""
    refuse_if(axis not in [*MeshAxisName], ValueError, f"{axis!r} is not a valid MeshAxisName", "unknown")
    return (MeshAxisName.DP_REPLICATE, MeshAxisName.DP_SHARD) if axis == "dp" else (MeshAxisName(axis),)


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
            text = f"axis {axis} shards dim {kind.dim} beside a partition_spec, which says dims; give it V"
            refuse_if(self.partition_spec is not None, ValueError, text, "exclusive")
            other = sharded.setdefault(kind.dim, axis)
            text = f"axes {other} and {axis} shard dim {kind.dim}; a partition_spec says in which order"
            refuse_if(other is not axis, ValueError, text, "missing")

    def axes(self) -> tuple[MeshAxisName, ...]:
        """The axes that it says something of."""
        return tuple(self.axis_types)

    def per_axis_spmd_types(self) -> dict[MeshAxisName, Any]:
        """What spmd_types says of each axis, with S(i) for each that the partition_spec has at i."""
        types = dict(self.axis_types)
        for dim, entry in enumerate(self.partition_spec or ()):
            for axis in entry if isinstance(entry, tuple) else () if entry is None else (entry,):
                text = f"a partition_spec lists {axis!r}; it lists MeshAxisNames"
                refuse_if(not isinstance(axis, MeshAxisName), TypeError, text, "unknown")
                types[axis] = importlib.import_module("spmd_types").S(dim)
        return types


def _kind(error: FrameworkError) -> type[Exception]:
    if error.fault == "not initialised" or str(error).startswith("Invalid mesh_dim_names"):
        return KeyError
    return AssertionError if error.fault == "sizes" else ValueError


_MESHES = {each["name"] for each in rows.rows("torchtitan")["accessors"] if each["quantity"] == "device_mesh"}


@dataclass
class ParallelDims(Answers):
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
        names = {each["name"]: each["flag"] for each in rows.rows("torchtitan")["settings"] if each["flag"]}
        degrees = {name: getattr(parallelism_config, said) for name, said in names.items()}
        return cls(**degrees, world_size=world_size, spmd_backend=parallelism_config.spmd_backend)

    @raises(_kind)
    def __post_init__(self) -> None:
        degrees = dict(vars(self))
        self._groups = rows.Groups("torchtitan", degrees, degrees.pop("world_size"))
        self._state = rows.State(self._groups, 0)  # until the meshes are built
        self.dp_shard = self._groups.mesh.size_of("dp_shard")
        self._built = False
        self._kept: dict[tuple[str, ...], AnyMesh] = {}
        self._views: dict[tuple[str, ...], AnyMesh] | None = None

    @raises(_kind)
    def build_mesh(self, *, rank: int | None = None) -> AnyMesh:
        """Builds the meshes of this process, or of `rank` without a process; returns that of the whole world."""
        world = of_torch() if rank is None else None
        if world is None:
            if rank is None:
                raise no_rank("build_mesh", "rank=")
            self._state = rows.State(self._groups, rank)
            self._views, self._kept = None, {}
        else:
            self._connect(*world)
        self._built = True
        return self.world_mesh

    def _connect(self, rank: int, size: int) -> None:
        """Builds torch's meshes of this process, whose groups are made with those of all processes."""
        from rankmesh.torch._named import device_meshes, errors_reach_peers

        names = "pp", "dp_replicate", "dp_shard", "cp", "tp", "ep"
        said = "torchtitan: " + ", ".join(f"{name}={getattr(self, name)}" for name in names) + f", {self.spmd_backend}"
        with errors_reach_peers(said):
            if self.world_size != size:
                larger = f"Mesh should not be bigger than default world size {size}, but found {self.world_size} ranks!"
                smaller = (
                    f"degrees of a world of {self.world_size} leave ranks {self.world_size}..{size - 1} of torch's "
                    f"{size} out; give world_size={size}"
                )
                raise original(RuntimeError, larger if self.world_size > size else smaller, "world")
        state = rows.State(self._groups, rank)
        roots = [each.root for each in state.ask("_roots")]
        fake = self.world_size // (self.pp * self.dp_replicate) if self.ep == 1 else 1
        text = (
            f"the group along efsdp is fake in torchtitan where ep is 1: its {fake} ranks would exchange "
            "nothing; ask for the mesh without include_singleton_axes"
        )
        made, _ = device_meshes(
            said,
            roots,
            device_type=device_type,
            flattened={"loss_mesh": ("batch", "cp")},
            one_root=True,
            missing={"efsdp": text} if fake > 1 else {},
        )
        root = made[0]._get_root_mesh()
        self._kept = {(*roots[0].axes, "", "loss_mesh"): root._flatten_mapping["loss_mesh"]}
        self._views = {("world",): root, **{tuple(mesh.axes): view for mesh, view in zip(roots, made, strict=True)}}
        self._state = state

    @raises(_kind)
    def _ask(self, accessor: str, **options: Any) -> Any:
        """An answer; the meshes are built before the first that is a mesh."""
        is_mesh = accessor in _MESHES
        if is_mesh and not self._built:
            self.build_mesh()
        answer = self._state.ask(accessor, options)
        if not is_mesh or answer is None:
            return answer
        meshes = [self._same(each) for each in answer]
        return meshes if accessor == "spmd_meshes" else meshes[0]

    def _same(self, of: device_mesh.DeviceMesh) -> AnyMesh:
        """One object for each mesh, as torchtitan compares them by identity."""
        axes, names = tuple(of.root.axes), tuple(of.mesh_dim_names or ())
        key = (*axes, "", *names)
        if key not in self._kept:
            self._kept[key] = DeviceMesh(of, device_type or "cpu") if self._views is None else self._views[axes][names]
        return self._kept[key]

    @property
    def _single_axis_meshes(self) -> dict[str, AnyMesh]:
        names = self._state.ask("_mesh_dim_names") if self._built else []
        return {name: self.get_optional_mesh(name, include_singleton_axes=True) for name in names}

    def get_all_one_dimensional_meshes(self) -> Any:
        """The enabled meshes of several ranks along one name, by that name."""
        meshes = {name: self.get_optional_mesh(name) for name in self._state.ask("_mesh_dim_names")}
        return {name: mesh for name, mesh in meshes.items() if mesh is not None and mesh.size() > 1}

    def resolve_shared_mesh(self, placements: Iterable[Any]) -> Any:
        """The mesh of the axes that all given layouts have, each by its `axes()`."""
        layouts = [[str(axis) for axis in layout.axes()] for layout in placements if layout is not None]
        for axes in layouts:
            text = f"Inconsistent mesh axes within a boundary: {sorted(layouts[0])} vs {sorted(axes)}"
            refuse_if(axes != layouts[0], AssertionError, text, "argument")
        return self.resolve_mesh(layouts[0]) if layouts else None


install = installer(__name__, {"torchtitan.distributed.parallel_dims": [""]})
