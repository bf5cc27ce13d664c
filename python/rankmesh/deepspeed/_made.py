"""The groups that the functions of DeepSpeed make one after the other. By hand: each function makes groups of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rankmesh import Group
from rankmesh._errors import UsageError
from rankmesh._rows import Current
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import Named, NamedGroups

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""


def size_of(group: Handle) -> int:
    """Returns the number of ranks of a group; 1 without a group."""
    if group is None:
        return 1
    return len(group) if isinstance(group, Group) else int(group.size())


def place_in(group: Handle, rank: int) -> int:
    """Returns this rank's group rank; 0 without a group."""
    if group is None:
        return 0
    return group.index(rank) if isinstance(group, Group) else int(group.rank())


class _Live(dict[str, "NamedGroups"]):
    """Torch's group of each kind; the kinds are made one after the other."""

    def __getitem__(self, kind: str) -> Any:
        return super().__getitem__(kind)[kind]

    def destroy(self) -> None:
        for live in set(self.values()):
            live.destroy()


class Made(Current):
    """The groups of one rank that the accessors of the rows make one after the other."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        super().__init__("deepspeed_groups")
        self._given = rank, world_size
        self.destroy()

    def _rank(self) -> tuple[int, int]:
        return world_of("deepspeed.groups", *self._given)

    def _known(self) -> None:
        """Makes the state that of a rank of the world."""
        state, world = self._state, self._rank()
        if state.is_initialized() and not state.groups.kinds() and (state.rank, state.groups.world_size) != world:
            state.destroy()  # a question entered it in another world
        if not state.is_initialized():
            state.enter(*world)
        if self._live is None and self._given == (None, None) and of_torch() is not None:
            self._live = _Live()

    def _kinds(self) -> list[str]:
        """The kinds of the groups that are there."""
        return self._state.groups.kinds() if self._state.is_initialized() else []

    def _make(self, accessor: str, check: Callable[[], None] | None = None, **options: Any) -> None:
        """Makes the groups of an accessor; of expert groups that are there only its refusals are left."""
        self._known()
        before, there = self._state, f"ep_size_{options.get('expert_parallel_size_')}_expert" in self._kinds()
        self._state = before.copy()

        def make() -> list[str]:
            kinds: list[str] = self._raising(lambda: self._state.set(accessor, options))
            if check:
                check()
            return kinds

        try:
            if self._live is None or there:
                make()
            else:
                said = ", ".join(f"{name}={value!r}" for name, value in options.items())
                self._live = self._torch_groups(f"deepspeed: {accessor}({said})", make)
        except BaseException:
            self._state = before
            raise

    def _of_torch(self, said: str, wanted: list[Named]) -> _Live:
        live = super()._of_torch(said, wanted)
        return _Live(self._live | dict.fromkeys((each.name for each in wanted), live))

    def _ask(self, accessor: str, **options: Any) -> Any:
        if self.accessors[accessor]["adds"]:
            return self._make(accessor, **options)
        with contextlib.suppress(UsageError):  # of no world: the original's error follows
            self._known()
        return self.ask(accessor, **options)

    def _find(self, kind: str) -> Handle | None:
        """This rank's group of a kind; None where there are none."""
        return self.group(kind) if kind in self._kinds() else None
