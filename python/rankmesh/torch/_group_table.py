"""Process groups of this rank by their ranks and options: equal ones are created once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import torch.distributed as dist

from rankmesh.torch import _groups
from rankmesh.torch._compat import tables
from rankmesh.torch._plan import Options


class GroupTable:
    """Process groups that this rank has created and that nobody has destroyed."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[dist.ProcessGroup | None, Options]] = {}  # keeps the options, and so their ids

    def get(
        self, ranks: Hashable, options: Options, make: Callable[[], dist.ProcessGroup | None]
    ) -> dist.ProcessGroup | None:
        """Returns the group of these ranks with equal options, which `make` creates at the first call."""
        key = ranks, *options.key
        group, _ = self._made.get(key, (None, options))
        if key not in self._made or (group is not None and group not in tables.pg_names):
            group, _ = self._made[key] = make(), options
        return group

    def put(self, ranks: Hashable, options: Options, group: dist.ProcessGroup) -> None:
        """Adds a group unless there is an equal one."""
        self._made.setdefault((ranks, *options.key), (group, options))

    def __iter__(self) -> Iterator[dist.ProcessGroup]:
        """The groups, each once, in the order of their creation."""
        return iter({id(group): group for group, _ in self._made.values() if group is not None}.values())

    def drop(self, group: dist.ProcessGroup) -> None:
        """Destroys a group. All its ranks call it."""
        self._made = {key: made for key, made in self._made.items() if made[0] is not group}
        dist.destroy_process_group(group)
        _groups.refuse_calls(group)
