"""The process group of `cpu:rankmesh,cuda:nccl`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Communicator
from rankmesh.torch.backend._engine import Engine
from rankmesh.torch.backend._inner import CALLS, Coalescing, destroy, inner_group
from rankmesh.torch.backend._process_group import ProcessGroup


class MixedGroup(Coalescing, ProcessGroup):
    """The process group of `rankmesh`: it moves CPU tensors; the backend that torch was given for another device
    moves that device's tensors, and is made at their first call."""

    def __init__(self, options: Any, engine: Engine, on: Communicator, *, owns_engine: bool) -> None:
        super().__init__(options, engine, on, owns_engine=owns_engine)
        self._options: Any = options
        self._inner: dict[str, dist.ProcessGroup] = {}

    def _backends(self) -> dict[str, str]:
        """The backends of the devices, as in `cpu:rankmesh,cuda:nccl`."""
        config = c10d._world.pg_backend_config.get(self, "cpu:rankmesh")
        return {device: backend for device, _, backend in (each.partition(":") for each in config.split(","))}

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(device) for device in self._backends()]

    def _get_backend(self, device: torch.device) -> Any:
        # While torch makes the group, it asks whether a device's backend can split: this group cannot.
        is_made = self in c10d._world.pg_backend_config
        return self.inner(device)._get_backend(device) if is_made and device.type != "cpu" else self

    @property
    def made(self) -> list[Any]:
        """The backends that exist: that of the CPU, and those of devices that have had a call."""
        return [self, *(group._get_backend(torch.device(device)) for device, group in self._inner.items())]

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of the group's calls, also on the backends of other devices."""
        super().set_timeout(timeout)
        self._options.timeout = timeout  # of backends that are made later
        for inner in self._inner.values():
            inner.set_timeout(timeout)

    def inner(self, device: torch.device) -> dist.ProcessGroup:
        """Returns the process group that moves tensors of a device other than the CPU; makes it at the first call."""
        if device.type not in self._inner:
            backend = self._backends().get(device.type)
            if backend is None:
                raise RuntimeError(f"No backend type associated with device type {device.type}")  # torch's text
            self._inner[device.type] = inner_group(self._options, f"{device.type}:{backend}")
        return self._inner[device.type]

    def _end(self, *, aborted: bool) -> None:
        for inner in self._inner.values():
            destroy(inner)
        self._inner.clear()
        self._options = None  # which hold torch's store
        super()._end(aborted=aborted)


def _carried(name: str) -> Callable[..., Work | None]:
    on_cpu = getattr(ProcessGroup, name)

    @functools.wraps(on_cpu)
    def call(self: MixedGroup, *arguments: Any, **options: Any) -> Work | None:
        device = _device_of(arguments)
        if device is None:
            return on_cpu(self, *arguments, **options)  # type: ignore[no-any-return]
        return getattr(self.inner(device), name)(*arguments, **options)  # type: ignore[no-any-return]

    return call


def _device_of(arguments: Iterable[Any]) -> torch.device | None:
    """The device of the first tensor; None for the CPU, and without tensors."""
    for each in arguments:
        if isinstance(each, torch.Tensor):
            return each.device if each.device.type != "cpu" else None
        if isinstance(each, list | tuple) and each:
            return _device_of(each)
    return None


for _name in CALLS:
    setattr(MixedGroup, _name, _carried(_name))
