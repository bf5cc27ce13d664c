"""Gloo groups that connect with few requests to the store, and share the I/O thread of torch's default group."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import datetime
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch._compat import Store, backends, replaced

BATCH = 128  # addresses per request, as in Gloo's own batches

# With either, Gloo numbers connections in a way that requires a device for each group. Lazy groups also read the store
# after their construction, and a lazy group that ends stops its device.
OWN_DEVICE = ("TORCH_GLOO_LAZY_INIT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER")


class Exchange(Store):
    """The store of one Gloo group while it connects. Fetches the addresses of all members together.

    Gloo itself asks for each address with three requests.
    """

    def __init__(self, store: Store, size: int) -> None:
        super().__init__()
        self._store, self._size = store, size
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        self._store.set(key, value)

    def wait(self, keys: list[str], timeout: datetime.timedelta = c10d.default_pg_timeout) -> None:
        """Waits for the addresses of all members; a key is a device's number and a group rank."""
        if all(key in self._known for key in keys):
            return
        device = keys[0].rpartition("/")[0]
        members = [f"{device}/{rank}" for rank in range(self._size)]
        for first in range(0, self._size, BATCH):
            batch = members[first : first + BATCH]
            self._store.wait(batch, timeout)
            self._known.update(zip(batch, self._store.multi_get(batch), strict=True))

    def get(self, key: str) -> bytes:
        return self._known[key]


if dist.is_gloo_available():

    class Gloo(dist.ProcessGroupGloo):
        """A Gloo group that uses `Exchange`, and the device of the default group if that has one."""

        def __init__(self, store: Store, rank: int, size: int, timeout: datetime.timedelta, **settings: Any) -> None:
            """`settings`: further keywords of newer versions of torch. The options have the same names."""
            exchange = Exchange(store, size)
            default: Any = _gloo_of(dist.group.WORLD)
            if default is None:
                super().__init__(exchange, rank, size, timeout, **settings)
                return
            options: Any = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
            options._devices = default.options._devices
            options._threads = default.options._threads
            options._timeout = timeout
            for name, value in settings.items():
                setattr(options, name, value)
            super().__init__(exchange, rank, size, options)


def _gloo_of(group: dist.ProcessGroup | None) -> Any:
    """Returns the Gloo backend of a group, or None."""
    return next((each for each in backends(group) if isinstance(each, _original)), None) if group is not None else None


_meet_later = contextvars.ContextVar("_meet_later", default=False)


@contextlib.contextmanager
def connecting_until(meet: Callable[[], None] | None) -> Iterator[None]:
    """A context whose ranks `meet` once at its end. Without `meet` they wait in every new Gloo group."""
    token = _meet_later.set(meet is not None)
    try:
        yield
    finally:
        _meet_later.reset(token)
    if meet is not None:
        meet()


def wait_until_connected(group: dist.ProcessGroup) -> None:
    """Returns when all ranks of a new Gloo group are connected, or at once if they meet later. All its ranks call it.

    A rank that has connected to all others could end the group while two of these still connect. Both would then fail
    with `Connection closed by peer`.
    """
    gloo = _gloo_of(group)
    if gloo is not None and group.size() > 1 and not _meet_later.get():
        gloo.barrier().wait()


_original: Any = getattr(c10d, "ProcessGroupGloo", ())


def connecting() -> contextlib.AbstractContextManager[None]:
    """A context in which torch makes its Gloo groups as `Gloo`. Only one thread may be in it."""
    if not dist.is_gloo_available() or any(os.environ.get(name, "0") != "0" for name in OWN_DEVICE):
        return contextlib.nullcontext()
    return replaced(c10d, "ProcessGroupGloo", Gloo)


def _has_busy_thread() -> bool:
    """Returns True if a thread of torch's Gloo runs; one that waits for work, or for the GIL, sleeps."""
    for task in Path("/proc/self/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            _, _, rest = task.read_text().partition("(pt_gloo_runloop) ")
            if rest and not rest.startswith("S"):
                return True
    return False


@atexit.register
def _settle() -> None:
    """Waits until torch's Gloo has freed the tensors of its last calls.

    It frees them on its own threads, shortly after a call has returned. If Python ends meanwhile, such a thread finds
    no interpreter and aborts the process: "terminate called without an active exception" (torch 2.13).
    """
    if not dist.is_gloo_available() or not Path("/proc/self/task").is_dir():
        return
    until, quiet = time.monotonic() + 1, 0
    while quiet < 3 and time.monotonic() < until:
        time.sleep(0.002)  # a thread that waits for the GIL gets it
        quiet = 0 if _has_busy_thread() else quiet + 1
