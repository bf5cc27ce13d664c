"""Makes torch DeviceMeshes from existing groups, including submeshes and flattened dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _mesh_layout
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Group
from rankmesh._errors import UsageError


def has_layouts() -> bool:
    """Returns True if the layouts of DeviceMeshes are those of PyTorch 2.13, which can be sliced and flattened."""
    return hasattr(_mesh_layout, "_FlatLayout")


def group_of(self: DeviceMesh, mesh_dim: int | str | None = None) -> dist.ProcessGroup:
    """`DeviceMesh.get_group`, which on a rank outside the mesh raises UsageError instead of an IndexError."""
    if getattr(self, "_dim_group_names", None) == []:
        root, rank = self._get_root_mesh(), dist.get_rank()
        covered = sorted(root._rank_map.tolist() if hasattr(root, "_rank_map") else root.mesh.flatten().tolist())
        if rank not in covered:
            has_gap = covered[-1] - covered[0] != len(covered) - 1 or len(covered) == 1
            shown = Group(covered) if has_gap else f"{covered[0]}..{covered[-1]}"
            raise UsageError(
                f"rank {rank} is outside the DeviceMesh {sizes_of(root)}, which covers ranks {shown} of "
                f"{dist.get_world_size()}; ask mesh.get_coordinate() first, which is None outside"
            )
    return _get_group(self, mesh_dim)


_get_group = DeviceMesh.get_group


def sizes_of(mesh: DeviceMesh) -> str:
    """Returns 'dp=2 tp=2'."""
    names = mesh.mesh_dim_names or [f"dim_{dim}" for dim in range(mesh.ndim)]
    return " ".join(f"{name}={size}" for name, size in zip(names, mesh.shape, strict=True))


def _layouts() -> Any:
    """Returns torch's type of layouts. Raises UsageError for a PyTorch with other DeviceMeshes."""
    if not has_layouts():
        raise UsageError(
            "a DeviceMesh with groups of several axes requires PyTorch 2.13 or later, and this is "
            f"{torch.__version__}; call device_mesh() of a mesh without them, and group('dp', 'cp') for such a group"
        )
    return _mesh_layout._MeshLayout


def device_mesh(
    device_type: str,
    ranks: Sequence[int],
    shape: Sequence[int],
    names: tuple[str, ...],
    groups: Sequence[dist.ProcessGroup] | None,
) -> DeviceMesh:
    """Returns the row-major mesh of these ranks with one group per dimension, or without groups on a rank outside
    it."""
    places = torch.tensor(list(ranks), dtype=torch.int, device="cpu").reshape(tuple(shape))
    if groups:
        return DeviceMesh.from_group(list(groups), device_type, mesh=places, mesh_dim_names=names)
    mesh = DeviceMesh(device_type, places, mesh_dim_names=names, _init_backend=False)
    mesh._dim_group_names = []
    setattr(DeviceMesh, "get_group", group_of)  # noqa: B010 (mypy: it is a method)
    return mesh


def _part(root: DeviceMesh, layout: Any, names: tuple[str, ...]) -> DeviceMesh:
    """Returns a mesh of the ranks of `root` without groups."""
    of_root: Any = {"_rank_map": root._rank_map, "_root_mesh": root, "_init_backend": False}
    return DeviceMesh(root.device_type, _layout=layout, mesh_dim_names=names, **of_root)


def unflatten(
    root: DeviceMesh, shape: Sequence[int], names: tuple[str, ...], groups: Sequence[dist.ProcessGroup | str]
) -> DeviceMesh:
    """Splits a mesh of one dimension into several, like `_unflatten`, but with these groups.

    An axis without a group has a text in its place: the reason. torch's error quotes it if a program gets that group.
    """
    mesh = _part(root, _layouts().from_sizes_strides(tuple(shape)), names)
    there = [group for group in groups if not isinstance(group, str)]
    root._pg_registry.update((group.group_name, group) for group in there)
    names_of_groups: list[Any] = [group if isinstance(group, str) else group.group_name for group in groups]
    mesh._dim_group_names = names_of_groups
    return mesh


def flatten(mesh: DeviceMesh, flattened: Mapping[str, tuple[tuple[str, ...], dist.ProcessGroup | None]]) -> None:
    """Makes `mesh[axes]._flatten(name)` use this group for these axes instead of creating groups."""
    root = mesh._get_root_mesh()
    for name, (axes, group) in flattened.items():
        if name in root._flatten_mapping:
            continue
        flat = _part(root, _layouts()([mesh[axes]._layout.collapse()]), (name,))
        flat._dim_group_names = [] if group is None else [group.group_name]
        if group is not None:
            root._pg_registry[group.group_name] = group
        root._flatten_mapping[name] = flat
