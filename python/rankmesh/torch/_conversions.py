"""Converts a Mesh to torch's DeviceMesh and a Sharding to torch's placements, and back."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import _StridedShard

import rankmesh
from rankmesh._core import Mesh, Sharding
from rankmesh._errors import UsageError
from rankmesh.torch._init_device_mesh import making
from rankmesh.torch._plan_groups import default_device_type


def to_device_mesh(mesh: str | Mesh | rankmesh.Placement, device_type: str | None = None) -> DeviceMesh:
    """Returns torch's DeviceMesh of these ranks and axes, made like the meshes of `init_device_mesh`.

    Every rank of the mesh calls it. The ranks of its groups are in the order of the mesh. The default device is the
    accelerator of torch.distributed, else the host. Raises what `init_device_mesh` raises, and UsageError for text
    that is not a mesh.
    """
    if isinstance(mesh, str):
        mesh = rankmesh.Placement(mesh) if "[" in mesh else Mesh(mesh)
    axes = mesh.axes if isinstance(mesh, Mesh) else mesh.mesh.axes
    with making("to_device_mesh", keeps_order=True) as made:
        places = torch.tensor(mesh.numpy(), device="cpu")
        return made(DeviceMesh(device_type or default_device_type(), places, mesh_dim_names=tuple(axes)))


def from_device_mesh(mesh: DeviceMesh) -> Mesh | rankmesh.Placement:
    """Returns the Mesh of a DeviceMesh or of a part of it, or a Placement if strides cannot express its ranks.

    A dimension without a name is `dim_0`, `dim_1`. Raises UsageError for other characters in names than a Mesh has.

    >>> from_device_mesh(init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp")))  # doctest: +SKIP
    Mesh('dp=2 tp=4')
    """
    names = mesh.mesh_dim_names or [f"dim_{dim}" for dim in range(mesh.ndim)]
    places = mesh.mesh
    ranks = places.flatten().tolist()
    plain = Mesh(list(zip(names, places.shape, strict=True)))
    if ranks == list(range(len(ranks))):
        return plain
    axes = []
    for dim, name in enumerate(names):
        sizes, strides = _digits(places.movedim(dim, -1).reshape(-1, places.shape[dim])[0].tolist())
        digits = f"({','.join(map(str, sizes))}):({','.join(map(str, strides))})" if sizes else "1"
        axes.append(f"{name}={digits}")
    try:
        strided = Mesh(f"{' '.join(axes)} @{ranks[0]}")
    except UsageError:  # for strides below 1
        return rankmesh.Placement(plain, ranks)
    return strided if strided.numpy().tolist() == places.tolist() else rankmesh.Placement(plain, ranks)


def _digits(ranks: list[int]) -> tuple[list[int], list[int]]:
    """Returns the sizes and strides of nested loops that count these ranks, the outermost first."""
    sizes: list[int] = []
    strides: list[int] = []
    while len(ranks) > 1:
        stride = ranks[1] - ranks[0]
        size = next((i for i, rank in enumerate(ranks) if rank != ranks[0] + i * stride), len(ranks))
        sizes, strides, ranks = [size, *sizes], [stride, *strides], ranks[::size]
    return sizes, strides


def to_placements(sharding: Sharding) -> tuple[Placement, ...]:
    """Returns torch's placements of a Sharding, one for each axis of its mesh.

    An order of splits that is not the order of the axes becomes torch's `_StridedShard`. Raises UsageError for a
    dimension that is padded as in Megatron, and for a `_StridedShard` that would not split evenly.

    >>> to_placements(Sharding("dp=2 tp=4", (1000, 64), "0=tp"))  # doctest: +SKIP
    (Replicate(), Shard(dim=0))
    """
    axes = sharding.mesh.axes
    placements: list[Placement] = [Replicate() for _ in axes]
    for key, value in (entry.split("=") for entry in sharding.split.split() if "=" in entry):
        listed, _, padded = value.partition(":")
        if padded:
            raise UsageError(f"torch has no placement for '{key}={value}', which pads dimension {key}; split it evenly")
        dims = [axes.index(axis) for axis in listed.split(",")]
        for place, dim in enumerate(dims):
            inner = math.prod(sharding.mesh.shape[earlier] for earlier in dims[:place] if earlier > dim)
            if key == "sum":
                placements[dim] = Partial()
            else:
                placements[dim] = Shard(int(key)) if inner == 1 else _StridedShard(int(key), split_factor=inner)
        if any(isinstance(placements[dim], _StridedShard) for dim in dims):
            _check_even(sharding.mesh, sharding.shape, int(key), listed.split(","), placements)
    return tuple(placements)


def from_placements(mesh: DeviceMesh | Mesh, shape: Iterable[int], placements: Sequence[Placement]) -> Sharding:
    """Returns the Sharding of a tensor of this shape with torch's placements, as a DTensor has them.

    Raises UsageError for a Partial that is not a sum, for a DeviceMesh whose ranks strides cannot express, and for a
    `_StridedShard` that is not an order of splits or does not split evenly.
    """
    ranks = from_device_mesh(mesh) if isinstance(mesh, DeviceMesh) else mesh
    if not isinstance(ranks, Mesh):
        raise UsageError(f"a Sharding is over a mesh of strides, and the ranks of {mesh} are {ranks.text}")
    shape, axes = list(shape), ranks.axes
    if len(placements) != len(axes):
        raise UsageError(f"{len(placements)} placements for the {len(axes)} axes of mesh {ranks}; give one for each")
    sums: list[str] = []
    dims: dict[int, dict[int, Placement]] = {}
    for number, placement in enumerate(placements):
        if isinstance(placement, Partial):
            if type(placement) is not Partial or placement.reduce_op != "sum":
                raise UsageError(f"axis '{axes[number]}' has {placement!r}; a Sharding has partial sums only")
            sums.append(axes[number])
        elif isinstance(placement, Shard | _StridedShard):
            dims.setdefault(placement.dim % max(len(shape), 1), {})[number] = placement
        elif not isinstance(placement, Replicate):
            raise UsageError(
                f"axis '{axes[number]}' has {placement!r}; a Sharding has Shard, Replicate and Partial only"
            )
    split = [f"{dim}={','.join(_order(ranks, shape, dim, those))}" for dim, those in sorted(dims.items())]
    return Sharding(ranks, shape, " ".join([*split, f"sum={','.join(sums)}"] if sums else split) or "replicated")


def _order(mesh: Mesh, shape: Sequence[int], dim: int, placements: Mapping[int, Placement]) -> list[str]:
    """Returns the axes that split a dimension, the first split first; `placements` by number of the axis."""
    if not any(isinstance(placement, _StridedShard) for placement in placements.values()):
        return [mesh.axes[number] for number in placements]
    of_dim: list[Placement] = [Replicate() for _ in mesh.axes]
    for number, placement in placements.items():
        inner = getattr(placement, "split_factor", 1)
        of_dim[number] = Shard(dim) if inner == 1 else _StridedShard(dim, split_factor=inner)
    sizes: Any = types.SimpleNamespace(size=mesh.shape.__getitem__)  # all that torch asks of a DeviceMesh here
    order = DTensorSpec._maybe_convert_StridedShard_to_shard_order(tuple(of_dim), sizes)
    if order is None:
        raise UsageError(f"dimension {dim} has {of_dim} on mesh {mesh}, not an order of splits; a Sharding has one")
    listed = [mesh.axes[number] for entry in order for number in entry.mesh_dims]
    _check_even(mesh, shape, dim, listed, of_dim)
    return listed


def _check_even(
    mesh: Mesh, shape: Sequence[int], dim: int, axes: Sequence[str], placements: Sequence[Placement]
) -> None:
    """Raises UsageError for an uneven split: torch's `_StridedShard` then gives ranks other parts than a Sharding."""
    parts = math.prod(mesh.size_of(axis) for axis in axes)
    if shape[dim] % parts:
        raise UsageError(
            f"dimension {dim} of {shape[dim]} elements is split into {parts} parts by {list(placements)}; torch's "
            "_StridedShard and a Sharding have equal parts only if the split is even"
        )
