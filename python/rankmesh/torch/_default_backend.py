"""The backend of process groups for which the program names none: rankmesh's, on every device of the machine."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import config as dist_config
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch import _variables
from rankmesh.torch.backend import NAME, register

_torchs: dict[str, Any] = {}
"""What `put` has replaced: torch's function, and its backends of devices."""


def default_backend() -> str:
    """Returns 'cpu:rankmesh', and beside an accelerator 'cpu:rankmesh,cuda:rankmesh+nccl'.

    An accelerator is left out if this PyTorch lacks its backend. With torchcomms, and with RANKMESH_TORCH=off, it is
    torch's default.
    """
    if dist_config.use_torchcomms or _variables.is_off():  # torchcomms has communicators of its own names
        return dist.Backend.UNDEFINED
    register()  # also around backends that came after the import
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    around = _around(device.type) if device is not None else None
    return f"cpu:{NAME}" + (f",{device.type}:{around}" if device is not None and around is not None else "")


def _around(device: str) -> str | None:
    """Returns the backend around torch's default backend of an accelerator; None if there is none."""
    backend = dist.Backend.default_device_backend_map.get(device, "fake").removeprefix(f"{NAME}+")
    return f"{NAME}+{backend}" if backend != "fake" and dist.is_backend_available(backend) else None


def put() -> None:
    """Makes `init_process_group` without a backend, also where a module has imported it, make rankmesh's groups.

    With RANKMESH_TORCH=off it makes torch's instead, also where the program names rankmesh's.
    """
    if _torchs:
        return
    register()
    is_off = _variables.is_off()
    helper, backends = c10d._new_process_group_helper, dist.Backend.default_device_backend_map
    _torchs.update(helper=helper, backends=dict(backends))

    @functools.wraps(helper)
    def ours(size: int, rank: int, ranks: Any, backend: Any, *arguments: Any, **options: Any) -> Any:
        named = default_backend() if backend == dist.Backend.UNDEFINED else backend
        if is_off and named is not None:  # cpu:rankmesh,cuda:rankmesh+nccl becomes cpu:gloo,cuda:nccl
            named = re.sub(r"\brankmesh\b", "gloo", str(named).replace(f"{NAME}+", ""))
        return helper(size, rank, ranks, named, *arguments, **options)

    setattr(c10d, "_new_process_group_helper", ours)  # noqa: B010 (mypy: it is a function)
    if is_off:
        return
    # init_process_group(device_id=...) and get_default_backend_for_device
    around = {device: NAME if device == "cpu" else _around(device) for device in backends}
    backends.update({device: name for device, name in around.items() if name is not None})


def take_back() -> None:
    """Ends `put`."""
    if _torchs:
        setattr(c10d, "_new_process_group_helper", _torchs["helper"])  # noqa: B010
        dist.Backend.default_device_backend_map.update(_torchs["backends"])
        _torchs.clear()
