"""What c10d calls to make a process group of the backend."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Communicator
from rankmesh.torch import _variables
from rankmesh.torch._errors import errors_of_backend
from rankmesh.torch.backend import _kernels
from rankmesh.torch.backend._engine_world import EngineWorld, start
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._watched import WatchedGroup

_connected: list[EngineWorld] = []


@contextlib.contextmanager
def on(engine: EngineWorld) -> Iterator[None]:
    """A context in which the default group takes this engine instead of starting one."""
    _connected.append(engine)
    try:
        yield
    finally:
        _connected.clear()


@errors_of_backend()
def create(around: str, options: Any, pg_options: object) -> ProcessGroup:
    """Makes the process group of c10d's options on rankmesh; `around` another backend if that is not empty."""
    name = f"rankmesh+{around}" if around else "rankmesh"
    _variables.tell_unused(name, options.group_rank, options.group_size)
    engine, on, owns = _communicator(options, checked=False if around else None)
    if around:
        return WatchedGroup(options, engine, on, owns_engine=owns, backend=around)
    return ProcessGroup(options, engine, on, owns_engine=owns)


def _communicator(options: Any, checked: bool | None) -> tuple[EngineWorld, Communicator, bool]:
    """The engine of a group, its communicator, and whether the group owns the engine: others use its parent's."""
    if options.timeout == c10d.default_pg_timeout:  # the program sets none
        options.timeout = _variables.timeout() or options.timeout
    _kernels.install()
    ranks, timeout = options.global_ranks_in_group, options.timeout
    default = c10d.GroupMember.WORLD
    if isinstance(default, ProcessGroup):  # also where it makes the group of another device
        ranks = ranks or range(options.group_size)
        return default.engine, default.engine.group(ranks, _label(options.group_id), timeout), False
    if _connected:
        engine = _connected.pop()
    else:
        engine = start(options.store, options.group_rank, options.group_size, timeout, checked)
    return engine, engine.whole(), True


def _label(name: str) -> str:
    """The name of a group in errors: what `rankmesh.torch.init` declared, else what torch calls it."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and parts[0].startswith("rankmesh") else name
