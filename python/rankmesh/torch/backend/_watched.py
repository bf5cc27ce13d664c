"""The process group of `rankmesh+gloo`: another backend that says more when something is wrong."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from rankmesh._engine import Communicator
from rankmesh._errors import Disagreement, PeerLost, Timeout
from rankmesh.torch import _variables
from rankmesh.torch._compat import backends, eager
from rankmesh.torch.backend._base import Call, inner_group, method
from rankmesh.torch.backend._engine_world import EngineWorld
from rankmesh.torch.backend._forms import tensors_of
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._waiting import KEY, LOOK, MESSAGES, Made, Waiting, difference, grace, text_of, unequal, who
from rankmesh.torch.backend._work import LEAST_TIMEOUT, NO_TIMEOUT, seconds_of, timed_out


@eager
class WatchedGroup(ProcessGroup):
    """The process group of `rankmesh+BACKEND`: the backend moves all tensors; rankmesh compares the calls first where
    RANKMESH_CHECK=1 is set, and names the missing ranks where a call fails."""

    def __init__(self, options: Any, engine: EngineWorld, on: Communicator, *, owns_engine: bool, backend: str) -> None:
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
        return backends(self)

    def call(self, direct: Call, arguments: tuple[Any, ...], options: dict[str, Any]) -> dist.Work | None:
        """Carries out a call by the wrapped backend, after the ranks have compared it in checked mode."""
        if self.waiting.error is not None:
            raise self.waiting.error
        name = direct.__name__
        text = text_of(name, arguments, self._communicator())
        if self._checked and name not in MESSAGES:
            self.compare(text)
        made = Made(0, text) if name in MESSAGES else self.waiting.count(text)
        try:
            work = method(self.wrapped, name)(*arguments, **options)
        except Exception as error:
            if made.number and not isinstance(error, dist.DistBackendError):  # of the arguments: nothing was sent
                raise
            raise self.explained(made, error) from error
        device = self._device(arguments)
        if work is not None:
            return _WatchedWork(self, made, work, device)
        if device is not None:  # the current stream holds the call
            self.waiting.add(self, made, device)
        return None

    def run(self, direct: Call, arguments: tuple[Any, ...]) -> dist.Work | None:
        """Carries out a call that has passed torch's dispatcher, which the wrapped backend passes again."""
        return self.call(direct, arguments, {})

    def watched(self, works: list[dist.Work], call: str, device: torch.device) -> list[dist.Work]:
        """Returns works of the wrapped backend whose errors say who is missing."""
        return [_WatchedWork(self, Made(0, call), each, device) for each in works]

    def compare(self, call: str) -> None:
        """Raises Disagreement on every rank if the ranks have different calls."""
        digest = int.from_bytes(hashlib.sha256(call.encode()).digest()[:8], "big", signed=True)
        digests = torch.empty(self.size(), dtype=torch.int64)
        with self._turn:
            on = self._communicator()
            on.all_gather(torch.tensor([digest]), digests)
            if not bool((digests == digest).all()):
                what = f"a call on {on.label} is not the same on all its ranks; nothing was sent"
                raise unequal(on, what, on.all_gather_object(call))

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

    def look(self, call: Made, waited: float) -> None:
        """Raises why a call that has waited for some seconds cannot complete, if a peer has died or asks for it."""
        self.raise_if_broken()
        if self.waiting.error is None and self.waiting.is_asked_for(self, waited):
            self.waiting.error = self.met(call.said(self.around, waited), call)
        if self.waiting.error is not None:
            raise self.waiting.error

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

    def met(self, said: str, call: Made) -> Exception | None:
        """Returns why a call does not complete: who is missing, or which calls differ; None if all are in this call.

        Every rank that waits on the group calls it, at about the same time.
        """
        store, found = self.get_group_store(), None
        try:
            with contextlib.suppress(RuntimeError):  # the store ends with its process
                store.set(KEY, "")  # so that ranks whose calls are younger come, too
            with self._turn:
                on = self._communicator().within(grace(self.timeout))
                on.monitored_barrier()
                found = difference(on, said, on.all_gather_object((call, list(self.waiting.last))))
        except (PeerLost, Timeout) as lost:
            lost.args = (f"{said}: {who(lost)}",)
            return lost
        finally:
            with contextlib.suppress(RuntimeError):
                store.delete_key(KEY)
        return found and self.engine.located(found)

    def explained(self, call: Made, error: Exception) -> Exception:
        """Returns why a call of the wrapped backend failed: who is missing, which calls differ, else its own error."""
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        with contextlib.suppress(Exception):  # the group ends meanwhile
            self.waiting.error = self.waiting.error or self.met(f"{call.text} failed on {self.around} ({first})", call)
        return self.waiting.error or error


@eager
class _WatchedWork(dist.Work):
    """A Work of the wrapped backend, whose errors say who is missing."""

    def __init__(self, group: WatchedGroup, call: Made, work: dist.Work, device: torch.device | None) -> None:
        super().__init__()
        self._device, self._is_watched = device, False
        self._group, self._call, self._work = group, call, work
        for name in ("is_completed", "is_success", "exception", "result", "source_rank", "_source_rank"):
            setattr(self, name, getattr(work, name))

    def wait(self, timeout: timedelta | float = NO_TIMEOUT) -> bool:
        """Waits as the wrapped backend does, but raises PeerLost as soon as a process has died.

        Not for a message on the CPU: where its wait expires, Gloo closes the connection.
        """
        seconds = seconds_of(timeout)
        begun = time.monotonic()
        until = begun + seconds if seconds else math.inf
        try:
            looks = self._device is None and self._call.number > 0
            while looks and not self._work.is_completed():
                if (left := until - time.monotonic()) <= 0:
                    raise timed_out(seconds, f"{self._call.text} on {self._group.around}")
                left = max(min(LOOK, left), LEAST_TIMEOUT)  # torch rounds to ms, and takes 0 as no timeout
                with contextlib.suppress(RuntimeError):  # torch's text is 'Operation timed out!'; the operation runs on
                    self._work.wait(timedelta(seconds=left))
                    return True
                self._group.look(self._call, time.monotonic() - begun)
            done = bool(self._work.wait() if looks else self._work.wait(timedelta(seconds=seconds)))
            self._watch()
            return done
        except (Disagreement, PeerLost, Timeout):
            raise
        except Exception as error:
            raise self._group.explained(self._call, error) from error

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
            self._group.waiting.add(self._group, self._call, self._device)

    def get_future(self) -> torch.futures.Future[Any]:
        """Returns the future of the wrapped backend."""
        return self._work.get_future()
