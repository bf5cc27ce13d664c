"""Started operations as c10d's Work, and the thread that completes their futures."""

from __future__ import annotations

import contextlib
import datetime
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from rankmesh._engine import Pending

UNSET = datetime.timedelta(milliseconds=-1)  # c10d's kUnsetTimeout
NO_TIMEOUT = datetime.timedelta(0)  # c10d's kNoTimeout: wait as long as the group's timeout
SHORTEST, LONGEST = 0.00002, 0.002  # seconds between two looks at a pending operation


class Turn:
    """Lets the threads of a process use a communicator in turn, because it accepts one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = 0
        self.shared = False
        """True if more than one thread has used the communicator."""

    def __enter__(self) -> None:
        self._lock.acquire()
        thread = threading.get_ident()
        if thread != self._thread:
            self.shared = self._thread != 0
            self._thread = self._thread or thread

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Started(Work):
    """Operations that run; `after` copies their results to where the caller wants them."""

    def __init__(
        self,
        turn: Turn,
        pending: Sequence[Pending[Any]],
        result: list[torch.Tensor],
        after: Sequence[Callable[[], None]] = (),
        source: int = -1,
    ) -> None:
        super().__init__()
        self._turn, self._pending, self._result, self._after, self._source = turn, pending, result, after, source
        self._error: BaseException | None = None
        self._complete = False
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def wait(self, timeout: datetime.timedelta = NO_TIMEOUT) -> bool:
        """Returns when the operations are complete; raises their error, or Timeout."""
        within = timeout if timeout > NO_TIMEOUT else None
        if self._turn.shared:
            self._look_until_done(within)
        with self._turn:
            self._finish(within)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Returns True if `wait` would return at once."""
        with self._turn:
            return self._complete or all(each.done() for each in self._pending)

    def is_success(self) -> bool:
        """Returns True if the operations have ended without an error."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """Returns the error of operations that have ended; None if they run or have none."""
        with self._turn:
            if self.is_completed():
                self._finish(None)
            return self._error

    def result(self) -> list[torch.Tensor]:
        """Returns the tensors that were written."""
        return self._result

    def source_rank(self) -> int:
        """Returns the rank that a message came from."""
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Waits, because tensors are in host memory."""
        self.wait()

    def block_current_stream(self) -> None:
        """Waits, because tensors are in host memory."""
        self.wait()

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

    def _look_until_done(self, within: datetime.timedelta | None) -> None:
        """Waits without keeping other threads from the communicator."""
        until = time.monotonic() + within.total_seconds() if within is not None else None
        pause = SHORTEST
        while not self.is_completed() and (until is None or time.monotonic() < until):
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST)

    def _finish(self, within: datetime.timedelta | None) -> None:
        if self._complete:
            return
        try:
            for each in self._pending:
                each.wait(within)
            for copy in self._after:
                copy()
        except Exception as error:  # every later wait raises it again
            self._error = error
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

    def __init__(self) -> None:
        self._added: queue.SimpleQueue[Started] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, work: Started) -> None:
        self._added.put(work)
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a forked child has no thread
                self._thread = threading.Thread(target=self._run, name="rankmesh futures", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        running: list[Started] = []
        pause = SHORTEST
        while True:
            try:
                running.append(self._added.get(timeout=pause if running else None))
                pause = SHORTEST
            except queue.Empty:
                pause = min(pause * 1.5, LONGEST)
            running = [work for work in running if not work.complete_future()]


_completer = _Completer()
