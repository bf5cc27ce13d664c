"""picotron's process_group_manager.py: the grid (dp, pp, cp, tp), tp fastest, as one rank sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rankmesh._dialects import picotron
from rankmesh._originals import DialectError, raises
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh import Group
    from rankmesh.torch._named import NamedGroups


def _kind(error: DialectError) -> type[Exception]:
    if error.fault == "sizes":
        return AssertionError if str(error).startswith("World size") else RuntimeError
    return ValueError


_GROUPS = ("tp_group", "cp_group", "pp_group", "dp_group", "cp_dp_group", "pp_dp_group")


def _group(name: str) -> property:
    def get(manager: ProcessGroupManager) -> Any:
        if manager._live is not None:
            return manager._live[name]
        return getattr(super(ProcessGroupManager, manager), name)

    return property(get, doc=f"The original's {name}: torch's, or the ranks of a manager without a process.")


class ProcessGroupManager(picotron.Manager):
    """What picotron's manager knows of one rank, under its names.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes. With them it is that rank's, without a process; its groups are then those of its ranks.

    >>> str(ProcessGroupManager(tp_size=2, cp_size=1, pp_size=2, dp_size=1, rank=3, world_size=4))
    'TP(2)-CP(1)-PP(2)-DP(1)-Rank(3)'
    """

    _live: NamedGroups | None = None

    @raises(_kind)
    def __init__(
        self,
        tp_size: int,
        cp_size: int,
        pp_size: int,
        dp_size: int,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        live = rank is None and world_size is None and of_torch() is not None
        rank, world_size = world_of("ProcessGroupManager", rank, world_size)
        given = os.environ.get("LOCAL_RANK")
        local_rank = None if given is None else int(given)
        if not live:
            super().__init__(tp_size, cp_size, pp_size, dp_size, rank, world_size, local_rank)
            return
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        said = f"picotron: {tp_size=}, {cp_size=}, {pp_size=}, {dp_size=}"
        with errors_reach_peers(said):
            super().__init__(tp_size, cp_size, pp_size, dp_size, rank, world_size, local_rank)
        ranks: list[tuple[str, Group]] = [(name, getattr(self, name)) for name in _GROUPS]
        self._live = NamedGroups(said, [Named(*each) for each in ranks])

    tp_group = _group("tp_group")
    cp_group = _group("cp_group")
    pp_group = _group("pp_group")
    dp_group = _group("dp_group")
    cp_dp_group = _group("cp_dp_group")
    pp_dp_group = _group("pp_dp_group")

    @property
    def world_group(self) -> Any:
        """All ranks."""
        if self._live is None:
            return super().world_group
        import torch.distributed

        return torch.distributed.group.WORLD


process_group_manager: ProcessGroupManager
"""The manager that `setup_process_group_manager` has made last; not there before."""


def setup_process_group_manager(
    tp_size: int,
    cp_size: int,
    pp_size: int,
    dp_size: int,
    *,
    rank: int | None = None,
    world_size: int | None = None,
) -> None:
    """Makes this process's manager, the variable `process_group_manager` of this module."""
    global process_group_manager
    process_group_manager = ProcessGroupManager(tp_size, cp_size, pp_size, dp_size, rank=rank, world_size=world_size)
