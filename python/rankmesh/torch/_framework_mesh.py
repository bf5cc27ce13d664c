"""torch DeviceMeshes in the shape of another framework, with the groups of this rank."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Mesh
from rankmesh.torch._device_mesh import device_mesh, flatten, unflatten
from rankmesh.torch._named import Named, NamedGroups
from rankmesh.torch._plan_groups import default_device_type


def device_meshes(
    said: str,
    meshes: Sequence[Mesh],
    *,
    device_type: str | None = None,
    flattened: Mapping[str, tuple[str, ...]] | None = None,
    timeout: datetime.timedelta | None = None,
    one_root: bool = False,
    missing: Mapping[str, str] | None = None,
) -> tuple[list[DeviceMesh], NamedGroups]:
    """Returns meshes over the world and their groups, after the ranks have compared `said`. Axes with one name are
    equal.

    `flattened` maps names to sets of axes of the first mesh that are flattened under these names. With `one_root`
    all meshes are dimensions of one mesh, `world`. `missing` says why an axis has no group.
    """
    rank, flattened, missing = dist.get_rank(), flattened or {}, missing or {}
    device, world = device_type or default_device_type(), Mesh([("world", meshes[0].size)])
    all_of = [world, *meshes] if one_root else meshes
    sets: dict[str, tuple[Mesh, tuple[str, ...]]] = {axis: (mesh, (axis,)) for mesh in all_of for axis in mesh.axes}
    sets |= {name: (meshes[0], axes) for name, axes in flattened.items()}
    wanted = [
        Named(name, mesh.group(rank, *axes), parts=mesh.partition(*axes))
        for name, (mesh, axes) in sets.items()
        if name not in missing
    ]
    groups = NamedGroups(said, wanted, timeout=timeout)

    def made_of(mesh: Mesh) -> DeviceMesh:
        return device_mesh(device, range(mesh.size), mesh.shape, mesh.axes, [groups[axis] for axis in mesh.axes])

    if one_root:
        root = made_of(world)
        made = [
            unflatten(root, mesh.shape, mesh.axes, [missing.get(axis) or groups[axis] for axis in mesh.axes])
            for mesh in meshes
        ]
    else:
        made = [made_of(mesh) for mesh in meshes]
    flatten(made[0], {name: (axes, groups[name]) for name, axes in flattened.items()})
    return made, groups
