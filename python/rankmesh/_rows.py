"""The common code of the modules of frameworks that are described by rows."""

from __future__ import annotations

import builtins
import functools
import os
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from rankmesh._core import Group
from rankmesh._errors import UsageError
from rankmesh._frameworks import rows as _native
from rankmesh._originals import FrameworkError, original
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import Named

T = TypeVar("T")


class GroupCoordinator:
    """A group of this rank with the names of the class GroupCoordinator of vLLM and SGLang."""

    rank: int
    """This rank in the world."""
    ranks: list[int]
    """The group's ranks in the world."""
    local_rank: int
    """This process on its host: LOCAL_RANK, else `rank`."""
    rank_in_group: int
    world_size: int
    """The size of the group."""
    first_rank: int
    last_rank: int
    is_first_rank: bool
    is_last_rank: bool
    next_rank: int
    """The next rank of the group; the first follows the last."""
    prev_rank: int
    """The previous rank of the group; the last precedes the first."""

    def __init__(self, rank: int, ranks: Group, device: Any = None, host: Any = None) -> None:
        self.rank = rank
        self.ranks = list(ranks)
        self.world_size = len(self.ranks)
        self.rank_in_group = place = self.ranks.index(rank)
        self.first_rank, self.last_rank = self.ranks[0], self.ranks[-1]
        self.is_first_rank, self.is_last_rank = place == 0, place == self.world_size - 1
        self.next_rank, self.prev_rank = self.ranks[(place + 1) % self.world_size], self.ranks[place - 1]
        self.local_rank = rank if device is None else int(os.environ.get("LOCAL_RANK", rank))
        self._device, self._host = device, host

    def _live(self, group: Any) -> Any:
        if group is None:
            raise UsageError("a group without a process has ranks only; initialise torch.distributed to have torch's")
        return group

    @property
    def device_group(self) -> Any:
        """torch's group. Raises UsageError without a process."""
        return self._live(self._device)

    @property
    def cpu_group(self) -> Any:
        """torch's group of the same ranks on the host. Raises UsageError without a process."""
        return self._live(self._host)

    def __repr__(self) -> str:
        return f"GroupCoordinator(rank={self.rank}, ranks={self.ranks})"


_rows_of = functools.cache(_native.rows)
"""The rows of a framework, which never change."""


@functools.cache
def _accessors_of(framework: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in _rows_of(framework)["accessors"]}


class Current:
    """The state of a framework's module in one process: empty, or the groups of one rank."""

    def __init__(self, framework: str, rank: int | None = None, world_size: int | None = None) -> None:
        self._rows = _rows_of(framework)
        self.accessors = _accessors_of(framework)
        self._missing = {kind: missing for kind, _, missing, *_ in self._rows["kinds"]}
        self._state = _native.State(framework)
        self._live: Any = None  # torch's groups by kind
        self._handles: dict[str, Any] = {}
        self._settings: dict[str, Any] = {}
        self._world: tuple[int, int] | None = None
        self._of_rank = rank is not None or world_size is not None
        if self._of_rank:
            self._enter(*world_of(type(self).__name__, rank, world_size))

    def _is_given(self, rank: int | None, world_size: int | None) -> bool:
        """Returns True if the rank is given, here or to the constructor: then no groups of torch are made."""
        return self._of_rank or rank is not None or world_size is not None

    @property
    def rank(self) -> int | None:
        """The rank whose groups these are; None before initialisation."""
        return self._world[0] if self._world else None

    @property
    def world_size(self) -> int | None:
        """The size of the world; None before initialisation."""
        return self._world[1] if self._world else None

    def _known_world(
        self, asked: str, missing: type[Exception] | None, rank: int | None, world_size: int | None
    ) -> tuple[int, int]:
        """Returns the given world, else torch's, else the world that was entered before; raises `missing` without."""
        if rank is None and world_size is None and self._world is not None and (self._of_rank or of_torch() is None):
            return self._world
        try:
            return self._enter(*world_of(asked, rank, world_size))
        except FrameworkError:
            raise
        except UsageError as error:
            if missing is None:
                raise
            raise original(missing, str(error), "not initialised") from None

    def _raising(self, function: Callable[[], T], kind: str = "", **cases: str) -> T:
        """Returns the result of a function. Errors become the framework's types, or the given type; `cases` says what
        the rows call some faults here."""
        try:
            return function()
        except FrameworkError as error:
            kind = kind or self._rows["raises"].get(cases.get(error.fault.replace(" ", "_")), "")
            raise self._error(str(error), error.fault, error.rule, kind) from None

    def _error(self, text: str, fault: str, rule: str = "", kind: str = "") -> FrameworkError:
        raises = self._rows["raises"]
        name = kind or (rule and raises.get(rule)) or raises.get(fault) or raises.get("", "ValueError")
        return original(getattr(builtins, name), text, fault, rule)

    def __repr__(self) -> str:
        state = self._state
        said = f"rank {state.rank} of {state.groups.mesh}" if state.is_initialized() else "no groups yet"
        return f"<{self._rows['name']} {type(self).__name__}: {said}>"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not self._rows["by_value"]:
            return self is other
        return (self._world, self._settings) == (other._world, other._settings)

    def __hash__(self) -> int:
        if self._rows["by_value"]:
            raise TypeError(f"unhashable type: {type(self).__name__!r}")
        return id(self)

    @property
    def groups(self) -> _native.Groups:
        """All groups of the world by kind, in the order in which the original creates them."""
        return self._raising(lambda: self._state.groups)

    def _enter(self, rank: int, world_size: int) -> tuple[int, int]:
        if self._world != (rank, world_size):
            self._raising(lambda: self._state.enter(rank, world_size), out_of_range="no such rank")
        self._world = (rank, world_size)
        return self._world

    def ensure(self, settings: dict[str, Any]) -> None:
        """Creates the groups of these settings unless they exist. Raises if they exist with other settings."""
        if not self.is_initialized():
            self.initialize(settings)
        for name, value in self._settings.items():
            if settings[name] != value:
                text = f"the groups exist with {name}={value!r}, not {settings[name]!r}; destroy_model_parallel() first"
                raise self._error(text, "exists")

    def initialize(self, settings: dict[str, Any]) -> None:
        """Creates the groups of these settings: torch's in torch.distributed, unless `rank` is one of the settings.

        `backend` of them is the backend of torch's groups.
        """
        settings = {name: value for name, value in settings.items() if name != "self"}
        backend, rank, world_size = (settings.pop(name, None) for name in ("backend", "rank", "world_size"))
        if rank is None and (torch := of_torch()) is not None and world_size == torch[1]:
            world_size = None  # torch's own world
        live = not self._is_given(rank, world_size) and of_torch() is not None
        axes = {each["name"]: each["axis"] for each in self._rows["settings"] if each["axis"]}
        is_class = self._rows["is_class"] and axes and "no world" not in self._rows["raises"]
        if is_class and rank is None and not self._of_rank and of_torch() is None:
            products = [axis for each in axes.values() if " " in each for axis in each.split()]
            sizes = [settings.get(name) for name, axis in axes.items() if axis not in products]
            rank, world_size = 0, world_size or prod(max(size or 1, 1) for size in sizes)

        def make() -> list[str]:
            missing = self._rows["raises"].get("no world")
            kind_of = missing and getattr(builtins, missing)
            place = self._known_world(self._rows["initialize"], kind_of, rank, world_size)
            self._begin(settings, place, live)
            return self._state.groups.kinds()

        if live and not self.is_initialized():  # else it raises
            try:
                self._live = self._torch_groups(self._said(settings, backend), make, backend)
            except BaseException:
                self.destroy()
                raise
        else:
            make()

    def _begin(self, settings: dict[str, Any], place: tuple[int, int], live: bool) -> None:
        """Makes the groups of these settings on a rank of a world, without those of torch if `live`."""
        sizes = [settings.get(each["name"]) for each in self._rows["settings"] if each["axis"]]
        cases = {"sizes": "a size of 0"} if 0 in sizes else {}
        self._raising(lambda: self._state.initialize(settings), **cases)
        self._settings = settings

    def _said(self, settings: dict[str, Any], backend: str | None) -> str:
        """Returns what all ranks must say: the settings that are not the defaults."""
        defaults = {each["name"]: each["default"] for each in self._rows["settings"]}
        needed = {each["name"] for each in self._rows["settings"] if each["needed"]}
        changed = [f"{name}={it}" for name, it in settings.items() if name in needed or it != defaults.get(name)]
        if backend is not None:
            changed.append(f"{backend=}")
        return f"{self._rows['name']}: " + (", ".join(changed) or "no parallelism")

    def _torch_groups(self, said: str, make: Callable[[], list[str]], backend: str | None = None) -> Any:
        """Returns torch's groups by kind, of the kinds that `make` returns, after all ranks have said the same."""
        from rankmesh.torch._named import Named, errors_reach_peers

        with errors_reach_peers(said):
            kinds = make()
        groups, wanted = self._state.groups, []
        for kind in kinds:
            own = groups.of(kind, self._state.rank)
            if own is None:
                continue
            apart, own = groups.is_apart(kind), Group(sorted(own)) if groups.is_rising(kind) else own
            wanted.append(Named(kind, own, "gloo" if groups.is_on_host(kind) else backend, apart=apart))
            if self._rows["handle"]:
                wanted.append(Named(f"{kind}.cpu_group", own, "gloo", apart=apart))
        return self._of_torch(said, wanted)

    def _of_torch(self, said: str, wanted: list[Named]) -> Any:
        from rankmesh.torch._named import NamedGroups

        return NamedGroups(said, wanted)

    def is_initialized(self) -> bool:
        """Returns True if the groups exist."""
        return self._state.is_initialized()

    def destroy(self) -> None:
        """Forgets the groups and destroys torch's groups."""
        if self._live is not None:
            self._live.destroy()
        self._live = None
        self._handles.clear()
        self._state.destroy()

    def ask(self, accessor: str, **options: Any) -> Any:
        """Returns the answer of an accessor: a number, or a group in the framework's type."""
        if accessor not in self.accessors:
            _native.require(self._rows["name"], accessor)
        row, state = self.accessors[accessor], self._state
        quantity = row["quantity"]
        if quantity in ("matrix", "mesh"):
            mesh = self.groups.mesh
            return mesh if quantity == "mesh" else mesh.numpy()
        call: Any = {"action": state.set, "group": state.group}.get(quantity, state.ask)
        answer = self._raising(lambda: call(accessor, options), row["raises"])
        if quantity == "group" and answer is not None:
            return self._handle(state.kind(accessor, options), answer, state.rank)
        if quantity == "group_list" and answer is not None:
            return [self.group(kind) for kind in answer]
        return tuple(answer) if quantity == "size_and_rank" else answer

    def variable(self, name: str) -> Any:
        """Returns the framework's variable of that name: a group or an accessor's answer; None before
        initialisation."""
        if name not in self._missing and name not in self.accessors:
            raise AttributeError(f"module {self._rows['original']!r} has no attribute {name!r}")
        try:
            return self.group(name) if name in self._missing else self.ask(name)
        except FrameworkError as error:
            if error.rule or error.fault not in ("not initialised", "not a member"):
                raise
            return None

    def group(self, kind: str) -> Any:
        """Returns this rank's group of a kind: torch's group if there is a process, else its ranks."""
        state = self._state
        if not state.is_initialized():
            raise self._error(self._missing.get(kind) or "the groups are not initialized", "not initialised")
        ranks = self._raising(lambda: state.groups.of(kind, state.rank))
        return None if ranks is None else self._handle(kind, ranks, state.rank)

    def _handle(self, kind: str, ranks: Group, rank: int) -> Any:
        if kind == "*" and self._live is not None:
            import torch.distributed

            return torch.distributed.group.WORLD
        if kind == "*":
            return ranks
        if self._live is None and self._state.groups.is_rising(kind):
            ranks = Group(sorted(ranks))
        if self._rows["handle"] != GroupCoordinator.__name__:
            return ranks if self._live is None else self._live[kind]
        if kind not in self._handles:
            live = () if self._live is None else (self._live[kind], self._live[f"{kind}.cpu_group"])
            self._handles[kind] = GroupCoordinator(rank, ranks, *live)
        return self._handles[kind]
