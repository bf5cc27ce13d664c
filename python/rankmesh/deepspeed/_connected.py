"""What DeepSpeed's modules that make groups have in common: the groups of one rank, torch's or without a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from rankmesh import Group
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""

T = TypeVar("T")


class Connected:
    """Groups of one rank by name, which torch.distributed makes where no `rank` and `world_size` are given."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        self._given = rank, world_size
        self._live: dict[str, NamedGroups] = {}
        self.destroy()

    def destroy(self) -> None:
        """Forgets every group, as in a process that starts; torch's are ended."""
        for live in set(self._live.values()):
            live.destroy()
        self._live.clear()

    def _rank(self) -> tuple[int, int]:
        return world_of("deepspeed.groups", *self._given)

    def _is_live(self) -> bool:
        return self._given == (None, None) and of_torch() is not None

    def _connect(self, said: str, make: Callable[[], T], groups: Callable[[T], dict[str, Group]]) -> T:
        """What `make` gives; in torch.distributed once all ranks have said the same and have made these groups."""
        if not self._is_live():
            return make()
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        said = f"deepspeed: {said}"
        with errors_reach_peers(said):
            made = make()
            wanted = groups(made)
        live = NamedGroups(said, [Named(*each) for each in wanted.items()])
        self._live.update(dict.fromkeys(wanted, live))
        return made

    def _handle(self, name: str, group: Group) -> Handle:
        """What a getter gives for the group of this name."""
        return self._live[name][name] if name in self._live else group


def size_of(group: Handle) -> int:
    """The number of ranks of a group."""
    return len(group) if isinstance(group, Group) else int(group.size())


def place_in(group: Handle, rank: int) -> int:
    """The place of this rank in a group."""
    return group.index(rank) if isinstance(group, Group) else int(group.rank())
