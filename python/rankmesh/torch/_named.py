"""Process groups under the names of another framework, and torch DeviceMeshes in its shape with these groups."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Group, Mesh, Partition
from rankmesh.torch import _groups, _variables
from rankmesh.torch._compat import default_group
from rankmesh.torch._device_mesh import device_mesh, flatten, unflatten
from rankmesh.torch._plan import Options
from rankmesh.torch._plan_groups import Groups, default_device_type
from rankmesh.torch._start import DEFAULT_TIMEOUT, adopt


@dataclass(frozen=True)
class Named:
    """A group of this rank and its name in the framework. `apart`: not shared with groups of equal ranks.

    `parts` are the groups of all ranks if every rank of the world creates its own; torch may then split them. `made`
    is called with the group before the next group is created.
    """

    name: str
    ranks: Group
    backend: str | None = None
    apart: bool = False
    parts: Partition | None = None
    pg_options: Any = None
    made: Callable[[dist.ProcessGroup], object] | None = None


@contextlib.contextmanager
def errors_reach_peers(
    said: str, timeout: datetime.timedelta | None = None, *, compared: bool = True
) -> Iterator[None]:
    """Compares an exception of the context with the other ranks before it propagates: no rank waits for this rank."""
    try:
        yield
    except Exception as error:
        if compared:
            NamedGroups(f"{said}, which is wrong: {error}", [], timeout=timeout)
        raise


class NamedGroups(Groups):
    """This rank's process groups of a framework, on an initialised torch.distributed; compared before creation.

    `said` must be equal on all ranks; each rank lists its groups in one common order. `compared` is false if only
    some ranks of the world create groups. The timeout of the default group limits the comparison, and on the backend
    `rankmesh` the groups too if there is no `timeout`.
    """

    def __init__(
        self, said: str, wanted: Iterable[Named], *, timeout: datetime.timedelta | None = None, compared: bool = True
    ) -> None:
        start = adopt()
        _variables.tell_unused_by_torch()
        self._backend = dist.get_backend()
        compared = compared and self._backend != "fake"  # such a world is this process
        patience = _groups.timeout_of(default_group()) or DEFAULT_TIMEOUT

        def where(_: Iterable[int]) -> str:
            return f"; this rank says {said}"

        if compared:
            start.part_from_earlier(patience, where)
            start.agree(said, patience, where)
        super().__init__(start.key, start.size, start.store if compared else None, patience)
        self._timeout = timeout or _groups.timeout_of_default()
        self._named: dict[str, dist.ProcessGroup] = {}
        with self.connecting(where):
            for each in wanted:
                self.add(each)

    def add(self, wanted: Named) -> dist.ProcessGroup:
        """Creates one more group. All its ranks call it."""
        label = wanted.name if len(wanted.ranks) > 1 else "alone"
        backend = None if self._backend in (wanted.backend, "fake") else wanted.backend
        options = Options(self._timeout, backend, wanted.pg_options, wanted.name if wanted.apart else "")
        if (parts := wanted.parts) is not None:
            self.split(label, lambda: parts, options)
        group = self._named[wanted.name] = self.get(label, wanted.ranks, options)
        if wanted.made is not None:
            wanted.made(group)
        return group

    def __getitem__(self, name: str) -> dist.ProcessGroup:
        self.check_open()
        return self._named[name]

    @property
    def groups(self) -> list[dist.ProcessGroup]:
        """All groups, each once."""
        return list({id(group): group for group in self._named.values()}.values())


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
