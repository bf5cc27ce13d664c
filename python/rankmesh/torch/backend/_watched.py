"""The process group of `rankmesh+gloo`: another backend that says more when something is wrong."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from rankmesh._engine import Communicator
from rankmesh._errors import Disagreement, PeerLost, Timeout
from rankmesh.torch._agree import class_line, classes_of, outside_largest
from rankmesh.torch.backend._engine import Engine
from rankmesh.torch.backend._inner import CALLS, destroy, inner_group
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._work import NO_TIMEOUT

LOOK = timedelta(milliseconds=200)  # between two looks at the processes of a call that waits
GRACE = 2.0  # seconds in which the ranks of a failed call must answer, or they are missing


class WatchedGroup(ProcessGroup):
    """The process group of `rankmesh+BACKEND`: the backend moves all tensors; rankmesh compares the calls first where
    RANKMESH_CHECK=1 is set, and names the missing ranks where a call fails."""

    def __init__(self, options: Any, engine: Engine, on: Communicator, *, owns_engine: bool, backend: str) -> None:
        super().__init__(options, engine, on, owns_engine=owns_engine)
        self.wrapped = inner_group(options, backend)
        self._checked, self._backend = os.environ.get("RANKMESH_CHECK") == "1", backend

    @property
    def _device_types(self) -> list[torch.device]:
        return list(self.wrapped._device_types)

    def _get_backend(self, device: torch.device) -> Any:
        return self.wrapped._get_backend(device)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """Returns 'rankmesh+gloo' around gloo."""
        return f"rankmesh+{self._backend}"

    def compare(self, call: str) -> None:
        """Raises Disagreement on every rank if the ranks have different calls."""
        digest = int.from_bytes(hashlib.sha256(call.encode()).digest()[:8], "big", signed=True)
        digests = torch.empty(self.size(), dtype=torch.int64)
        with self._turn:
            on = self._communicator()
            on.all_gather(torch.tensor([digest]), digests)
            if not bool((digests == digest).all()):
                raise _disagreement(on, on.all_gather_object(call))

    def _is_on_host(self, arguments: Iterable[Any]) -> bool:
        """True for a call whose `wait` blocks this thread until the data has moved."""
        tensors = _tensors_of(arguments)
        return all(each.device.type == "cpu" for each in tensors) if tensors else self._backend == "gloo"

    def raise_if_broken(self) -> None:
        """Raises PeerLost if a process of the group has died."""
        with self._turn:
            self._communicator()._raise_if_broken()  # type: ignore[attr-defined]

    def explained(self, call: str, error: Exception) -> Exception:
        """Returns why a call of the wrapped backend failed: the ranks that are missing, else its own error."""
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        said = f"{call} failed on {self._backend} ({first})"
        try:
            with self._turn:
                self._communicator().within(GRACE).monitored_barrier()
        except (PeerLost, Timeout) as found:
            found.args = (f"{said}: {found}",)
            return found
        except Exception:
            return error
        return error

    def _end(self, *, aborted: bool) -> None:
        destroy(self.wrapped)
        super()._end(aborted=aborted)


class _WatchedWork(Work):
    """A Work of the wrapped backend, whose errors say who is missing."""

    def __init__(self, group: WatchedGroup, call: Callable[[], str], work: Work, on_host: bool) -> None:
        super().__init__()
        self._on_host = on_host
        self._group, self._call, self._work = group, call, work
        for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
            setattr(self, name, getattr(work, name))

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Waits as the wrapped backend does, but raises PeerLost as soon as a process has died."""
        until = time.monotonic() + timeout.total_seconds() if timeout > NO_TIMEOUT else math.inf
        try:
            while self._on_host and not self._work.is_completed() and time.monotonic() < until:
                with contextlib.suppress(RuntimeError):  # torch's text is 'Operation timed out!'; the operation runs on
                    self._work.wait(
                        min(LOOK, timedelta(seconds=until - time.monotonic())) if until < math.inf else LOOK
                    )
                    return True
                self._group.raise_if_broken()
            return bool(self._work.wait(timeout) if timeout > NO_TIMEOUT else self._work.wait())
        except (PeerLost, Timeout):
            raise
        except Exception as error:
            raise self._group.explained(self._call(), error) from error

    def synchronize(self) -> None:
        """Makes the current stream wait, as the wrapped backend does."""
        self._work.synchronize()

    def block_current_stream(self) -> None:
        """Makes the current stream wait, as the wrapped backend does."""
        self._work.block_current_stream()

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns the future of the wrapped backend."""
        return self._work.get_future()


def _watched(name: str) -> Callable[..., Work | None]:
    @functools.wraps(getattr(ProcessGroup, name))
    def call(self: WatchedGroup, *arguments: Any, **options: Any) -> Work | None:
        text = functools.partial(_text, name, arguments)
        if self._checked and name not in ("send", "recv", "recv_anysource"):
            self.compare(text())
        try:
            work = getattr(self.wrapped, name)(*arguments, **options)
        except Exception as error:
            raise self.explained(text(), error) from error
        return None if work is None else _WatchedWork(self, text, work, self._is_on_host(arguments))

    return call


def _tensors_of(arguments: Iterable[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for each in arguments:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += _tensors_of(each)
    return found


def _text(name: str, arguments: tuple[Any, ...]) -> str:
    """A call as ranks must agree on it: `allreduce of 4 float32 by sum`, `broadcast of 4 float32 from 0`."""
    tensors = _tensors_of(arguments[-2:] if name.startswith(("all_gather", "allgather")) else arguments)
    text = name + "".join(f" of {each.numel()} {str(each.dtype).removeprefix('torch.')}" for each in tensors[:1])
    options: Any = arguments[-1] if arguments else None
    if hasattr(options, "reduceOp"):
        text += f" by {dist.ReduceOp.RedOpType(options.reduceOp.op).name.lower()}"
    return text + (f" from {options.rootRank}" if hasattr(options, "rootRank") else "")


def _disagreement(on: Communicator, calls: list[str]) -> Disagreement:
    classes = classes_of(zip(on.world_ranks, calls, strict=True))
    lines = "".join(class_line(them, call) for call, them in classes)
    return Disagreement(
        f"a call on {on.label} is not the same on all its ranks; nothing was sent:{lines}", outside_largest(classes)
    )


for _name in CALLS:
    setattr(WatchedGroup, _name, _watched(_name))
