"""What c10d calls to make a process group of the backend."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.distributed import distributed_c10d as c10d

from rankmesh.torch.backend._engine import Engine, start
from rankmesh.torch.backend._process_group import ProcessGroup

_connected: list[Engine] = []


@contextlib.contextmanager
def on(engine: Engine) -> Iterator[None]:
    """A context in which the default group takes this engine instead of starting one."""
    _connected.append(engine)
    try:
        yield
    finally:
        _connected.clear()


def create(options: Any, pg_options: object) -> ProcessGroup:
    """Makes the process group of c10d's options: of the default group, or of some of its ranks."""
    ranks, timeout = options.global_ranks_in_group, options.timeout
    default = c10d.GroupMember.WORLD if ranks else None
    if isinstance(default, ProcessGroup):
        engine, owns = default.engine, False
        group = engine.group(ranks, options.group_id, timeout)
    else:
        engine, owns = _connected.pop() if _connected else _started(options), True
        group = engine.whole()
    return ProcessGroup(options, engine, group, owns_engine=owns)


def _started(options: Any) -> Engine:
    return start(options.store, options.group_rank, options.group_size, options.timeout)
