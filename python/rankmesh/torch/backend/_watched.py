"""The process group of `rankmesh+gloo`: another backend that says more when something is wrong."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from rankmesh._engine import Communicator
from rankmesh._errors import Disagreement, PeerLost, Timeout
from rankmesh.torch import _variables
from rankmesh.torch._agree import class_line, classes_of, outside_largest
from rankmesh.torch.backend._base import Call
from rankmesh.torch.backend._calls import tensors_of
from rankmesh.torch.backend._engine import Engine
from rankmesh.torch.backend._inner import inner_group, method
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._waiting import LOOK, Waiting
from rankmesh.torch.backend._work import LEAST_TIMEOUT, NO_TIMEOUT, seconds_of, timed_out

FROM_INPUT = ("all_gather", "allgather", "gather_single")  # calls whose output may have another size on a rank
GRACE = 2.0  # seconds in which the ranks of a failed call must answer, or they are missing


class WatchedGroup(ProcessGroup):
    """The process group of `rankmesh+BACKEND`: the backend moves all tensors; rankmesh compares the calls first where
    RANKMESH_CHECK=1 is set, and names the missing ranks where a call fails."""

    def __init__(self, options: Any, engine: Engine, on: Communicator, *, owns_engine: bool, backend: str) -> None:
        super().__init__(options, engine, on, owns_engine=owns_engine)
        self.wrapped = self._inner[""] = inner_group(options, backend)
        self._checked, self.around = _variables.is_checked(), backend
        self.backend = f"rankmesh+{backend}"
        self.waiting = Waiting()

    @property
    def _device_types(self) -> list[torch.device]:
        return list(self.wrapped._device_types)

    def _get_backend(self, device: torch.device) -> Any:
        return self.wrapped._get_backend(device)

    def inner(self, device: torch.device) -> dist.ProcessGroup:
        """Returns the process group that moves the tensors."""
        return self.wrapped

    @property
    def made(self) -> list[Any]:
        """The backends of all devices."""
        return [self._get_backend(device) for device in self._device_types]

    def call(self, direct: Call, arguments: tuple[Any, ...], options: dict[str, Any]) -> Work | None:
        """Carries out a call by the wrapped backend, after the ranks have compared it in checked mode."""
        if self.waiting.error is not None:
            raise self.waiting.error
        name = direct.__name__
        text = functools.partial(_text, name, arguments)
        is_message = name in ("send", "recv", "recv_anysource")
        if self._checked and not is_message:
            self.compare(text())
        try:
            work = method(self.wrapped, name)(*arguments, **options)
        except Exception as error:
            raise self.explained(text(), error) from error
        device = self._device(arguments)
        number = 0 if is_message else self.waiting.count()
        if work is not None:
            return _WatchedWork(self, text, work, device, number)
        if device is not None:  # the current stream holds the call
            self.waiting.add(self, number, text(), device)
        return None

    def run(self, direct: Call, arguments: tuple[Any, ...]) -> Work | None:
        """Carries out a call that has passed torch's dispatcher, which the wrapped backend passes again."""
        return self.call(direct, arguments, {})

    def watched(self, works: list[Work], call: str, device: torch.device) -> list[Work]:
        """Returns works of the wrapped backend whose errors say who is missing."""
        return [_WatchedWork(self, lambda: call, each, device, 0) for each in works]

    def compare(self, call: str) -> None:
        """Raises Disagreement on every rank if the ranks have different calls."""
        digest = int.from_bytes(hashlib.sha256(call.encode()).digest()[:8], "big", signed=True)
        digests = torch.empty(self.size(), dtype=torch.int64)
        with self._turn:
            on = self._communicator()
            on.all_gather(torch.tensor([digest]), digests)
            if not bool((digests == digest).all()):
                what = f"a call on {on.label} is not the same on all its ranks; nothing was sent"
                raise _disagreement(on, what, on.all_gather_object(call))

    def _device(self, arguments: Iterable[Any]) -> torch.device | None:
        """Returns the device whose stream a call waits on; None if its `wait` blocks this thread until it is done."""
        tensors = tensors_of(arguments)
        if not tensors and self.around == "gloo":
            return None
        devices = {each.device for each in tensors} or set(self._device_types)
        return next((each for each in devices if each.type not in ("cpu", "meta")), None)

    def raise_if_broken(self) -> None:
        """Raises PeerLost if a process of the group has died."""
        with self._turn:
            self._communicator()._raise_if_broken()  # type: ignore[attr-defined]

    @property
    def is_over(self) -> bool:
        """True if the group was destroyed."""
        return self._on is None

    def lost(self, said: str) -> Exception | None:
        """Returns the error that a process of the group has died; None: all live."""
        try:
            self.raise_if_broken()
        except PeerLost as lost:
            lost.args = (f"{said}: {lost}",)
            return lost
        return None

    def missing(self, said: str, call: str) -> Exception | None:
        """Returns the error of a call that does not complete: who is missing, or that the ranks are in different calls.

        Every rank that waits on the group calls it, at about the same time. Returns None if all are in the same call.
        """
        try:
            with self._turn:
                on = self._communicator().within(GRACE)
                on.monitored_barrier()
                calls = on.all_gather_object(call)
        except (PeerLost, Timeout) as found:
            found.args = (f"{said}: {_who(found)}",)
            return found
        if len(set(calls)) == 1:
            return None
        return self.engine.located(_disagreement(on, f"{said}: the ranks of {on.label} wait in different calls", calls))

    def explained(self, call: str, error: Exception) -> Exception:
        """Returns why a call of the wrapped backend failed: the ranks that are missing, else its own error."""
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        said = f"{call} failed on {self.around} ({first})"
        try:
            with self._turn:
                self._communicator().within(GRACE).monitored_barrier()
        except (PeerLost, Timeout) as found:
            found.args = (f"{said}: {_who(found)}",)
            return found
        except Exception:
            return error
        return error


class _WatchedWork(Work):
    """A Work of the wrapped backend, whose errors say who is missing."""

    def __init__(
        self, group: WatchedGroup, call: Callable[[], str], work: Work, device: torch.device | None, number: int
    ) -> None:
        super().__init__()
        self._device, self._number, self._is_watched = device, number, False
        self._group, self._call, self._work = group, call, work
        for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
            setattr(self, name, getattr(work, name))

    def wait(self, timeout: timedelta | float = NO_TIMEOUT) -> bool:
        """Waits as the wrapped backend does, but raises PeerLost as soon as a process has died.

        Not for a message on the CPU: where its wait expires, Gloo closes the connection.
        """
        seconds = seconds_of(timeout)
        until = time.monotonic() + seconds if seconds else math.inf
        try:
            looks = self._device is None and self._number > 0
            while looks and not self._work.is_completed():
                if (left := until - time.monotonic()) <= 0:
                    raise timed_out(seconds, f"{self._call()} on {self._group.around}")
                left = max(min(LOOK, left), LEAST_TIMEOUT)  # which torch rounds to ms, and 0 is no timeout
                with contextlib.suppress(RuntimeError):  # torch's text is 'Operation timed out!'; the operation runs on
                    self._work.wait(timedelta(seconds=left))
                    return True
                self._group.raise_if_broken()
            done = bool(self._work.wait() if looks else self._work.wait(timedelta(seconds=seconds)))
            self._watch()
            return done
        except (PeerLost, Timeout):
            raise
        except Exception as error:
            raise self._group.explained(self._call(), error) from error

    def synchronize(self) -> None:
        """Makes the current stream wait, as the wrapped backend does."""
        self._work.synchronize()
        self._watch()

    def block_current_stream(self) -> None:
        """Makes the current stream wait, as the wrapped backend does."""
        self._work.block_current_stream()
        self._watch()

    def _watch(self) -> None:
        """Watches the current stream, which holds the call now; only once."""
        if self._device is not None and not self._is_watched:
            self._is_watched = True
            self._group.waiting.add(self._group, self._number, self._call(), self._device)

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns the future of the wrapped backend."""
        return self._work.get_future()


def _text(name: str, arguments: tuple[Any, ...]) -> str:
    """A call as ranks must agree on it: `allreduce of 4 float32 by sum`, `broadcast of 4 float32 from 0`."""
    tensors = tensors_of(arguments[-2:] if name.startswith(FROM_INPUT) else arguments)
    text = name + "".join(f" of {each.numel()} {str(each.dtype).removeprefix('torch.')}" for each in tensors[:1])
    options: Any = arguments[-1] if arguments else None
    if hasattr(options, "reduceOp"):
        text += f" by {dist.ReduceOp.RedOpType(options.reduceOp.op).name.lower()}"
    return text + (f" from {options.rootRank}" if hasattr(options, "rootRank") else "")


def _who(found: PeerLost | Timeout) -> str:
    """Returns who is lost or missing, without the barrier that has found it, and without what the missing do: only
    their calls of rankmesh are known."""
    _, is_timeout, tail = str(found).partition(": arrived ")
    if not is_timeout:
        return str(found)
    return re.sub(r"; rank \d+( \[[^]]*\])? is outside any call[^;]*", "", f"arrived {tail}")


def _disagreement(on: Communicator, what: str, calls: list[str]) -> Disagreement:
    """Returns the error that names each call with its ranks."""
    classes = classes_of(zip(on.world_ranks, calls, strict=True))
    lines = "".join(class_line(them, call) for call, them in classes)
    return Disagreement(f"{what}:{lines}", outside_largest(classes))
