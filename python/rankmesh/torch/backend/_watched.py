"""The process group of `rankmesh+gloo`: another backend that says more when something is wrong.

Its calls in words, and what differs between ranks. Calls on devices, which no thread waits for: a thread looks for
those that cannot complete, and says why."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import hashlib
import math
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from rankmesh._engine import Communicator
from rankmesh._errors import Disagreement, PeerLost, Timeout
from rankmesh.torch import _variables
from rankmesh.torch._agree import disagreement
from rankmesh.torch._compat import backends, eager
from rankmesh.torch.backend._base import Call, inner_group, method
from rankmesh.torch.backend._engine_world import EngineWorld
from rankmesh.torch.backend._forms import tensors_of
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._work import LEAST_TIMEOUT, NO_TIMEOUT, seconds_of, timed_out

FROM_INPUT = ("all_gather", "allgather", "gather_single")  # calls whose output may have another size on a rank
OF_PARTS = ("reduce_scatter", "_reduce_scatter_base")  # calls whose inputs have one size in all on each rank
UNEVEN = ("alltoall", "all_to_all")  # calls whose tensors may have another size on a rank
MESSAGES = ("send", "recv", "recv_anysource")
LOOK = 0.2  # seconds between two looks at the processes of calls that wait
ASK = 1.0  # seconds between two questions to the store, whether a peer has run out of time
LONG = 3.0  # seconds, or a quarter of the timeout, after which a call asks
KEPT = 32  # last collectives that the ranks compare
MARGIN = 5.0  # seconds before the group's timeout, or half of it: torch's own watchdog ends the process at the timeout
KEY = "rankmesh out of time"
_RELAXED = 2  # cudaStreamCaptureModeRelaxed

_groups: weakref.WeakSet[WatchedGroup] = weakref.WeakSet()
_thread: threading.Thread | None = None
_starting = threading.Lock()


class Made(NamedTuple):
    """A call that a rank has made. Messages have the number 0, because ranks send different ones."""

    number: int
    text: str

    def said(self, backend: str, waited: float) -> str:
        """Returns that the call has not completed, as the begin of an error."""
        what = f"call number {self.number} on {backend}, {self.text}," if self.number else f"{self.text} on {backend}"
        return f"{what} has not completed in {waited:.1f} s"

    def __str__(self) -> str:
        return f"call number {self.number}, {self.text}" if self.number else self.text


def text_of(name: str, arguments: tuple[Any, ...], on: Communicator) -> str:
    """A call as ranks must agree on it: `allreduce of 4 float32 by sum`, `broadcast of 4 float32 from 0`."""
    parts, text = name.startswith(OF_PARTS), name
    tensors = tensors_of(arguments[1:2] if parts else arguments[-2:] if name.startswith(FROM_INPUT) else arguments)
    if tensors:
        count = sum(each.numel() for each in (tensors if parts else tensors[:1]))
        size = "" if name.startswith(UNEVEN) else f"{count} "
        text += f" of {size}{str(tensors[0].dtype).removeprefix('torch.')}"
    options: Any = arguments[-1] if arguments else None
    if hasattr(options, "reduceOp"):
        text += f" by {dist.ReduceOp.RedOpType(options.reduceOp.op).name.lower()}"
    root = getattr(options, "rootRank", None)
    if name in ("send", "recv") and len(arguments) > 1:
        root = arguments[1]
    if root is not None:
        text += f" {'to' if name in ('send', 'reduce', 'gather', 'gather_single') else 'from'} {root}"
        if 0 <= root < on.size and on.world_ranks[root] != root:
            text += f" (world rank {on.world_ranks[root]})"
    return text + (f" with tag {options}" if name in MESSAGES and options else "")


def difference(on: Communicator, said: str, made: Sequence[tuple[Made, list[Made]]]) -> Disagreement | None:
    """Returns the error of ranks whose calls differ; None if all are in the same call, and were so before.

    `made` has the call that each rank waits for, and its last calls.
    """
    known = [dict(last) for _, last in made]
    for number in sorted(set[int].intersection(*map(set, known))):
        if len({each[number] for each in known}) > 1:
            what = f"{said}: call number {number} on {on.label} is not the same on all its ranks"
            return disagreement(what, zip(on.world_ranks, (each[number] for each in known), strict=True))
    if len({call for call, _ in made}) == 1:
        return None
    what = f"{said}: the ranks of {on.label} wait in different calls"
    return disagreement(what, zip(on.world_ranks, (str(call) for call, _ in made), strict=True))


class _Call(NamedTuple):
    made: Made
    is_complete: Callable[[], bool]
    since: float


def asks_after(timeout: timedelta) -> float:
    """Returns the seconds after which a call asks whether a peer has run out of time."""
    return min(LONG, timeout.total_seconds() / 4)


class Waiting:
    """The calls of a group that have not completed on the device, the oldest first."""

    def __init__(self) -> None:
        self.error: Exception | None = None  # why the calls of the group cannot complete; None: they may
        self.last: collections.deque[Made] = collections.deque(maxlen=KEPT)  # the last collectives
        self._calls: collections.deque[_Call] = collections.deque()
        self._collectives, self._asked, self._meets = 0, 0.0, False

    def count(self, text: str) -> Made:
        """Returns a collective with its number, which is equal on all ranks."""
        self._collectives += 1
        self.last.append(Made(self._collectives, text))
        return self.last[-1]

    def add(self, group: WatchedGroup, made: Made, device: torch.device) -> None:
        """Watches what the current stream of the device holds."""
        global _thread
        complete = recorded(device)
        if complete is None:
            return
        self._calls.append(_Call(made, complete, time.monotonic()))
        if group in _groups:
            return
        with _starting:
            _groups.add(group)
            if _thread is None:
                _thread = threading.Thread(target=_look_again_and_again, name="rankmesh-watch", daemon=True)
                _thread.start()

    def look(self, group: WatchedGroup) -> None:
        """Ends the group if a process has died; if a call has run out of time, asks its ranks for the reason."""
        while self._calls and self._calls[0].is_complete():
            self._calls.popleft()
        if not self._calls or self.error is not None or self._meets:
            return
        call, most = self._calls[0], group.timeout.total_seconds()
        waited = time.monotonic() - call.since
        if waited < LOOK:
            return
        try:
            group.raise_if_broken()
        except PeerLost as lost:
            lost.args = (f"{call.made.said(group.around, waited)}: {lost}",)
            return self._fail(group, lost)
        if waited > most - min(MARGIN, most / 2) or self.is_asked_for(group, waited):
            self._meets = True  # on a thread of its own: the peers of another group ask at the same time
            threading.Thread(target=self._meet, args=(group, call, waited), daemon=True).start()

    def _meet(self, group: WatchedGroup, call: _Call, waited: float) -> None:
        with contextlib.suppress(Exception):  # the group ends meanwhile
            error = group.met(call.made.said(group.around, waited), call.made)
            if error is not None and not call.is_complete():
                self._fail(group, error)
        self._meets = False

    def _fail(self, group: WatchedGroup, error: Exception) -> None:
        self.error = error
        self._calls.clear()
        print(f"rankmesh: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(RuntimeError):  # what waits on the device then ends
            group.wrapped.abort()

    def is_asked_for(self, group: WatchedGroup, waited: float) -> bool:
        """Returns True if a peer has run out of time, or its call has failed; `waited`: seconds."""
        if waited < asks_after(group.timeout) or time.monotonic() - self._asked < ASK:
            return False
        self._asked = time.monotonic()
        with contextlib.suppress(RuntimeError):  # the store ends with its process
            return bool(group.get_group_store().check([KEY]))
        return False


def recorded(device: torch.device) -> Callable[[], bool] | None:
    """Returns a function that says whether the current stream has done what it holds now; None in a graph capture."""
    module = torch.get_device_module(device)
    # Not initialised: tensors without memory, which a backend without a device has.
    if not module.is_initialized() or getattr(module, "is_current_stream_capturing", bool)():
        return None
    event = module.Event()
    event.record(module.current_stream(device))
    return event.query  # type: ignore[no-any-return]


def _look_again_and_again() -> None:
    global _thread
    _disturb_no_capture()
    while True:
        time.sleep(LOOK)
        with _starting:
            if not _groups:
                _thread = None
                return
        for group in list(_groups):
            if group._on is None:  # it was destroyed
                _groups.discard(group)
            else:
                with contextlib.suppress(Exception):  # the group ends meanwhile
                    group.waiting.look(group)


def _disturb_no_capture() -> None:
    """Lets this thread query events while another one captures a graph, as CUDA allows in the relaxed mode."""
    for name in ("libcudart.so.13", "libcudart.so.12"):
        with contextlib.suppress(OSError, AttributeError):
            runtime = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            runtime.cudaThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_RELAXED)))


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
        return self.wrapped

    @property
    def made(self) -> list[Any]:
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
                raise disagreement(what, zip(on.world_ranks, on.all_gather_object(call), strict=True))

    def _device(self, arguments: Iterable[Any]) -> torch.device | None:
        """Returns the device whose stream a call waits on; None if its `wait` blocks this thread until it is done."""
        tensors = tensors_of(arguments)
        if not tensors and self.around == "gloo":
            return None
        devices = {each.device for each in tensors} or set(self._device_types)
        return next((each for each in devices if each.type not in ("cpu", "meta")), None)

    def raise_if_broken(self) -> None:
        with self._turn:
            self._communicator()._raise_if_broken()  # type: ignore[attr-defined]

    def look(self, call: Made, waited: float) -> None:
        """Raises why a call that has waited for some seconds cannot complete, if a peer has died or asks for it."""
        self.raise_if_broken()
        if self.waiting.error is None and self.waiting.is_asked_for(self, waited):
            self.waiting.error = self.met(call.said(self.around, waited), call)
        if self.waiting.error is not None:
            raise self.waiting.error

    def met(self, said: str, call: Made) -> Exception | None:
        """Returns why a call does not complete: who is missing, or which calls differ; None if all are in this call.

        Every rank that waits on the group calls it, at about the same time.
        """
        store, found = self.get_group_store(), None
        try:
            with contextlib.suppress(RuntimeError):  # the store ends with its process
                store.set(KEY, "")  # so that ranks whose calls are younger come, too
            with self._turn:
                # In these seconds the ranks of a call that has failed must answer, or they are missing.
                on = self._communicator().within(asks_after(self.timeout) + 2 * ASK)
                on.monitored_barrier()
                found = difference(on, said, on.all_gather_object((call, list(self.waiting.last))))
        except (PeerLost, Timeout) as lost:
            # Without the barrier of a Timeout, and what the missing do: only their calls of rankmesh are known.
            _, is_timeout, tail = str(lost).partition(": arrived ")
            tail = re.sub(r"; rank \d+( \[[^]]*\])? is outside any call[^;]*", "", tail)
            lost.args = (f"{said}: arrived {tail}" if is_timeout else f"{said}: {lost}",)
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
        self._work.synchronize()
        self._watch()

    def block_current_stream(self) -> None:
        self._work.block_current_stream()
        self._watch()

    def _watch(self) -> None:
        """Watches the current stream, which holds the call now; only once."""
        if self._device is not None and not self._is_watched:
            self._is_watched = True
            self._group.waiting.add(self._group, self._call, self._device)

    def get_future(self) -> torch.futures.Future[Any]:
        return self._work.get_future()
