"""What every process group of the backend has: its names, its timeouts, the groups of torch beneath it, and its end."""

# mypy: disable-error-code="override,assignment"

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Communicator
from rankmesh.torch._compat import CppBackend, Store, eager, tables
from rankmesh.torch._errors import UsageError
from rankmesh.torch._gloo import wait_until_connected
from rankmesh.torch.backend._engine_world import EngineWorld
from rankmesh.torch.backend._work import UNSET, Turn, seconds_of

Call = Callable[..., Any]

_OLDER = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""Names before PyTorch 2.13."""


def method(group: dist.ProcessGroup, name: str) -> Callable[..., Any]:
    return getattr(group, name if hasattr(group, name) else _OLDER.get(name, name))  # type: ignore[no-any-return]


def inner_group(options: Any, backend: str) -> dist.ProcessGroup:
    """Makes torch's process group of the same ranks on another backend, such as `cuda:nccl`. All its ranks call it."""
    made, _ = c10d._new_process_group_helper(
        options.group_size,
        options.group_rank,
        options.global_ranks_in_group,
        backend,
        options.store,
        c10d.GroupName(f"{options.group_id}/{backend}"),
        timeout=options.timeout,
        group_desc=f"{backend} beneath rankmesh",
    )
    assert isinstance(made, dist.ProcessGroup)
    ranks = options.global_ranks_in_group or range(options.group_size)
    tables.pg_group_ranks[made] = {rank: i for i, rank in enumerate(ranks)}
    wait_until_connected(made)
    return made


@eager
class Base(dist.ProcessGroup):
    """A process group of torch with a communicator of rankmesh."""

    backend = "rankmesh"

    def __init__(self, options: Any, engine: EngineWorld, on: Communicator, *, owns_engine: bool) -> None:
        """`options` are c10d's DistributedBackendOptions: store, rank, size and timeout of the group."""
        super().__init__(options.group_rank, options.group_size)  # type: ignore[call-arg]
        self.engine, self._owns_engine = engine, owns_engine
        self._on: Communicator | None = on
        self._options: Any = options
        self._timeout: datetime.timedelta = options.timeout
        self._within: dict[datetime.timedelta, Communicator] = {}
        self._inner: dict[str, dist.ProcessGroup] = {}
        self._turn = Turn(engine)
        self._name = self._description = ""
        self.twin: dist.ProcessGroup | None = None
        """The group that stands for this one in torch's dispatcher, once it has."""

    def run(self, direct: Call, arguments: tuple[Any, ...]) -> dist.Work | None:
        """Carries out a call that has passed torch's dispatcher."""
        return direct(self, *arguments)  # type: ignore[no-any-return]

    # --- names. torch keeps the name and the description in the backends of a group, and this group is its own backend.

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """Returns the name of the backend as torch's `get_backend` does, such as 'cpu:rankmesh'."""
        name, _ = tables.pg_map.get(self, (self.backend, None))
        return str(name)

    def getGroupName(self) -> str:  # noqa: N802 (torch's name)
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802 (torch's name)
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802 (torch's name)
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802 (torch's name)
        self._description = description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    # --- devices

    def _backends(self) -> dict[str, str]:
        """The backends of the devices, as in `cpu:rankmesh,cuda:nccl`."""
        config = tables.pg_backend_config.get(self, "cpu:rankmesh")
        return {device: backend for device, _, backend in (each.partition(":") for each in config.split(","))}

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(device) for device in self._backends()]

    def inner(self, device: torch.device) -> dist.ProcessGroup:
        """Returns torch's group that moves the tensors of a device other than the CPU; makes it at the first call."""
        if device.type == "cpu":
            raise RuntimeError(
                "Backend rankmesh does not implement startCoalescing for CPU tensors; leave out the device of "
                "_coalescing_manager, or call the collectives one by one"
            )
        if device.type not in self._inner:
            backend = self._backends().get(device.type)
            if backend is None:
                raise RuntimeError(f"No backend type associated with device type {device.type}")  # torch's text
            self._inner[device.type] = inner_group(self._options, f"{device.type}:{backend}")
        return self._inner[device.type]

    def _get_backend(self, device: torch.device) -> Any:
        """Returns what torch asks about the backend of a device: this group, where it moves the tensors itself."""
        # While torch makes the group, it asks whether a device's backend can split: this group cannot.
        is_made = self in tables.pg_backend_config
        return self.inner(device)._get_backend(device) if is_made and device.type != "cpu" else self

    def get_backend(self, device: torch.device) -> Any:
        """Returns what `torch.distributed.get_backend_impl` returns."""
        return self._get_backend(device)

    @property
    def made(self) -> list[Any]:
        """The backends that exist: that of the CPU, and those of devices that have had a call."""
        devices = (device for device in self._device_types if device.type in {"cpu", *self._inner})
        return [self._get_backend(device) for device in devices]

    supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False
    supports_reconfigure = supports_window = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

    def _start_coalescing(self, device: torch.device) -> None:
        group = self.inner(device)
        group._start_coalescing(device)
        self._coalesced = group

    def _end_coalescing(self, device: torch.device) -> dist.Work:
        return self._coalesced._end_coalescing(device)  # PyTorch 2.14 also aborts groups in such a region

    # --- timeouts

    @property
    def timeout(self) -> datetime.timedelta:
        return self._timeout

    @property
    def options(self) -> CppBackend.Options:
        """The timeout, as torch asks backends for it."""
        return CppBackend.Options("rankmesh", self._timeout)

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        with self._turn:
            self._on = self._communicator().within(seconds_of(timeout))
        self._timeout = self._options.timeout = timeout  # the options are those of groups that are made later
        for inner in self._inner.values():
            inner.set_timeout(timeout)

    set_timeout = _set_default_timeout

    def _timeout_of(self, timeout: datetime.timedelta) -> datetime.timedelta:
        return self._timeout if timeout == UNSET else timeout

    def _with_timeout(self, timeout: datetime.timedelta) -> Communicator:
        on = self._communicator()
        if timeout in (UNSET, self._timeout):
            return on
        if timeout not in self._within:
            self._within[timeout] = on.within(timeout)
        return self._within[timeout]

    # --- the end

    def _communicator(self) -> Communicator:
        if self._on is None:
            raise UsageError("this process group was destroyed; its calls are over")
        return self._on

    def get_group_store(self) -> Store:
        self._communicator()
        store: Store = self._options.store
        return store

    def shutdown(self) -> None:
        """Ends the group after its started operations; called by destroy_process_group."""
        with self._turn:
            if self._on is not None:
                self._turn.finish_dropped(wait=True)
                for work in list(self._turn.works):  # errors that nobody has asked for
                    if work.is_completed():
                        work.report()
            self._end(aborted=False)

    def abort(self) -> None:
        """Ends the group now: waits neither for its operations nor for its peers, who raise PeerLost."""
        self._end(aborted=True)

    def _end(self, *, aborted: bool) -> None:
        for inner in self._inner.values():
            if inner in tables.pg_map:  # else torch has destroyed it
                dist.destroy_process_group(inner)
        self._inner.clear()
        on, self._on = self._on, None
        self._options = None  # whose store rank 0 may serve until then
        self._within.clear()
        if on is not None and self._owns_engine:
            self.engine.close(aborted=aborted)
