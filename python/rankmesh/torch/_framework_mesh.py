"""DeviceMeshes of torch that another framework shapes, with the groups of this rank."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Group, Mesh
from rankmesh.torch._device_mesh import device_mesh, flatten
from rankmesh.torch._named import Named, NamedGroups
from rankmesh.torch._world import default_device_type


def device_meshes(
    said: str,
    meshes: Sequence[Mesh],
    *,
    device_type: str | None = None,
    flattened: Mapping[str, tuple[str, ...]] | None = None,
    timeout: datetime.timedelta | None = None,
) -> tuple[list[DeviceMesh], NamedGroups]:
    """Meshes over the world, all axes of different names, and their groups, after the ranks have compared `said`.

    `flattened` are sets of axes of the first one, by the names under which its parts are flattened.
    """
    rank, flattened = dist.get_rank(), flattened or {}
    sets: list[tuple[str, Mesh, tuple[str, ...]]] = [(axis, mesh, (axis,)) for mesh in meshes for axis in mesh.axes]
    sets += [(name, meshes[0], axes) for name, axes in flattened.items()]
    wanted = [Named(name, mesh.group(rank, *axes), parts=mesh.partition(*axes)) for name, mesh, axes in sets]
    groups = NamedGroups(said, wanted, timeout=timeout)
    made = [
        device_mesh(
            device_type or default_device_type(),
            range(mesh.size),
            mesh.shape,
            tuple(mesh.axes),
            [groups[axis] for axis in mesh.axes],
        )
        for mesh in meshes
    ]
    flatten(made[0], {name: (axes, groups[name]) for name, axes in flattened.items()})
    return made, groups


def flatten_alike(said: str, mesh: DeviceMesh, name: str | None) -> DeviceMesh:
    """`mesh._flatten(name)`, which every rank of the world calls, but each makes its own group only."""
    root, names = mesh._get_root_mesh(), mesh.mesh_dim_names or ()
    name = name or "_".join(names)
    fresh = name not in root._flatten_mapping and name not in (root.mesh_dim_names or ())
    if names and fresh and mesh.get_coordinate() is not None:
        ranks = Group(mesh.mesh.flatten().tolist())
        groups = NamedGroups(f"{said}: {','.join(names)} of {root} flattened to {name}", [Named(name, ranks)])
        flatten(mesh, {name: (names, groups[name])})
    return mesh._flatten(name)
