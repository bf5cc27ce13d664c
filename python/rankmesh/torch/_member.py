"""Member: this process's coordinate and process groups after init."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Coordinate, Group, Mesh
from rankmesh._errors import UnknownName, UsageError
from rankmesh._member_names import Size, missing
from rankmesh.torch import _device_mesh, _elastic, _groups
from rankmesh.torch._elastic import Standby
from rankmesh.torch._errors import errors_of_backend
from rankmesh.torch._plan import MeshPlan
from rankmesh.torch._plan_groups import Entry, PlanGroups, Usage
from rankmesh.torch.backend._process_group import ProcessGroup

if TYPE_CHECKING:
    from typing_extensions import Self


class Member:
    """This process's view of a plan, or of one of its meshes, with its process groups.

    In a plan of several meshes, member["expert"] is the view of one mesh.
    """

    def __init__(self, planned: PlanGroups, mesh: str | None = None) -> None:
        self._planned, self._name = planned, mesh
        self._views: dict[str, Member] = {}

    def __getitem__(self, mesh: str, /) -> Member:
        here = list(self._planned.meshes) if self._name is None else [self._name]
        if here == [mesh]:
            return self
        if mesh in here:
            return self._views.setdefault(mesh, Member(self._planned, mesh))
        names = ", ".join(map(repr, self._planned.meshes))
        there = f"its meshes are {names}" if names != "''" else "its one mesh has no name"
        raise UnknownName(f"the plan has no mesh '{mesh}'; {there}")

    @property
    def _plan(self) -> MeshPlan:
        meshes = self._planned.meshes
        if self._name is None and len(meshes) > 1:
            first = next(iter(meshes))
            names = ", ".join(map(repr, meshes))
            raise UsageError(f"the plan has {len(meshes)} meshes ({names}); say which, as in member['{first}']")
        return meshes[self._name] if self._name is not None else next(iter(meshes.values()))

    @property
    def _entries(self) -> list[Entry]:
        return self._planned.entries[self._plan.name]

    # --- coordinates

    @property
    def meshes(self) -> list[str]:
        """The names of the plan's meshes, in the order of the plan."""
        return list(self._planned.meshes)

    @property
    def rank(self) -> int:
        """This process's rank in the world."""
        return self._planned.rank

    @property
    def size(self) -> Size:
        """The number of ranks of the world; `me.size("dp")` is the number along axes, or in a declared group."""
        return Size(self._planned.size, self)

    @property
    def world_size(self) -> int:
        """The number of ranks of the world."""
        return self._planned.size

    @property
    def local_rank(self) -> int:
        """This rank's index on its host: LOCAL_RANK of the launcher, else as the backend `rankmesh` counts."""
        default = dist.group.WORLD
        of_engine = default.engine.world.local_rank if isinstance(default, ProcessGroup) else None
        return dist.get_node_local_rank(of_engine)

    @property
    def device(self) -> torch.device:
        """The device of this process's DeviceMeshes."""
        kind = self._planned.device_type
        return torch.device(kind if kind == "cpu" else f"{kind}:{torch.get_device_module(kind).current_device()}")

    @property
    def mesh(self) -> Mesh:
        """The mesh, with every '*' resolved."""
        return self._plan.mesh

    @property
    def inside(self) -> bool:
        """True if this rank is in the mesh."""
        return self.rank in self._plan.places

    @property
    def coord(self) -> Coordinate:
        """This rank's index on every axis."""
        self._check_inside()
        return self._plan.places.coord(self.rank)

    @property
    def prefix(self) -> str:
        """The prefix of this rank's log lines: '[pp=1 dp=0 tp=3]'."""
        several = self._name is None and len(self._planned.meshes) > 1
        return f"[rank {self.rank}]" if several or not self.inside else f"[{self.coord}]"

    def at(self, axis: str) -> int:
        """Returns this rank's index on an axis, or its group rank in a declared group of that name."""
        named = self._named((axis,))
        if named is None:
            self._check_inside()
            return self._plan.places.index(self.rank, axis)
        return self._ranks(named).index(self.rank)

    def is_first(self, axis: str) -> bool:
        """Returns True if this rank is the first of its group along the axis."""
        return self.at(axis) == 0

    def is_last(self, axis: str) -> bool:
        """Returns True if this rank is the last of its group along the axis."""
        return self.at(axis) == self.size(axis) - 1

    def neighbor(self, axis: str, by: int, edge: Literal["open", "wrap"] = "open") -> int | None:
        """Returns the world rank `by` steps along an axis; None past an open edge."""
        self._check_inside()
        return self._plan.places.neighbor(self.rank, axis, by, edge)

    def rank_at(self, coordinate: Coordinate | Mapping[str, int] | str = "", /, **index: int) -> int:
        """Returns the world rank at a coordinate of the mesh."""
        return self._plan.places.rank(coordinate, **index) if coordinate else self._plan.places.rank(**index)

    def ranks(self, *axes: str) -> Group:
        """Returns the world ranks that differ from this rank only along these axes, or the ranks of a declared
        group."""
        named = self._named(axes)
        if named is not None:
            return self._ranks(named)
        self._check_inside()
        return self._plan.places.group(self.rank, *axes)

    # --- groups

    def on(self, *axes: str) -> dist.ProcessGroup:
        """Returns the process group of a single axis, of a declared set in any order, or of declared ranks by name."""
        return self._groups(axes)[0]

    group = get_group = on  # the names that torch uses

    def find(self, *axes: str) -> dist.ProcessGroup | None:
        """Like `on`, but returns None if this rank has no such group."""
        return None if self._entry(axes).ranks is None else self.on(*axes)

    def host_group(self, *axes: str) -> dist.ProcessGroup:
        """Returns a group of the same ranks for tensors in host memory; `group` itself if it accepts them."""
        group, host = self._groups(axes)
        if host is not None:
            return host
        if _groups.is_on_host(group):
            return group
        raise UsageError(
            f"the groups of '{','.join(axes)}' are of devices alone; init with host=True makes others beside"
        )

    def prepare(self, *axes: str) -> None:
        """Creates a group that a lazy declaration deferred. Every rank of the mesh calls it with the same names."""
        self._planned.groups.check_open()
        self._check_awake(entry := self._entry(axes), axes)
        self._planned.make([entry])

    def device_mesh(self, mesh: str | None = None, *, flatten: Mapping[str, Iterable[str]] | None = None) -> DeviceMesh:
        """Returns the mesh as torch's DeviceMesh with these groups; creates no others.

        A submesh `["dp", "cp"]._flatten()` has the group of that declared set. Its name is the axes' names joined by
        '_', or the name in `flatten`: `flatten={"fsdp": ("dp", "cp")}`.
        """
        if mesh is not None and mesh != self._name:
            return self[mesh].device_mesh(flatten=flatten)
        self._planned.groups.check_open()
        plan, made = self._plan, self._planned.device_meshes
        if plan.name not in made:
            made[plan.name] = _device_mesh.device_mesh(
                self._planned.device_type,
                plan.places.ranks,
                plan.mesh.shape,
                plan.mesh.axes,
                [self.group(axis) for axis in plan.mesh.axes] if self.inside else None,
            )
        sets = {"_".join(e.item.axes): e.item.axes for e in self._entries if len(e.item.axes) > 1 and not e.item.name}
        sets.update((name, self._entry(tuple(axes)).item.axes) for name, axes in (flatten or {}).items())
        _device_mesh.flatten(
            made[plan.name], {name: (axes, self.group(*axes) if self.inside else None) for name, axes in sets.items()}
        )
        return made[plan.name]

    def barrier(self) -> None:
        """Returns when all ranks of the world have called it."""
        self._planned.groups.check_open()
        dist.barrier()

    def write_record(self, path: str | os.PathLike[str]) -> None:
        """Writes this rank's flight record to a file. Raises UsageError if the backend is not one of rankmesh's."""
        _elastic.engine_of(self._planned, "write_record", "calls are not recorded").world.write_record(path)

    # --- idle groups

    def suspend(self, *axes: str) -> None:
        """Releases what idle groups hold: of a declared set, or of all without arguments. Every rank of them calls it.

        NCCL's groups release memory of the device, if the library can. Other groups are destroyed: process groups and
        DeviceMeshes taken before raise, and keep their connections while the program holds them. Until resume(),
        `group` of these axes raises UsageError. torch's default group stays. Raises Timeout, which names the ranks
        that do not call it. No operation on the groups may be pending.
        """
        self._planned.suspend(self._chosen(axes))

    def resume(self, *axes: str) -> None:
        """Restores what suspend() released. Must be called with the same arguments; take groups anew afterwards."""
        self._planned.resume(self._chosen(axes))

    def usage(self) -> Usage:
        """Returns the resources that this rank's groups hold now. Does not communicate."""
        self._planned.groups.check_open()
        return self._planned.usage(self._chosen(()))

    def warm_up(self, *axes: str) -> None:
        """Makes groups that are made at first use, and connects them: of a declared set, or all without arguments.

        Every rank of the mesh calls it with the same arguments. Raises UsageError for a suspended group.
        """
        chosen = self._chosen(axes)
        for entry in chosen:
            self._check_awake(entry, axes)
        self._planned.warm_up(chosen)

    # --- other worlds

    @errors_of_backend()
    def survivors(self, grace: float | datetime.timedelta = 1.0) -> Member:
        """Returns the Member of the same plan over the ranks that are left, in their old order.

        The ranks call it within `grace` seconds of each other after PeerLost. Sizes '*' are computed anew. This member
        and all groups of torch are ended. Raises UsageError on all ranks if the plan does not fit; torch's default
        group is then that of the ranks that are left, and `rankmesh.torch.init` with another plan goes on.

        >>> except PeerLost:  # doctest: +SKIP
        ...     me = me.survivors(grace=10)
        """
        engine = _elastic.engine_of(self._planned, "survivors")
        if self._planned.standby is not None:
            self._planned.standby.join()
        settings = _elastic.settings_of(self._planned)
        made = _elastic.connect_survivors(engine.newest, grace, settings)
        return Member(_elastic.swap(made, settings, broken=True))

    @errors_of_backend()
    def grow(self, most: int, timeout: float | datetime.timedelta) -> Member:
        """Returns the Member of the same plan over these ranks and up to `most` processes in `rankmesh.torch.rejoin`.

        All ranks call it. Returns when `most` processes have come, or when `timeout` (seconds) expires with those that
        have come. A process takes the place of the lost rank that its RANK names, or the lowest free place. Errors are
        raised on all ranks, and this member stays usable: Timeout if no process comes, Disagreement if one has another
        plan. After PeerLost call `survivors`.
        """
        engine = _elastic.growing(self._planned, "grow")
        settings = _elastic.settings_of(self._planned)
        made = _elastic.connect_larger(engine, lambda: engine.newest.grow(most, timeout), settings)
        return Member(_elastic.swap(made, settings))

    def standby(self, most: int, timeout: float | datetime.timedelta) -> Standby:
        """Starts a `grow` in a thread, and returns it; meanwhile this member works. All ranks call it.

        >>> standby = me.standby(1, timeout=600)  # doctest: +SKIP
        >>> if standby.ready():  # at a step  # doctest: +SKIP
        ...     me = standby.swap()
        """
        engine = _elastic.growing(self._planned, "standby")
        grow = functools.partial(engine.newest.grow, most, timeout)
        return Standby(self._planned, engine, grow)

    @errors_of_backend()
    def reconfigure(self, ranks: Iterable[int]) -> Member:
        """Returns the Member of the same plan over these ranks, in this order. Exactly these ranks call it.

        `ranks` are those of the world that `init`, `survivors`, `grow` or `rejoin` has returned, also in a Member that
        `reconfigure` has returned. So ranks can split into parts, and parts can merge. This member is ended; a rank
        that is left out keeps its own, to call `reconfigure` later.

        >>> half = me.reconfigure(range(4) if me.rank < 4 else range(4, 8))  # doctest: +SKIP
        >>> me = half.reconfigure(range(8))  # doctest: +SKIP
        """
        engine = _elastic.without_standby(self._planned, "reconfigure")
        settings = _elastic.settings_of(self._planned)
        root, listed = engine.root, list(ranks)
        world = root if listed == list(range(root.size)) else root.sub(listed)  # only the root can grow
        made = _elastic.connect(world, settings, root)
        return Member(_elastic.swap(made, settings))

    # --- destruction

    def destroy(self) -> None:
        """Destroys the groups that init created, and torch.distributed if init initialised it."""
        self._planned.groups.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._planned.groups.destroy(error)

    def __repr__(self) -> str:
        return f"<Member {self.prefix}>"

    # --- internals

    if not TYPE_CHECKING:  # a type checker would take any name
        __getattr__ = missing

    def _check_inside(self) -> None:
        if not self.inside:
            raise UsageError(f"rank {self.rank} is outside mesh {self.mesh.text}; ask inside first")

    def _chosen(self, axes: tuple[str, ...]) -> list[Entry]:
        """Returns the entry of these axes, or all entries of this view, in the same order on every rank."""
        self._planned.groups.check_open()
        if axes:
            return [self._entry(axes)]
        return self._planned.all_entries() if self._name is None else self._planned.entries[self._name]

    def _check_awake(self, entry: Entry, names: tuple[str, ...]) -> None:
        if entry.suspended is not None:
            mesh = self._planned.meshes[entry.mesh].mesh
            raise UsageError(
                f"'{entry.item.text}' of mesh {mesh.text} is suspended; every rank of its group calls "
                f"resume({_quoted(names)}) first"
            )

    def _named(self, names: tuple[str, ...]) -> Entry | None:
        if len(names) != 1:
            return None
        return next((entry for entry in self._entries if entry.item.name == names[0]), None)

    def _ranks(self, entry: Entry) -> Group:
        if entry.ranks is None:
            self._check_inside()
            others = f", which is {self._plan.mesh.text} at {list(entry.item.at)} of '{entry.item.axes[0]}'"
            raise UsageError(f"rank {self.rank} is not in pick '{entry.item.name}'{others}; ask find first")
        return entry.ranks

    def _entry(self, names: tuple[str, ...]) -> Entry:
        """Returns what was declared under these names. Raises UsageError, which names the declaration to add."""
        if (named := self._named(names)) is not None:
            return named
        mesh = self._plan.mesh
        for name in names:
            mesh.size_of(name)
        for entry in self._entries:
            if not entry.item.name and set(entry.item.axes) == set(names):
                return entry
        if len(names) == 1:
            raise UsageError(f"axis '{names[0]}' of mesh {mesh.text} was declared without a group; add it to axes")
        axes = [axis for axis in mesh.axes if axis in names]
        raise UsageError(
            f"'{','.join(axes)}' of mesh {mesh.text} was not declared; add over=[({_quoted(axes)})] to the declaration"
        )

    def _groups(self, names: tuple[str, ...]) -> tuple[dist.ProcessGroup, dist.ProcessGroup | None]:
        self._planned.groups.check_open()
        entry = self._entry(names)
        self._check_awake(entry, names)
        if len(self._ranks(entry)) == 1:
            self._planned.connect_one(entry)
        if entry.group is None:
            raise UsageError(
                f"'{entry.item.text}' of mesh {self.mesh.text} is lazy and not made; every rank of the mesh calls "
                f"prepare({_quoted(names)}) first"
            )
        return entry.group, entry.host


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
