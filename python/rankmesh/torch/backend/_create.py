"""What c10d calls to make a process group of the backend."""

from __future__ import annotations

from typing import Any

from torch.distributed import distributed_c10d as c10d

from rankmesh.torch.backend._engine import start
from rankmesh.torch.backend._process_group import ProcessGroup


def create(options: Any, pg_options: object) -> ProcessGroup:
    """Makes the process group of c10d's options: of the default group, or of some of its ranks."""
    ranks, timeout = options.global_ranks_in_group, options.timeout
    default = c10d.GroupMember.WORLD if ranks else None
    if isinstance(default, ProcessGroup):
        engine, owns = default.engine, False
        on = engine.group(ranks, _label(options.group_id), timeout)
    else:
        engine, owns = start(options.store, options.group_rank, options.group_size, timeout), True
        on = engine.whole()
    return ProcessGroup(options, engine, on, owns_engine=owns)


def _label(name: str) -> str:
    """The name of a group in errors: what `rankmesh.torch.init` declared, else what torch calls it."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and parts[0].startswith("rankmesh") else name
