"""How ranks of one start find each other in a store that still has the data of earlier starts.

When torchrun restarts ranks, its agent keeps the store. No environment variable is both new and equal on all ranks,
because each agent counts only the restarts of its own ranks. Therefore each rank writes a random text, and rank 0
answers it with the id of the start, which is also random. Only a rank 0 that is alive after the text was written can
answer.

A rank that stops waiting leaves a note with the time. A rank that finds a note newer than its own process is late;
an older note belongs to an earlier start.
"""

from __future__ import annotations

import datetime
import os
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rankmesh.torch._agree import note, read
from rankmesh.torch._errors import EngineFailure


def store_outlives_ranks() -> bool:
    """Returns True under a torchrun whose ranks use the store of its agent."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def give_up(store: Any, awaited: str, arrived: Iterable[int]) -> None:
    """Leaves a note that these ranks have stopped waiting for `awaited`, which is "rank 0" or "others"."""
    note(store, f"gave up {awaited}", f"{time.time()} {' '.join(map(str, arrived))}")


def given_up(store: Any, awaited: str) -> list[int]:
    """Returns the ranks that have stopped waiting for `awaited` since this process began; each note only once."""
    global _since
    key = f"gave up {awaited}"
    lines = read(store, key).splitlines()
    if not lines:
        return []
    since = _since or _began()
    notes = [(float(time), map(int, ranks)) for time, *ranks in map(str.split, lines)]
    notes = [(time, ranks) for time, ranks in notes if time > since]
    if notes:
        _since = max(time for time, _ in notes)
    return sorted({rank for _, ranks in notes for rank in ranks})


_since: float | None = None  # the time of the last note that this process has seen


def _began() -> float:
    """Returns when this process began, like time.time()."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def lead(store: Any) -> tuple[str, Callable[[float], bool]]:
    """On rank 0: returns the id of a new start, and a function that answers ranks; call it repeatedly.

    The function waits for a ring, at most as many seconds as it is passed, and returns True if a rank asked.
    """
    start = secrets.token_hex(8)
    store.set("gave up others", "")  # ranks that arrive now are answered

    def answer(seconds: float) -> bool:
        try:
            store.wait(["rung"], datetime.timedelta(seconds=max(seconds, 0.001)))
        except dist.DistNetworkError:
            raise
        except RuntimeError:  # the timeout
            return False
        store.delete_key("rung")  # before it reads: who asks from now on rings again
        if asked := read(store, "asked"):
            keys = [f"start of {text}" for text in asked.split()]
            store.multi_set(keys, [start] * len(keys))
            store.compare_set("asked", asked, "")  # not if another rank has asked meanwhile
        return bool(asked)

    return start, answer


def ring(store: Any) -> None:
    """Wakes rank 0, which waits in `answer`."""
    store.set("rung", "")


def ask(store: dist.Store) -> str:
    """On another rank: asks for the id of this start with a random text."""
    text = secrets.token_hex(8)
    note(store, "asked", text)
    ring(store)
    return text


def hear(store: dist.Store, text: str, timeout: datetime.timedelta) -> str | None:
    """Returns rank 0's answer to this text, the id of this start; None if rank 0 does not answer."""
    try:
        store.wait([f"start of {text}"], timeout)
    except dist.DistNetworkError as error:
        raise EngineFailure(f"torch's store is gone while the ranks of a start look for each other: {error}") from None
    except RuntimeError:  # the timeout; each store raises its own type
        return None
    return read(store, f"start of {text}")
