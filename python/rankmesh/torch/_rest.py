"""Idle groups: what groups hold, how they release it, how they get it back, and how first use is paid for at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from rankmesh.torch._compat import backends, device_types
from rankmesh.torch._plan_groups import Entry, PlanGroups
from rankmesh.torch.backend._process_group import ProcessGroup


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


def usage(entries: Iterable[Entry]) -> Usage:
    """Returns what the groups of these entries hold now. Does not communicate."""
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


def suspend(planned: PlanGroups, entries: Iterable[Entry]) -> None:
    """Releases what the groups of these entries hold. Every rank of the groups calls it.

    A backend that can suspend does so. Otherwise the group is destroyed. torch's default group and groups of one rank
    stay.
    """
    for entry in entries:
        group = entry.group
        if group is None or not planned.groups.made(group):
            continue
        _meet(planned, entry, "suspend")
        suspended = [group, entry.host]
        released = [_called(backend, "suspend") for backend in _backends(*suspended)]
        if not any(released):
            for each in suspended:
                if each is not None and planned.groups.made(each):
                    planned.groups.table.drop(each)
            suspended[:] = None, None
            planned.device_meshes.clear()
        for other in planned.all_entries():
            if other.group is group:
                other.suspended, other.group, other.host = suspended, None, None


def resume(planned: PlanGroups, entries: Iterable[Entry]) -> None:
    """Gives the groups of these entries back what `suspend` released. Every rank of the groups calls it."""
    for entry in entries:
        suspended = entry.suspended
        if suspended is None:
            continue
        for backend in _backends(*suspended):
            _called(backend, "resume")
        for other in planned.all_entries():
            if other.suspended is suspended:
                other.suspended, (other.group, other.host) = None, suspended
                if other.group is None:
                    planned.connect_one(other, entry.label)
        _meet(planned, entry, "resume")


def warm_up(planned: PlanGroups, entries: Iterable[Entry]) -> None:
    """Makes the groups of these entries, and sums one element on each, which connects what connects at first use."""
    for entry in entries:
        if entry.ranks is None:
            continue
        if len(entry.ranks) == 1:
            planned.alone(entry)
        planned.make([entry])
        for group in (entry.group, entry.host):
            warm_up_group(group)


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


def _meet(planned: PlanGroups, entry: Entry, what: str) -> None:
    assert entry.ranks is not None
    planned.groups.meet(what, entry.label, entry.ranks, entry.options.timeout, planned.meshes[entry.mesh].where)
