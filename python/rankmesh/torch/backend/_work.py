"""Started operations as c10d's Work, and the thread that completes their futures."""

from __future__ import annotations

import collections
import contextlib
import datetime
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

import rankmesh._errors
from rankmesh._engine import Communicator, Pending
from rankmesh.torch._compat import eager
from rankmesh.torch._errors import ENGINE_ERRORS, Timeout, UsageError
from rankmesh.torch.backend._engine_world import EngineWorld

UNSET = datetime.timedelta(milliseconds=-1)  # c10d's kUnsetTimeout
NO_TIMEOUT = datetime.timedelta(0)  # c10d's kNoTimeout: wait as long as the group's timeout
LEAST_TIMEOUT = 0.001  # seconds, of an engine
NO_SOURCE = -1  # the source, if the call is not a message
ANY_SOURCE = -2  # the source of a message from any rank, until it is known
SHORTEST, LONGEST = 0.00002, 0.002  # seconds between two looks at a pending operation


def _ended(pending: Sequence[Pending[Any]]) -> bool:
    """Returns True if operations have ended, or have failed, which their `wait` raises."""
    try:
        return all(each.done() for each in pending)
    except Exception:
        return True


def _finished(pending: Sequence[Pending[Any]], after: Sequence[Callable[[], object]], until: float) -> Any:
    """Waits for operations, copies their results, and returns that of the last."""
    result = None
    for each in pending:
        result = each.wait(max(until - time.monotonic(), SHORTEST))
    for copy in after:
        copy()
    return result


def seconds_of(timeout: datetime.timedelta | float) -> float:
    """Returns the seconds of a timeout, which torch also takes as a float."""
    return timeout if isinstance(timeout, float) else timeout / datetime.timedelta(seconds=1)


def timed_out(seconds: float, call: str) -> Timeout:
    """Returns the error of a `wait` whose timeout has expired before its call has completed."""
    return Timeout(f"{call} has not completed in the {seconds:g} s of wait(); the call goes on, so call wait() again")


class Turn:
    """Lets the threads of a process use a communicator in turn, because it accepts one thread at a time.

    Errors of the engine leave it as errors of the backend, with coordinates.
    """

    def __init__(self, engine: EngineWorld) -> None:
        self.engine = engine
        self._lock = threading.RLock()
        self._thread = 0
        self._shared = False
        self.dropped: collections.deque[tuple[Sequence[Pending[Any]], Sequence[Callable[[], object]], float]]
        self.dropped = collections.deque()
        """Operations whose Work nobody holds any more, until they end, or their timeout expires."""
        self.works: weakref.WeakSet[Started] = weakref.WeakSet()
        self._is_broken = False

    def __enter__(self) -> None:
        thread = threading.get_ident()
        if thread != self._thread:
            self._shared = self._thread != 0
            self._thread = self._thread or thread
        self._lock.acquire()
        if self.dropped:
            self.finish_dropped()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._lock.release()
        if isinstance(error, ENGINE_ERRORS):
            self.raised(error)
            raise self.engine.located(error) from None

    def raised(self, error: BaseException) -> None:
        """Notes an error that a caller gets. Most end the communicator, and other operations fail because of them."""
        self._is_broken |= not isinstance(error, (rankmesh._errors.Disagreement, rankmesh._errors.UsageError))

    def many(self) -> bool:
        """Returns True if other threads use the communicator, or may: then no thread keeps it while it waits."""
        return self._shared or threading.active_count() > 1 + _completer.runs

    def finish_dropped(self, *, wait: bool = False) -> None:
        """Finishes the dropped operations that have ended; `wait`: all of them."""
        for _ in range(len(self.dropped)):
            pending, after, until = self.dropped.popleft()
            if not wait and time.monotonic() < until and not _ended(pending):
                self.dropped.append((pending, after, until))
                continue
            try:
                _finished(pending, after, until)
            except Exception as error:
                self.report(error)

    def report(self, error: BaseException) -> None:
        """Prints the error of an operation that nobody waits for, unless a caller has its cause."""
        if not self._is_broken:
            located = self.engine.located(error) if isinstance(error, ENGINE_ERRORS) else error
            print(f"rankmesh: an operation that nobody waited for failed: {located}", file=sys.stderr, flush=True)


@eager
class Started(dist.Work):
    """Operations that run; `after` copies their results to where the caller wants them."""

    def __init__(
        self,
        turn: Turn,
        pending: Sequence[Pending[Any]],
        result: list[torch.Tensor],
        after: Sequence[Callable[[], object]],
        timeout: datetime.timedelta,
        call: tuple[str, Communicator],
        source: int = NO_SOURCE,
    ) -> None:
        """`call` is the first operation and its communicator, for errors."""
        super().__init__()
        self._turn, self._call = turn, call
        self._pending, self._result, self._after, self._source = pending, result, after, source
        self._until = time.monotonic() + timeout.total_seconds()
        self._error: BaseException | None = None
        self._complete = False
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None
        self._is_heard = False
        turn.works.add(self)

    def __del__(self) -> None:
        """Leaves operations that nobody waits for to the turn, because a dropped Pending would wait for them."""
        if getattr(self, "_pending", ()):
            self._turn.dropped.append((self._pending, self._after, self._until))
        elif getattr(self, "_error", None) is not None:
            self.report()

    def report(self) -> None:
        """Prints an error that nobody has asked for."""
        if self._error is not None and not self._is_heard:
            self._is_heard = True
            self._turn.report(self._error)

    def wait(self, timeout: datetime.timedelta | float = NO_TIMEOUT) -> bool:
        """Returns when the operations are complete; raises their error, or Timeout.

        If this wait's own timeout expires, the operations go on, as with torch's own backends.
        """
        if not self._complete:
            seconds = seconds_of(timeout)
            until = time.monotonic() + seconds if seconds else math.inf
            if until < self._until or self._turn.many():
                self._look_until_done(min(until, self._until))
            if until < self._until and not self.is_completed():
                name, on = self._call
                raise timed_out(seconds, f"{name} on {on.label}")
            with self._turn:
                self._finish()
        if self._error is not None:
            self._is_heard = True
            self._turn.raised(self._error)
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Returns True if `wait` would return or raise at once: the tensors are written, or there is an `exception`."""
        if not self._complete:
            with self._turn:
                if _ended(self._pending) or time.monotonic() >= self._until:
                    self._finish()
        return self._complete

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Returns the error of operations that have ended; None if they run or have none."""
        self._is_heard |= self.is_completed()
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._result

    def source_rank(self) -> int:
        if self._source == NO_SOURCE:
            raise UsageError(f"source_rank() was called of {self._call[0]}, which has none; call it of a message")
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Waits, because tensors are in host memory."""
        self.wait()

    block_current_stream = synchronize

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Returns a future of the tensors that were written; a thread of this process completes it.

        In a backward pass it waits and raises: DDP, which calls it there, would make a RuntimeError of a PeerLost.
        """
        if self._future is None:
            if torch._C._current_graph_task_id() != -1:
                self.wait()
            self._future = torch.futures.Future()
            if not self._complete or not self.complete_future():
                _completer.add(self)
        return self._future

    def _look_until_done(self, until: float) -> None:
        """Waits without keeping other threads from the communicator."""
        pause = SHORTEST
        while not self.is_completed() and time.monotonic() < until:
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST)

    def _finish(self) -> None:
        if self._complete:
            return
        try:
            result = _finished(self._pending, self._after, self._until)
            if self._source == ANY_SOURCE:
                self._source = result
        except Exception as error:  # every later wait raises it again
            self._error = self._turn.engine.located(error)
        self._complete = True
        self._pending, self._after = (), ()

    def complete_future(self) -> bool:
        """Sets the result of the future if the operations have ended; returns False if they run."""
        if not self.is_completed():
            return False
        error = self.exception()
        assert self._future is not None
        with contextlib.suppress(RuntimeError):  # a callback of the future has raised
            if error is None:
                self._future.set_result(self._result)
            else:
                self._future.set_exception(error)  # type: ignore[arg-type]
        return True


class _Completer:
    """A thread that completes the futures of started operations."""

    # Not queue.SimpleQueue: get(timeout=...) of CPython 3.11 waits for ever if the timeout expires before it sleeps.

    def __init__(self) -> None:
        self._added: collections.deque[Started] = collections.deque()
        self._wake = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        """True if the thread runs; it takes turns only for a moment."""
        return self._thread is not None and self._thread.is_alive()

    def add(self, work: Started) -> None:
        self._added.append(work)
        self._wake.set()
        with self._starting:
            if not self.runs:  # a forked child has no thread
                self._thread = threading.Thread(target=self._run, name="rankmesh futures", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        running: list[Started] = []
        pause = SHORTEST
        while True:
            pause = SHORTEST if self._wake.wait(pause if running else None) else min(pause * 1.5, LONGEST)
            self._wake.clear()
            while self._added:
                running.append(self._added.popleft())
            running = [work for work in running if not work.complete_future()]


_completer = _Completer()
