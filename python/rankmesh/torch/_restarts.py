"""How ranks find those of their own start in a store that holds what the ranks of earlier starts wrote.

Where torchrun restarts ranks, its agent keeps its store, and no variable is new and equal on all ranks: each agent
counts the restarts of its own ranks alone. So each rank writes a random text, and rank 0 answers it with the id of the
start, which is random too. Only a rank 0 that lives after the text was written can have answered.

Who gives up waiting leaves a note with the time. A rank that finds a note which is younger than its own process is the
late one; an older note is of an earlier start.
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
from torch._C._distributed_c10d import Store

from rankmesh._errors import EngineFailure
from rankmesh.torch._agree import note


def store_outlives_ranks() -> bool:
    """True under a torchrun that has the ranks use the store of its agent."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def give_up(store: Any, awaited: str, arrived: Iterable[int]) -> None:
    """Leaves a note that these ranks have given up to wait for `awaited`, which is "rank 0" or "others"."""
    note(store, f"gave up {awaited}", f"{time.time()} {' '.join(map(str, arrived))}")


def given_up(store: Any, awaited: str) -> list[int]:
    """The ranks that have given up `awaited` since this process began; each note is told once."""
    global _since
    key = f"gave up {awaited}"
    if not store.check([key]):
        return []
    since = _since or _began()
    notes = [(float(time), map(int, ranks)) for time, *ranks in map(str.split, store.get(key).decode().splitlines())]
    notes = [(time, ranks) for time, ranks in notes if time > since]
    if notes:
        _since = max(time for time, _ in notes)
    return sorted({rank for _, ranks in notes for rank in ranks})


_since: float | None = None  # when the last note was written that this process was told


def _began() -> float:
    """When this process began, as time.time() counts."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def lead(store: Any) -> tuple[str, Callable[[], None]]:
    """On rank 0: the id of a new start, and what tells it to those that have asked, to be called again and again."""
    start = secrets.token_hex(8)
    store.append("asked", "")  # a get of nothing would wait
    store.set("gave up others", "")  # those who come now are answered

    def answer() -> None:
        asked = store.get("asked").decode()
        if asked:
            keys = [f"start of {text}" for text in asked.split()]
            store.multi_set(keys, [start] * len(keys))
            store.compare_set("asked", asked, "")  # not where another has asked meanwhile

    return start, answer


def ask(store: Store) -> str:
    """On another rank: asks for the id of this start, by a text of its own."""
    text = secrets.token_hex(8)
    note(store, "asked", text)
    return text


def hear(store: Store, text: str, timeout: datetime.timedelta) -> str | None:
    """The id of this start, which rank 0 answers to this text; None where it does not."""
    try:
        store.wait([f"start of {text}"], timeout)
    except dist.DistNetworkError as error:
        raise EngineFailure(f"torch's store is gone while the ranks of a start look for each other: {error}") from None
    except RuntimeError:  # the timeout, of which each store has its own kind
        return None
    return str(store.get(f"start of {text}"), "utf-8")
