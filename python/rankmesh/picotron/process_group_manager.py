"""picotron's process_group_manager.py: the grid (dp, pp, cp, tp), tp fastest, as one rank sees it."""

from __future__ import annotations

import os

from rankmesh._dialects import picotron
from rankmesh._originals import DialectError, raises
from rankmesh._world import world_of


def _kind(error: DialectError) -> type[Exception]:
    if error.fault == "sizes":
        return AssertionError if str(error).startswith("World size") else RuntimeError
    return ValueError


class ProcessGroupManager(picotron.Manager):
    """What picotron's manager knows of one rank, under its names.

    `rank` and `world_size` say whose, without a process; the groups are then those of its ranks.

    >>> str(ProcessGroupManager(tp_size=2, cp_size=1, pp_size=2, dp_size=1, rank=3, world_size=4))
    'TP(2)-CP(1)-PP(2)-DP(1)-Rank(3)'
    """

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
        rank, world_size = world_of("ProcessGroupManager", rank, world_size)
        given = os.environ.get("LOCAL_RANK")
        local_rank = None if given is None else int(given)
        super().__init__(tp_size, cp_size, pp_size, dp_size, rank, world_size, local_rank)


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
