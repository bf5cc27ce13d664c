"""The groups of one rank in the modules of DeepSpeed and AReaL: torch's groups, or ranks without a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rankmesh import Group
from rankmesh._originals import original
from rankmesh._world import of_torch, world_of

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""

T = TypeVar("T")


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


def of_mpu(mpu: Any, *names: str) -> int | None:
    """Calls the first of these methods that a client's mpu has and returns its result; None if it has none."""
    return next((int(getattr(mpu, name)()) for name in names if hasattr(mpu, name)), None)


def group_methods(
    group: Callable[[Any], T], doc: str
) -> tuple[Callable[[Any], T], Callable[[Any], int], Callable[[Any], int]]:
    """Makes three methods. They return what `group` returns, a group or None, its size, and this rank's group rank."""

    def ask(self: Any) -> T:
        return group(self)

    def size(self: Any) -> int:
        return size_of(group(self))

    def rank(self: Any) -> int:
        return place_in(group(self), self._rank()[0])

    ask.__doc__, size.__doc__, rank.__doc__ = doc, "The number of these ranks.", "This rank's place among them."
    size.__name__ = rank.__name__ = ask.__name__
    return ask, size, rank


class OfGroups:
    """Base class of groups; it names the methods of `group_methods`."""

    def __init_subclass__(cls) -> None:
        for name, method in vars(cls).items():
            if getattr(method, "__name__", name) == "ask":
                method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"


class Connected(OfGroups):
    """Groups of one rank by name. torch.distributed makes them unless `rank` and `world_size` are given."""

    framework = "deepspeed"

    def __init__(
        self, what: str = "deepspeed.groups", *, rank: int | None = None, world_size: int | None = None
    ) -> None:
        self._what = what
        self._given = rank, world_size
        self._ranks: dict[str, Group] = {}
        self._live: dict[str, Any] = {}  # the object that has the group of that name
        self.destroy()

    def destroy(self) -> None:
        """Forgets all groups, as in a new process, and destroys torch's groups."""
        for live in set(self._live.values()):
            live.destroy()
        self._live.clear()
        self._ranks.clear()

    def _rank(self) -> tuple[int, int]:
        return world_of(self._what, *self._given)

    def _is_live(self) -> bool:
        return self._given == (None, None) and of_torch() is not None

    def _connect(self, said: str, make: Callable[[], T], groups: Callable[[T], Any] = lambda made: made) -> T:
        """Returns the result of `make` and its groups by name. With torch.distributed all ranks call it with equal
        arguments."""
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
        """Returns the group of this name as getters return it; None if it does not exist."""
        return self._live[name][name] if name in self._live else self._ranks.get(name)

    def _group(self, name: str, what: str) -> Handle:
        """Like `_find`, but raises AssertionError if the group does not exist."""
        if name not in self._ranks:
            raise original(AssertionError, f"{what} is not initialized", "not initialised")
        return self._find(name)
