"""Adopts an initialised torch.distributed, or initialises it after the plans were compared.

How ranks of one start find each other in a store that still has the data of earlier starts.

When torchrun restarts ranks, its agent keeps the store. No environment variable is both new and equal on all ranks,
because each agent counts only the restarts of its own ranks. Therefore each rank writes a random text, and rank 0
answers it with the id of the start, which is also random. Only a rank 0 that is alive after the text was written can
answer.

A rank that stops waiting leaves a note with the time. A rank that finds a note newer than its own process is late;
an older note belongs to an earlier start.
"""

from __future__ import annotations

import collections
import datetime
import hashlib
import os
import secrets
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.rendezvous import rendezvous

from rankmesh._errors import UsageError
from rankmesh.torch import _agree
from rankmesh.torch._agree import Where, late, note, read
from rankmesh.torch._compat import PrefixStore, Store, TCPStore, default_group, default_store
from rankmesh.torch._errors import EngineFailure, Timeout
from rankmesh.torch._gloo import connecting
from rankmesh.torch._groups import log_made
from rankmesh.torch.backend import default_backend

DEFAULT_TIMEOUT = c10d.default_pg_timeout

_inits: weakref.WeakKeyDictionary[dist.ProcessGroup, collections.Counter[str]] = weakref.WeakKeyDictionary()
_ids: weakref.WeakKeyDictionary[dist.ProcessGroup, str] = weakref.WeakKeyDictionary()  # of starts, in prefixes of keys
_starts = 0


@dataclass
class Start:
    """This rank, the size of the world, and a store that all ranks reach."""

    rank: int
    size: int
    store: Store
    key: str  # what no other init over this store is called
    torch_store: Store | None = None  # what torch.distributed is yet to be initialised on; None if it is
    answer: Callable[[float], bool] | None = None  # what rank 0 calls while it waits for the others
    shared: Store | None = None
    """The store that earlier starts have used, too, once this start is separated from their data."""

    @property
    def is_parted(self) -> bool:
        """True if the store has no data of earlier starts, or only under other keys."""
        default = dist.group.WORLD
        return not store_outlives_ranks() or (default is not None and default in _ids)

    def agree(
        self,
        description: str,
        timeout: datetime.timedelta,
        where: Where,
        ranks: Sequence[int] | None = None,
        what: str = "init",
    ) -> None:
        """Returns when `ranks`, by default all, have passed equal descriptions.

        Otherwise raises Disagreement or Timeout on each of them. `what` is the name of the user's call, and `where`
        returns the coordinates of ranks as text.
        """
        ranks = range(self.size) if ranks is None else ranks
        decided = _agree.arrive(self.store, self.rank, len(ranks), description)
        outcome = decided or _agree.hear(self.store, len(ranks), timeout, self.answer)
        if self.shared is not None and self.rank != 0 and (decided or outcome != "agree"):
            ring(self.shared)  # rank 0 may wait in `answer`
        if outcome == "agree":
            return
        if outcome == "differ":
            _agree.raise_disagreement(self.store, self.rank, description, timeout)
        arrived = sorted(map(int, outcome.split()[1:]))  # when the timeout expired
        missing = sorted(set(ranks) - set(arrived))
        if self.shared is not None and self.rank == 0:
            give_up(self.shared, "others", arrived)
        _agree.linger(self.store, len(arrived))
        raise late(timeout, self.rank, arrived, missing, where, what=what)

    def part_from_earlier(self, timeout: datetime.timedelta, where: Where) -> None:
        """Separates this start from data of earlier starts that the store may hold. Every rank calls it.

        `where` returns the coordinates of ranks as text.
        """
        if self.is_parted:
            return
        default, store, rank = dist.group.WORLD, self.store, self.rank
        if rank == 0:
            if arrived := given_up(store, "rank 0"):
                raise late(timeout, rank, arrived, [0], where)
            start, self.answer = lead(store)
        else:
            arrived = given_up(store, "others")
            if arrived and rank not in arrived:
                raise late(timeout, rank, arrived, [each for each in range(self.size) if each not in arrived], where)
            heard = hear(store, ask(store), timeout)
            if heard is None:
                give_up(store, "rank 0", [rank])
                why = "rank 0, which tells the others the id of this start, has not answered; "
                raise late(timeout, rank, [rank], [0], where, why)
            start = heard
        self.shared, self.store = store, PrefixStore(start, store)
        if self.torch_store is not None:
            self.torch_store = PrefixStore(start, self.torch_store)
        else:
            assert default is not None
            _ids[default] = start
            self.key += f" of {start}"


def digest(ranks: Sequence[int]) -> str:
    """Returns a short text for ranks in their order."""
    return hashlib.sha256(str(list(ranks)).encode()).hexdigest()[:16]


def adopt(ranks: Sequence[int] | None = None) -> Start:
    """Returns the world of the initialised torch.distributed; each call uses its own key.

    Exactly `ranks` call it; default: every rank of the world.
    """
    default = default_group()
    among = "" if ranks is None else f" among {digest(ranks)}"
    numbers = _inits.setdefault(default, collections.Counter())
    numbers[among] += 1
    start = _ids.get(default)
    key = f"rankmesh {numbers[among]}{among}" + (f" of {start}" if start else "")
    return Start(dist.get_rank(), dist.get_world_size(), PrefixStore(key, default_store()), key)


def begin(
    init_method: str | None, rank: int | None, world_size: int | None, store: Store | None, timeout: datetime.timedelta
) -> Start:
    """Returns the world with which to initialise torch.distributed: rank, size and store, but initialises nothing."""
    global _starts
    _starts += 1  # also of a start that fails: all ranks count alike
    if store is not None:
        if rank is None or world_size is None:
            raise UsageError("init was given a store without rank and world_size; give both")
    else:
        store, rank, world_size = _rendezvous(init_method or "env://", rank, world_size, timeout)
    store = PrefixStore(f"rankmesh start {_starts}", store)
    return Start(rank, world_size, PrefixStore("plan", store), "rankmesh 0", store)


def _rendezvous(
    url: str, rank: int | None, world_size: int | None, timeout: datetime.timedelta
) -> tuple[Store, int, int]:
    """Like torch's rendezvous, which waits in the store for all ranks but does not say which ranks are missing."""
    parts = urlparse(url)
    if parts.scheme not in ("env", "tcp") or parts.query:
        numbers = (-1 if rank is None else rank, -1 if world_size is None else world_size)
        store, rank, size = next(rendezvous(url, *numbers, timeout=timeout))
        return store, rank, size
    rank = _number("rank", "RANK", rank)
    size = _number("world_size", "WORLD_SIZE", world_size)
    if parts.scheme == "env":
        host, port = _variable("MASTER_ADDR"), _number("the port", "MASTER_PORT", None)
    elif parts.hostname is None or parts.port is None:
        raise UsageError(f"the init_method '{url}' lacks a host or a port; it is as tcp://10.0.0.1:29500")
    else:
        host, port = parts.hostname, parts.port
    serves = rank == 0 and not store_outlives_ranks()
    try:
        if rank != 0 and not store_outlives_ranks():
            _await_server(host, port, timeout)
        store = TCPStore(host, port, None, is_master=serves, timeout=timeout, wait_for_workers=False, multi_tenant=True)
    except (dist.DistNetworkError, ConnectionRefusedError) as error:
        if serves:
            raise
        raise Timeout(
            f"rank {rank} of {size} found no store at {host}:{port}, where rank 0 keeps it: rank 0 has not come, or it "
            f"gave up before rank {rank} came and has ended ({error})",
            [rank],
            [0],
        ) from None
    return store, rank, size


def _await_server(host: str, port: int, timeout: datetime.timedelta) -> None:
    """Waits until a port accepts connections. A TCPStore that comes too early sleeps for up to a second instead."""
    begin = now = time.monotonic()
    while True:
        try:
            socket.create_connection((host, port), timeout.total_seconds()).close()
            return
        except ConnectionRefusedError:
            now = time.monotonic()
            if now - begin > timeout.total_seconds():
                raise
            time.sleep(min(max((now - begin) / 4, 0.001), 0.1))
        except OSError:
            return  # TCPStore says what is wrong


def _variable(name: str) -> str:
    if value := os.environ.get(name):
        return value
    raise UsageError(f"init by env:// reads the environment variable {name}, which is not set; torchrun sets it")


def _number(what: str, variable: str, given: int | None) -> int:
    if given is not None:
        return given
    text = _variable(variable)
    if not text.isdecimal():
        raise UsageError(f"{what} is {text!r} in the environment variable {variable}; it must be a whole number")
    return int(text)


def initialise(start: Start, backend: str | None, device: torch.device | None, timeout: datetime.timedelta) -> None:
    """Initialises torch.distributed on the world that `begin` found."""
    moment = time.monotonic()
    with connecting():
        dist.init_process_group(
            backend or default_backend(),
            store=start.torch_store,
            rank=start.rank,
            world_size=start.size,
            timeout=timeout,
            device_id=device if device is not None and device.index is not None else None,
        )
    _ids[default_group()] = ""
    log_made("the world", default_group(), moment)


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


def ask(store: Store) -> str:
    """On another rank: asks for the id of this start with a random text."""
    text = secrets.token_hex(8)
    note(store, "asked", text)
    ring(store)
    return text


def hear(store: Store, text: str, timeout: datetime.timedelta) -> str | None:
    """Returns rank 0's answer to this text, the id of this start; None if rank 0 does not answer."""
    try:
        store.wait([f"start of {text}"], timeout)
    except dist.DistNetworkError as error:
        raise EngineFailure(f"torch's store is gone while the ranks of a start look for each other: {error}") from None
    except RuntimeError:  # the timeout; each store raises its own type
        return None
    return read(store, f"start of {text}")
