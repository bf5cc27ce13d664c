"""The c10d backends of rankmesh.

`rankmesh` moves CPU tensors by rankmesh's engines. `rankmesh+gloo`, `rankmesh+nccl` and so on leave the data to that
backend, and say more when something is wrong.

>>> import rankmesh.torch  # doctest: +SKIP
>>> torch.distributed.init_process_group("cpu:rankmesh,cuda:rankmesh+nccl")  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Communicator
from rankmesh.torch import _variables
from rankmesh.torch._errors import Disagreement, EngineFailure, PeerLost, Timeout, errors_of_backend
from rankmesh.torch.backend import _batch, _kernels
from rankmesh.torch.backend._engine_world import EngineWorld, start
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._watched import WatchedGroup

__all__ = [
    "Disagreement",
    "EngineFailure",
    "PeerLost",
    "ProcessGroup",
    "Timeout",
    "locate",
    "register",
]

NAME = "rankmesh"

_connected: list[EngineWorld] = []


def register() -> None:
    """Registers the backends with c10d that are not registered yet."""
    torchs, defaults = dist.Backend, dict(dist.Backend.default_device_backend_map)
    others = {name: devices for name, devices in torchs.backend_capability.items() if not name.startswith(NAME)}
    if NAME not in torchs.backend_list:
        _batch.install()
        torchs.register_backend(NAME, functools.partial(_create, ""), extended_api=True, devices=["cpu"])
    for name, devices in others.items():
        if f"{NAME}+{name}" not in torchs.backend_list and name != torchs.UNDEFINED:
            make = functools.partial(_create, name)
            torchs.register_backend(f"{NAME}+{name}", make, extended_api=True, devices=devices)
    torchs.default_device_backend_map.clear()  # of devices whose own backend comes later
    torchs.default_device_backend_map.update(defaults)


def locate(
    where: Callable[[Iterable[int]], str], mesh: str, ranks: Sequence[int], *, is_placed: bool, replace: bool = True
) -> None:
    """Makes errors of the backend end with the coordinates of the ranks that they name, as `where` writes them.

    Flight records have the `mesh`, and the `ranks` of its positions if it is placed. Without `replace` a mesh that was
    known before stays.
    """
    default = dist.group.WORLD
    if isinstance(default, ProcessGroup) and (replace or default.engine.where is None):
        default.engine.where = where
        default.engine.world._declare(mesh, list(ranks), is_placed)  # type: ignore[attr-defined]


@contextlib.contextmanager
def on(engine: EngineWorld) -> Iterator[None]:
    """A context in which the default group takes this engine instead of starting one."""
    _connected.append(engine)
    try:
        yield
    finally:
        _connected.clear()


@errors_of_backend()
def _create(around: str, options: Any, pg_options: object) -> ProcessGroup:
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
