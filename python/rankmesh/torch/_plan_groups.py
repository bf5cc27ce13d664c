"""The process groups of a plan on this rank."""

from __future__ import annotations

import collections
import contextlib
import datetime
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Group, Item
from rankmesh._errors import UsageError
from rankmesh.torch import _groups, _start
from rankmesh.torch._agree import Where
from rankmesh.torch._compat import PrefixStore, Store, backends, device_types
from rankmesh.torch._gloo import connecting_until
from rankmesh.torch._plan import MeshPlan, Options
from rankmesh.torch.backend._process_group import ProcessGroup


class Groups:
    """Process groups of this rank. Groups with equal ranks and options are created once; all are destroyed together."""

    def __init__(
        self, key: str, size: int, store: Store | None, patience: datetime.timedelta, *, started: bool = False
    ) -> None:
        self.closed = False
        self.started = started
        self._key, self.size, self._store, self._patience = key, size, store, patience
        self._default = dist.group.WORLD
        self._names: collections.Counter[str] = collections.Counter()
        self.table = _groups.GroupTable()

    def split(self, label: str, parts: Callable[[], Iterable[Group]], options: Options) -> None:
        """Splits these groups from the default group if torch's DeviceMesh would; `get` then returns this rank's
        group.

        Every rank of the world calls it with equal arguments. Otherwise it does nothing.
        """
        if not _groups.can_split(options.backend):
            return
        split = [list(part) for part in parts() if 1 < len(part) < self.size]
        if not split or any(part != sorted(part) for part in split):
            return
        own_part = next((part for part in split if dist.get_rank() in part), [])

        def make() -> dist.ProcessGroup | None:
            name = self._name(label, own_part[0]) if own_part else label
            return _groups.split_group(name, label, split, options)

        made = self.table.get(tuple(map(tuple, split)), options, make)
        if made is not None:
            self.table.put(tuple(own_part), options, made)

    def get(self, label: str, ranks: Group, options: Options) -> dist.ProcessGroup:
        """Returns the group of these ranks in this order; all of them call it.

        Returns torch's default group if it has these ranks, because another would connect every rank to every other.
        """
        if not options.own and options.pg_options is None and list(ranks) == list(range(self.size)):
            default = self._default
            if default is not None and _groups.is_made_with(default, options.timeout, options.backend):
                return default

        def make() -> dist.ProcessGroup:
            return _groups.new_group(self._name(label, ranks[0]), label, list(ranks), options)

        group = self.table.get(tuple(ranks), options, make)
        assert group is not None
        return group

    def _name(self, label: str, first: int) -> str:
        """Returns a name that this rank has not used before; it is equal on all members of a group."""
        name = f"{self._key}/{label}/{first}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}/{self._names[name]}"

    @contextlib.contextmanager
    def connecting(self, where: Where) -> Iterator[None]:
        """A context in which all ranks of the world create their groups; it ends when all of them are connected.

        If one fails, all groups are destroyed.
        """
        met = functools.partial(self.meet, "init", "connected", Group(range(self.size)), None, where)
        try:
            with connecting_until(None if self._store is None else met):
                yield
        except BaseException:
            self.destroy()
            raise

    def made(self, group: dist.ProcessGroup) -> bool:
        """Returns True if this object created a group and has not destroyed it, and the group has several ranks."""
        return group.size() > 1 and any(group is each for each in self.table)

    def meet(self, what: str, label: str, ranks: Group, timeout: datetime.timedelta | None, where: Where) -> None:
        """Returns when all ranks of a group have called it. Raises Timeout, which says `what` they do."""
        if self._store is not None:
            store = PrefixStore(self._name(f"{what} {label}", ranks[0]), self._store)
            _start.Start(dist.get_rank(), self.size, store, "").agree("", timeout or self._patience, where, ranks, what)

    @property
    def ended(self) -> bool:
        """True after destroy, or after torch.distributed was destroyed."""
        return self.closed or self._default is not dist.group.WORLD

    def check_open(self) -> None:
        """Raises UsageError after destroy, or after torch.distributed was destroyed."""
        if self.ended:
            raise UsageError("this member was destroyed, or torch.distributed was; its groups are gone")

    def destroy(self, error: Sequence[Any] = (None, None, None)) -> None:
        """Destroys the groups created here, and torch.distributed if it was initialised here.

        `error`: type, value and traceback of the exception that ends the block of these groups.
        """
        if self.closed:
            return
        self.closed = True
        if self._default is not dist.group.WORLD:
            return  # other code has destroyed torch.distributed with all groups
        if error[0] is not None and self.started and isinstance(self._default, ProcessGroup):
            self._default.engine.world.__exit__(*error)  # peers raise the cause
        for group in reversed([*self.table]):
            with contextlib.suppress(ValueError):  # other code has destroyed the group
                dist.destroy_process_group(group)
        if self.started:
            dist.destroy_process_group()


@dataclass
class Entry:
    """One declared set of a mesh on this rank, with its groups after creation."""

    item: Item
    options: Options
    label: str
    ranks: Group | None
    mesh: str
    group: dist.ProcessGroup | None = None
    host: dist.ProcessGroup | None = None
    suspended: list[dist.ProcessGroup | None] | None = None
    """The suspended group and its group on the host, None if destroyed. Entries that share them share the list."""


class GroupDefaults(NamedTuple):
    """What the groups of a plan are made with, unless a declaration says otherwise; None: as the default group."""

    backend: str | None
    device_type: str | None  # of the DeviceMeshes; None: the accelerator of the default group, else the host
    timeout: datetime.timedelta | None
    host: bool  # True to make a group on the host beside each group of devices alone


@dataclass(frozen=True)
class GroupUsage:
    """The resources of one group. Other sets of axes that share the group are not listed."""

    axes: str
    """'dp,tp', or the name of a pick, separate set or local group"""
    size: int
    """number of ranks"""
    connections: int
    """to other processes over Gloo; other backends do not say theirs"""
    suspended: bool
    memory: dict[str, int] = field(default_factory=dict)
    """the `memory_stats` of the backend in bytes, as NCCL has them; empty if it has none"""


@dataclass(frozen=True)
class Usage:
    """The resources that the groups of one rank hold in its process and on its device."""

    communicators: list[GroupUsage]
    """of two or more ranks, in the order of the plan"""

    @property
    def connections(self) -> int:
        """The sum over all groups."""
        return sum(each.connections for each in self.communicators)


class PlanGroups:
    """This rank's view of the meshes of a plan, and their groups."""

    def __init__(
        self, plans: list[MeshPlan], rank: int, hosts: list[str], groups: Groups, defaults: GroupDefaults
    ) -> None:
        self.rank = rank
        self.size = groups.size
        self.device_type = defaults.device_type or default_device_type()
        self.defaults = defaults._replace(device_type=self.device_type)
        self.groups = groups
        self._hosts = hosts
        self.standby: threading.Thread | None = None  # connects a larger world
        self.meshes = {plan.name: plan for plan in plans}
        self.entries = {
            plan.name: [
                Entry(item, options, plan.label(item), plan.ranks(item, rank, hosts), plan.name)
                for item, options in zip(plan.items, plan.options, strict=True)
            ]
            for plan in plans
        }
        self.device_meshes: dict[str, DeviceMesh] = {}

    def all_entries(self) -> list[Entry]:
        """The entries of all meshes, in the same order on every rank."""
        return [entry for name in sorted(self.meshes) for entry in self.entries[name]]

    def connect(self) -> None:
        """Creates the groups of all meshes that are not lazy, in the same order on every rank."""
        with self.groups.connecting(next((each.where for each in self.meshes.values()), lambda ranks: "")):
            for name, plan in sorted(self.meshes.items()):
                if plan.lazy:
                    continue
                for entry in self.entries[name]:
                    parts = functools.partial(plan.parts, entry.item, self._hosts)
                    self.groups.split(entry.label, parts, self._options(entry))
                self.make(self.entries[name])

    def make(self, entries: Iterable[Entry]) -> None:
        """Creates the groups of these entries with two or more ranks."""
        for entry in entries:
            if entry.ranks is not None and len(entry.ranks) > 1:
                self.connect_one(entry)

    def _options(self, entry: Entry) -> Options:
        timeout, backend, pg_options, _ = entry.options
        own = entry.label if entry.item.separate else ""
        return Options(timeout or self.defaults.timeout, backend or self.defaults.backend, pg_options, own)

    def connect_one(self, entry: Entry, label: str = "") -> None:
        """Creates the group of an entry, with the same label on all its ranks; entries of one rank share a group."""
        if entry.group is not None:
            return
        ranks, options = entry.ranks, self._options(entry)
        assert ranks is not None
        label = label or (entry.label if len(ranks) > 1 else "alone")
        group = self.groups.get(label, ranks, options)
        if self.defaults.host and not _groups.is_on_host(group):
            of_host = "cpu:rankmesh" if isinstance(group, ProcessGroup) else "gloo"
            options = options._replace(backend=of_host, pg_options=None)
            entry.host = self.groups.get(label + " on the host", ranks, options)
        entry.group = group

    # --- idle groups: what they hold, how they release it and get it back, and how first use is paid for at once

    @staticmethod
    def usage(entries: Iterable[Entry]) -> Usage:
        found: dict[int, GroupUsage] = {}
        for entry in entries:
            suspended = entry.suspended
            group = entry.group if suspended is None else suspended[0]
            if entry.ranks is None or len(entry.ranks) < 2 or (group is None and suspended is None):
                continue
            memory: dict[str, int] = {}
            connections = 0
            for backend in _backends(group, entry.host):
                connections += backend.size() - 1 if backend.name() == "gloo" else 0
                memory |= _called(backend, "memory_stats") or {}
            one = GroupUsage(entry.item.text, len(entry.ranks), connections, suspended is not None, memory)
            found.setdefault(id(suspended or group), one)
        return Usage(list(found.values()))

    def suspend(self, entries: Iterable[Entry]) -> None:
        """Where a backend cannot suspend, the group is destroyed, but for torch's default group."""
        for entry in entries:
            group = entry.group
            if group is None or not self.groups.made(group):
                continue
            self._meet(entry, "suspend")
            suspended = [group, entry.host]
            released = [_called(backend, "suspend") for backend in _backends(*suspended)]
            if not any(released):
                for each in suspended:
                    if each is not None and self.groups.made(each):
                        self.groups.table.drop(each)
                suspended[:] = None, None
                self.device_meshes.clear()
            for other in self.all_entries():
                if other.group is group:
                    other.suspended, other.group, other.host = suspended, None, None

    def resume(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            suspended = entry.suspended
            if suspended is None:
                continue
            for backend in _backends(*suspended):
                _called(backend, "resume")
            for other in self.all_entries():
                if other.suspended is suspended:
                    other.suspended, (other.group, other.host) = None, suspended
                    if other.group is None:
                        self.connect_one(other, entry.label)
            self._meet(entry, "resume")

    def warm_up(self, entries: Iterable[Entry]) -> None:
        """Makes the groups of these entries, and sums one element on each, which connects what else connects later."""
        for entry in entries:
            if entry.ranks is not None:
                self.connect_one(entry)
                warm_up_group(entry.group)
                warm_up_group(entry.host)

    def _meet(self, entry: Entry, what: str) -> None:
        assert entry.ranks is not None
        self.groups.meet(what, entry.label, entry.ranks, entry.options.timeout, self.meshes[entry.mesh].where)


def default_device_type() -> str:
    """Returns the accelerator of the default group, else the host."""
    default, accelerator = dist.group.WORLD, torch.accelerator.current_accelerator(check_available=True)
    if default is not None and accelerator is not None and accelerator.type in device_types(default):
        return str(accelerator.type)
    return "cpu"


def warm_up_group(group: dist.ProcessGroup | None) -> None:
    """Sums one element on each device of a group. All its ranks call it."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    here = {"cpu"} if accelerator is None else {"cpu", accelerator.type}
    for device in [] if group is None else sorted(device_types(group) & here):
        dist.all_reduce(torch.zeros(1, device=device), group=group)


def _backends(*groups: dist.ProcessGroup | None) -> list[Any]:
    found: list[Any] = []
    for group in groups:
        if group is not None:
            found += group.made if isinstance(group, ProcessGroup) else backends(group)
    return list({id(backend): backend for backend in found}.values())


def _called(backend: Any, name: str) -> Any:
    """Returns what a method of a backend returns, True for None; None if the backend, or this torch, lacks it."""
    try:
        result = getattr(backend, name)()
    except (RuntimeError, AttributeError):
        return None
    return True if result is None else result
