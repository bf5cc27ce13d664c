"""Groups of one rank that modules of DeepSpeed and AReaL make one after the other, torch's or without a process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

from rankmesh import Group
from rankmesh._originals import original
from rankmesh._world import of_torch, world_of

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""

P = ParamSpec("P")
T = TypeVar("T")


def size_of(group: Handle) -> int:
    """The number of ranks of a group, 1 without one."""
    if group is None:
        return 1
    return len(group) if isinstance(group, Group) else int(group.size())


def place_in(group: Handle, rank: int) -> int:
    """The place of this rank in a group, 0 without one."""
    if group is None:
        return 0
    return group.index(rank) if isinstance(group, Group) else int(group.rank())


def of_mpu(mpu: Any, *names: str) -> int | None:
    """What the first of these methods that a client's mpu has returns, None where there is none."""
    return next((int(getattr(mpu, name)()) for name in names if hasattr(mpu, name)), None)


def group_named(name: str, what: str, doc: str) -> Callable[[Any], Handle]:
    """A method of a class of groups: the group of this name; AssertionError that says `what` before it is made."""

    def ask(asked: Connected) -> Handle:
        return asked._group(name, what)

    ask.__doc__ = doc
    return ask


def size_in(of: Callable[P, Handle], doc: str) -> Callable[P, int]:
    """A method of a class of groups: the size of the group that its method `of` gives."""

    def ask(*args: P.args, **kwargs: P.kwargs) -> int:
        return size_of(of(*args, **kwargs))

    return _described(ask, of, doc)


def rank_in(of: Callable[P, Handle], doc: str) -> Callable[P, int]:
    """A method of a class of groups: this rank's place in the group that its method `of` gives."""

    def ask(*args: P.args, **kwargs: P.kwargs) -> int:
        asked: Any = args[0]
        return place_in(of(*args, **kwargs), asked._rank()[0])

    return _described(ask, of, doc)


def _described(ask: Callable[P, int], of: Callable[P, Handle], doc: str) -> Callable[P, int]:
    ask.__doc__ = doc
    ask.__signature__ = inspect.signature(of).replace(return_annotation="int")  # type: ignore[attr-defined]
    return ask


class OfGroups:
    """A class of groups, which gives the methods of `size_in` and `rank_in` their names."""

    def __init_subclass__(cls) -> None:
        for name, method in vars(cls).items():
            if getattr(method, "__name__", name) == "ask":
                method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"


class Connected(OfGroups):
    """Groups of one rank by name, which torch.distributed makes where no `rank` and `world_size` are given."""

    framework = "deepspeed"

    def __init__(
        self, what: str = "deepspeed.groups", *, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self._what = what
        self._given = rank, world_size
        self._ranks: dict[str, Group] = {}
        self._live: dict[str, Any] = {}  # what has the group of that name
        self.destroy()

    def destroy(self) -> None:
        """Forgets every group, as in a process that starts; torch's are ended."""
        for live in set(self._live.values()):
            live.destroy()
        self._live.clear()
        self._ranks.clear()

    def _rank(self) -> tuple[int, int]:
        return world_of(self._what, *self._given)

    def _is_live(self) -> bool:
        return self._given == (None, None) and of_torch() is not None

    def _connect(self, said: str, make: Callable[[], T], groups: Callable[[T], Any] = lambda made: made) -> T:
        """What `make` gives, with its groups by name; in torch.distributed all ranks say the same and make them."""
        if not self._is_live():
            made = make()
            self._ranks.update(groups(made))
            return made
        from rankmesh.torch._named import errors_reach_peers

        said = f"{self.framework}: {said}"
        with errors_reach_peers(said):
            made = make()
            wanted = groups(made)
        self._live.update(dict.fromkeys(wanted, self._of_torch(said, wanted)))
        self._ranks.update(wanted)
        return made

    def _of_torch(self, said: str, wanted: dict[str, Group]) -> Any:
        """Torch's groups by name."""
        from rankmesh.torch._named import Named, NamedGroups

        return NamedGroups(said, [Named(*each) for each in wanted.items()])

    def _find(self, name: str) -> Handle | None:
        """The group of this name as getters give it, None if it is not made."""
        return self._live[name][name] if name in self._live else self._ranks.get(name)

    def _group(self, name: str, what: str) -> Handle:
        """The same; AssertionError if it is not made."""
        if name not in self._ranks:
            raise original(AssertionError, f"{what} is not initialized", "not initialised")
        return self._find(name)
