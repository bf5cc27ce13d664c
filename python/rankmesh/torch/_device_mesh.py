"""A DeviceMesh of torch whose groups exist already, its parts and its flattened dimensions included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch.distributed._mesh_layout import _MeshLayout
from torch.distributed.device_mesh import DeviceMesh


def device_mesh(
    device_type: str,
    ranks: Sequence[int],
    shape: Sequence[int],
    names: tuple[str, ...],
    groups: Sequence[dist.ProcessGroup] | None,
) -> DeviceMesh:
    """The mesh of these ranks, row by row, with one group a dimension; without groups on a rank outside it."""
    places = torch.tensor(list(ranks), dtype=torch.int, device="cpu").reshape(tuple(shape))
    if groups:
        return DeviceMesh.from_group(list(groups), device_type, mesh=places, mesh_dim_names=names)
    mesh = DeviceMesh(device_type, places, mesh_dim_names=names, _init_backend=False)
    mesh._dim_group_names = []
    return mesh


def flatten(root: DeviceMesh, flattened: Mapping[str, tuple[tuple[str, ...], dist.ProcessGroup | None]]) -> None:
    """Has `root[axes]._flatten(name)` give this group for these axes, instead of making groups of its own."""
    for name, (axes, group) in flattened.items():
        if name in root._flatten_mapping:
            continue
        flat = DeviceMesh(
            root.device_type,
            _layout=_MeshLayout([root[axes]._layout.collapse()]),
            _rank_map=root._rank_map,
            mesh_dim_names=(name,),
            _root_mesh=root,
            _init_backend=False,
        )
        flat._dim_group_names = [] if group is None else [group.group_name]
        if group is not None:
            root._pg_registry[group.group_name] = group
        root._flatten_mapping[name] = flat
