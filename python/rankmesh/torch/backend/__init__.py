"""The c10d backends of rankmesh.

`rankmesh` moves CPU tensors by rankmesh's engines. `rankmesh+gloo`, `rankmesh+nccl` and so on leave the data to that
backend, and say more when something is wrong.

>>> import rankmesh.torch  # doctest: +SKIP
>>> torch.distributed.init_process_group("cpu:rankmesh,cuda:rankmesh+nccl")  # doctest: +SKIP
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import torch.distributed as dist

from rankmesh.torch._errors import Disagreement, EngineFailure, PeerLost, Timeout
from rankmesh.torch.backend import _batch
from rankmesh.torch.backend._create import create
from rankmesh.torch.backend._process_group import ProcessGroup

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


def register() -> None:
    """Registers the backends with c10d that are not registered yet."""
    torchs, defaults = dist.Backend, dict(dist.Backend.default_device_backend_map)
    others = {name: devices for name, devices in torchs.backend_capability.items() if not name.startswith(NAME)}
    if NAME not in torchs.backend_list:
        _batch.install()
        torchs.register_backend(NAME, functools.partial(create, ""), extended_api=True, devices=["cpu"])
    for name, devices in others.items():
        if f"{NAME}+{name}" not in torchs.backend_list and name != torchs.UNDEFINED:
            make = functools.partial(create, name)
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
