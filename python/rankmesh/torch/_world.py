"""The process groups that one init has made on this rank."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from rankmesh._core import Group
from rankmesh._errors import UsageError
from rankmesh.torch import _groups
from rankmesh.torch._plan import Item, MeshPlan


@dataclass
class Entry:
    """One item of a mesh on this rank, with its groups once they are made."""

    item: Item
    label: str
    ranks: Group | None
    group: dist.ProcessGroup | None = None
    host: dist.ProcessGroup | None = None


class World:
    """What one init holds: torch's world as this rank sees it, its entries and its groups."""

    def __init__(
        self,
        plans: list[MeshPlan],
        rank: int,
        hosts: list[str],
        *,
        key: str,
        backend: str | None,
        device_type: str | None,
        timeout: datetime.timedelta | None,
        host: bool,
        started: bool,
    ) -> None:
        self.rank = rank
        self.device_type = device_type or _device_type()
        self.host = host
        self.closed = False
        self._key, self._backend, self._timeout, self._started = key, backend, timeout, started
        self._default = dist.group.WORLD
        self._made: list[dist.ProcessGroup] = []
        self._shared: dict[object, tuple[dist.ProcessGroup, dist.ProcessGroup | None]] = {}
        self._alone: dict[object, dist.ProcessGroup] = {}
        self.meshes = {plan.name: plan for plan in plans}
        self.entries = {
            plan.name: [Entry(item, plan.label(item), plan.ranks(item, rank, hosts)) for item in plan.items]
            for plan in plans
        }

    def connect(self) -> None:
        """Makes the groups of all meshes that are not lazy, in one order on every rank."""
        try:
            for name, plan in sorted(self.meshes.items()):
                if not plan.lazy:
                    self.make(self.entries[name])
        except BaseException:
            self.destroy()
            raise

    def make(self, entries: Iterable[Entry]) -> None:
        """Makes the groups of these entries that have two ranks or more, each once for equal ranks and options."""
        for entry in entries:
            if entry.ranks is None or len(entry.ranks) == 1 or entry.group is not None:
                continue
            shares = (tuple(entry.ranks), entry.item.options, entry.label if entry.item.separate else "")
            if shares not in self._shared:
                group = self._new(entry.label, entry.ranks, entry.item)
                host = self._new(entry.label, entry.ranks, entry.item, "gloo") if self._needs_host(group) else None
                self._shared[shares] = group, host
            entry.group, entry.host = self._shared[shares]

    def alone(self, entry: Entry) -> tuple[dist.ProcessGroup, dist.ProcessGroup | None]:
        """The groups of an entry of one rank, which only this rank makes: one for all such of one backend."""
        if entry.group is None:
            assert entry.ranks is not None
            key = entry.item.options
            if key not in self._alone:
                self._alone[key] = self._new("alone", entry.ranks, entry.item, number=len(self._alone))
            entry.group = self._alone[key]
            if self._needs_host(entry.group):
                if "host" not in self._alone:
                    self._alone["host"] = self._new("alone", entry.ranks, entry.item, "gloo")
                entry.host = self._alone["host"]
        return entry.group, entry.host

    def check_open(self) -> None:
        """Raises UsageError after destroy, here or of all of torch.distributed."""
        if self.closed or self._default is not dist.group.WORLD:
            raise UsageError("this member was destroyed, or torch.distributed was; its groups are gone")

    def destroy(self) -> None:
        """Ends the groups that were made here, and torch.distributed if it was initialised here."""
        if self.closed:
            return
        self.closed = True
        if self._default is not dist.group.WORLD:
            return  # someone else has ended torch.distributed, and with it every group
        for group in reversed(self._made):
            with contextlib.suppress(ValueError):  # someone else has destroyed it
                dist.destroy_process_group(group)
        if self._started:
            dist.destroy_process_group()

    def _needs_host(self, group: dist.ProcessGroup) -> bool:
        return self.host and not _groups.is_on_host(group)

    def _new(self, label: str, ranks: Group, item: Item, on: str | None = None, number: int = 0) -> dist.ProcessGroup:
        kind = f"/{on}" if on else ""
        group = _groups.new_group(
            f"{self._key}/{label}/{ranks[0]}{kind}" + (f"/{number}" if number else ""),
            label + (" on the host" if on else ""),
            list(ranks),
            timeout=item.timeout or self._timeout,
            backend=on or item.backend or self._backend,
            pg_options=None if on else item.pg_options,
        )
        self._made.append(group)
        return group


def _device_type() -> str:
    """The accelerator that the default group works on, else the host."""
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        default = dist.group.WORLD
        if (
            accelerator is not None
            and default is not None
            and accelerator.type in {d.type for d in default._device_types}
        ):
            return str(accelerator.type)
    return "cpu"
