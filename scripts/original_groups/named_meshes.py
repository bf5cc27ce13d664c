# SPDX-License-Identifier: Apache-2.0
"""The groups along the names of torch's DeviceMesh."""

import torch.distributed as dist


def _along(mesh, flattened):
    """The mesh of each name: its own, and those that it has been flattened into."""
    if mesh is None:
        return {}
    has = [*mesh.mesh_dim_names, *(name for name in flattened if name in mesh._flatten_mapping)]
    return {name: mesh[name] for name in has}


def groups_of(mesh, flattened=()):
    """This rank's group along each name; none where there is no mesh."""
    return {name: dist.get_process_group_ranks(each.get_group()) for name, each in _along(mesh, flattened).items()}


def partitions_of(mesh, flattened=()):
    """All groups along each name, as torch lists the ranks of its meshes."""
    lists = {name: each._layout.remap_to_tensor(each._rank_map) for name, each in _along(mesh, flattened).items()}
    return {name: every.reshape(-1, every.shape[-1]).tolist() for name, every in lists.items()}
