# SPDX-License-Identifier: Apache-2.0
"""torch's own DeviceMesh for any rank: groups are made on torch's fake backend, which needs no other process."""

import contextlib
import os
from unittest import mock

import torch.distributed as dist
import torch.distributed.tensor  # what it imports is looked for before stubs stand in for packages
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore

from .answers import Raised, ask


@contextlib.contextmanager
def fake_world(rank, world):
    """Within it this process is `rank` of `world`; it yields {description: its groups in the order of their making}."""
    made = {}
    new_group = c10d.new_group

    def record(ranks=None, timeout=None, backend=None, pg_options=None, *arguments, group_desc=None, **options):
        members = list(range(world)) if ranks is None else [int(each) for each in ranks]
        made.setdefault(group_desc or "", []).append(members)
        options.pop("device_id", None)
        return new_group(ranks, None, "fake", None, *arguments, group_desc=group_desc, **options)

    places = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {name: str(value) for name, value in places.items()}))
        for module in (dist, c10d, device_mesh):
            stack.enter_context(mock.patch.object(module, "new_group", record))
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        stack.callback(dist.destroy_process_group)
        yield made


def ask_mesh(call, *arguments, **options):
    """What is described of the mesh that the call answers; the texts of errors are not compared."""
    found = ask(call, *arguments, **options)
    return Raised("") if isinstance(found, Raised) else described(found)


def described(mesh):
    """What a mesh answers, torch's or ours: names, shape, ranks, coordinate, and the group along each name."""
    if mesh is None:
        return None
    names = mesh.mesh_dim_names or ()
    ranks = mesh.mesh
    return {
        "names": list(names),
        "shape": list(mesh.shape),
        "ranks": ranks.flatten().tolist() if hasattr(ranks, "flatten") else list(ranks),
        "coordinate": ask(lambda: list(mesh.get_coordinate())),
        "groups": {str(name): ask(lambda name=name: members(mesh.get_group(name))) for name in names},
        "local_ranks": {str(name): ask(mesh.get_local_rank, name) for name in names},
    }


def members(group):
    """The ranks of a process group, or of our group."""
    found = dist.get_process_group_ranks(group) if isinstance(group, dist.ProcessGroup) else group
    return [int(each) for each in found]


def partitions_of(made, world):
    """The groups of several ranks, sorted; those of all ranks are left out.

    Versions of torch's DeviceMesh make groups in other orders, and take the world's own group for all ranks.
    """
    kept = {name: sorted(ranks for ranks in groups if 1 < len(ranks) < world) for name, groups in made.items()}
    return {name: groups for name, groups in kept.items() if groups}


def along(mesh, flattened=()):
    """The mesh along each of its names, and each that it has been flattened into; nothing where there is no mesh."""
    if mesh is None:
        return {}
    has = [*mesh.mesh_dim_names, *(name for name in flattened if name in mesh._flatten_mapping)]
    return {name: mesh[name] for name in has}


def partition_of(mesh, axis=0):
    """All groups along an axis of a mesh, as torch lists them."""
    every = device_mesh._MeshLayout([mesh._layout[axis]]).remap_to_tensor(mesh._rank_map)
    return every.reshape(-1, every.shape[-1]).tolist()


def group_of(mesh, axis=0):
    """This rank's group along an axis of a mesh; None where the rank is outside of it."""
    return None if mesh.get_coordinate() is None else members(mesh.get_group(axis))
