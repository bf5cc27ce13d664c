"""What the modules of frameworks that are described by rows are made of."""

from __future__ import annotations

import builtins
import functools
import os
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from rankmesh._core import Group
from rankmesh._dialects import rows as _native
from rankmesh._errors import UsageError
from rankmesh._originals import DialectError, original
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups

T = TypeVar("T")


class GroupCoordinator:
    """A group of this rank under the names of vLLM's and SGLang's class of that name."""

    rank: int
    """This rank in the world."""
    ranks: list[int]
    """The group's ranks in the world."""
    local_rank: int
    """This process on its host: LOCAL_RANK, else `rank`."""
    rank_in_group: int
    world_size: int
    """The size of the group."""

    def __init__(self, rank: int, ranks: Group, device: Any = None, host: Any = None) -> None:
        self.rank = rank
        self.ranks = list(ranks)
        self.world_size = len(self.ranks)
        self.rank_in_group = self.ranks.index(rank)
        self.local_rank = rank if device is None else int(os.environ.get("LOCAL_RANK", rank))
        self._device, self._host = device, host

    def _live(self, group: Any) -> Any:
        if group is None:
            raise UsageError("a group without a process has ranks only; initialise torch.distributed to have torch's")
        return group

    @property
    def device_group(self) -> Any:
        """torch's group; raises UsageError where there is no process."""
        return self._live(self._device)

    @property
    def cpu_group(self) -> Any:
        """torch's group of the same ranks on the host; raises UsageError where there is no process."""
        return self._live(self._host)

    @property
    def first_rank(self) -> int:
        """The first of the group's ranks."""
        return self.ranks[0]

    @property
    def last_rank(self) -> int:
        """The last of the group's ranks."""
        return self.ranks[-1]

    @property
    def is_first_rank(self) -> bool:
        """True on the first of the group's ranks."""
        return self.rank == self.first_rank

    @property
    def is_last_rank(self) -> bool:
        """True on the last of the group's ranks."""
        return self.rank == self.last_rank

    @property
    def next_rank(self) -> int:
        """The rank after this one, the first after the last."""
        return self.ranks[(self.rank_in_group + 1) % self.world_size]

    @property
    def prev_rank(self) -> int:
        """The rank before this one, the last before the first."""
        return self.ranks[(self.rank_in_group - 1) % self.world_size]

    def __repr__(self) -> str:
        return f"GroupCoordinator(rank={self.rank}, ranks={self.ranks})"


def _shaped(row: dict[str, Any], answer: Any) -> Any:
    """An answer in the type that the framework has for it."""
    return tuple(answer) if row["quantity"] == "size_and_rank" else answer


_rows_of = functools.cache(_native.rows)
"""The rows of a framework, which never change."""

_HANDLES: dict[str, Callable[..., Any]] = {"GroupCoordinator": GroupCoordinator}


class Current:
    """What a framework's module knows in one process: nothing, or its groups of one rank."""

    def __init__(self, framework: str) -> None:
        self._rows = _rows_of(framework)
        self.accessors = {each["name"]: each for each in self._rows["accessors"]}
        self._missing = {kind: missing for kind, _, missing in self._rows["kinds"]}
        self._state: _native.State | None = None
        self._live: NamedGroups | None = None
        self._handles: dict[str, Any] = {}

    def _raising(self, function: Callable[[], T]) -> T:
        """What a function gives; raises the framework's own types for what it refuses."""
        try:
            return function()
        except DialectError as error:
            raise self._error(str(error), error.fault, error.rule) from None

    def _error(self, text: str, fault: str, rule: str = "") -> DialectError:
        raises = self._rows["raises"]
        name = raises.get(fault, raises.get("", "ValueError"))
        return original(getattr(builtins, name), text, fault, rule)

    def _not_initialized(self, kind: str) -> DialectError:
        return self._error(self._missing.get(kind) or "the groups are not initialized", "not initialised")

    def initialize(self, settings: dict[str, Any], rank: int | None, world_size: int | None) -> None:
        """Makes the groups of these settings, torch's where torch.distributed is initialised and no rank is given."""
        if self._state is not None:
            raise self._error(f"the groups of {self._rows['name']} are already initialized", "exists")
        live = rank is None and world_size is None and of_torch() is not None
        if self._rows["is_class"] and rank is None and world_size is None and not live:
            axes = {each["name"]: each["axis"] for each in self._rows["settings"] if each["axis"]}
            products = [axis for each in axes.values() if " " in each for axis in each.split()]
            sizes = [settings.get(name) for name, axis in axes.items() if axis not in products]
            rank, world_size = 0, prod(max(size or 1, 1) for size in sizes)
        rank, world = world_of(self._rows["initialize"], rank, world_size)

        def made() -> _native.State:
            return _native.State(_native.Groups(self._rows["name"], settings, world), rank)

        if not live:
            self._state = self._raising(made)
            return
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        defaults = {each["name"]: each["default"] for each in self._rows["settings"]}
        changed = [f"{name}={value}" for name, value in settings.items() if value != defaults.get(name)]
        said = f"{self._rows['name']}: " + (", ".join(changed) or "no parallelism")
        with errors_reach_peers(said):
            state = self._raising(made)
        groups, wanted = state.groups, []
        for kind in groups.kinds():
            own = groups.of(kind, rank)
            if own is None:
                continue
            apart = groups.is_apart(kind)
            wanted.append(Named(kind, own, apart=apart))
            if self._rows["host"]:
                wanted.append(Named(f"{kind}.{self._rows['host']}", own, "gloo", apart=apart))
        self._live = NamedGroups(said, wanted)
        self._state = state

    def is_initialized(self) -> bool:
        """True if the groups are made."""
        return self._state is not None

    def destroy(self) -> None:
        """Forgets the groups; torch's are ended."""
        if self._live is not None:
            self._live.destroy()
        self._live, self._state = None, None
        self._handles.clear()

    def ask(self, accessor: str, **options: Any) -> Any:
        """The answer of an accessor: a number, or a group as the framework has it."""
        if accessor not in self.accessors:
            raise UsageError(f"{self._rows['name']} has no {accessor}")
        row = self.accessors[accessor]
        if (state := self._state) is None:
            if row["without"] is not None:
                return _shaped(row, row["without"][0])
            raise self._not_initialized(row["kind"])
        if row["quantity"] == "matrix":
            return state.groups.mesh.numpy()
        if row["quantity"] != "group":
            return _shaped(row, self._raising(lambda: state.ask(accessor, options)))
        ranks = self._raising(lambda: state.group(accessor, options))
        return None if ranks is None else self._handle(state.kind(accessor, options), ranks, state.rank)

    def group(self, kind: str) -> Any:
        """This rank's group of a kind as the framework has it: torch's where there is a process, else its ranks."""
        state = self._state
        if state is None:
            raise self._not_initialized(kind)
        ranks = self._raising(lambda: state.groups.of(kind, state.rank))
        return None if ranks is None else self._handle(kind, ranks, state.rank)

    def _handle(self, kind: str, ranks: Group, rank: int) -> Any:
        make = _HANDLES.get(self._rows["handle"])
        if make is None:
            return ranks if self._live is None else self._live[kind]
        if kind not in self._handles:
            host = self._rows["host"]
            live = () if self._live is None else (self._live[kind], self._live[f"{kind}.{host}"])
            self._handles[kind] = make(rank, ranks, *live)
        return self._handles[kind]
