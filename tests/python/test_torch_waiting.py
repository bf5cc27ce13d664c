"""rankmesh+BACKEND names who is missing from calls that wait on a device, where no thread waits for them."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch
import torch.distributed as dist
from rankmesh import Disagreement, PeerLost, Timeout
from rankmesh.torch.backend import _create, _watched
from rankmesh.torch.backend._watched import WatchedGroup
from torch_ranks import LIMIT, ranks


class Silent(dist.ProcessGroup):
    """A backend of a device as a rank sees it: calls return at once. They complete when a test or an abort says so."""

    def __init__(self, options: Any, pg_options: object) -> None:
        super().__init__(options.group_rank, options.group_size)
        self.aborted = threading.Event()
        self.completed, self.numbers = 0, itertools.count(1)
        self._name = ""

    def allreduce(self, *arguments: Any) -> None:
        return None

    def send(self, *arguments: Any) -> None:
        return None

    def _get_backend(self, device: torch.device) -> Any:
        return self

    def recorded(self, device: torch.device) -> Callable[[], bool]:
        number = next(self.numbers)
        return lambda: number <= self.completed or self.aborted.is_set()

    def abort(self) -> None:
        self.aborted.set()

    shutdown = abort
    _device_types = (torch.device("cpu"),)
    group_name = property(lambda self: self._name)
    group_desc = ""
    supports_splitting = False

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None: ...


def waits(rank: int, size: int, store: str, seconds: float, program: Callable[[int, Silent], object]) -> object:
    dist.Backend.register_backend("silent", Silent, extended_api=True, devices=["cpu"])
    around = functools.partial(_create, "silent")
    dist.Backend.register_backend("rankmesh+silent", around, extended_api=True, devices=["cpu"])
    dist.init_process_group(
        "rankmesh+silent",
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=seconds),
    )
    group = dist.group.WORLD
    assert isinstance(group, WatchedGroup)
    assert isinstance(group.wrapped, Silent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WatchedGroup, "_device", lambda self, arguments: torch.device("cpu"))
        patch.setattr(_watched, "recorded", group.wrapped.recorded)
        return program(rank, group.wrapped)


def error_of_the_next_call(silent: Silent) -> tuple[type[Exception], str]:
    """The error of the call after the watch has ended the backend, and after all other ranks have theirs."""
    assert silent.aborted.wait(LIMIT)
    with pytest.raises(RuntimeError) as found:
        dist.all_reduce(torch.ones(4))
    store = dist.distributed_c10d._get_default_group().get_group_store()
    store.set(f"told {dist.get_rank()}", "")
    return type(found.value), str(found.value)


def one_does_not_come(rank: int, silent: Silent) -> object:
    if rank == 1:
        store = dist.distributed_c10d._get_default_group().get_group_store()
        return store.wait(["told 0", "told 2"], timedelta(seconds=LIMIT))
    dist.all_reduce(torch.ones(4))
    return error_of_the_next_call(silent)


def test_a_rank_that_does_not_come_is_named_before_the_timeout(tmp_path: Path) -> None:
    for kind, text in ranks(3, waits, tmp_path, str(tmp_path / "own"), 4.0, one_does_not_come, initialised=False)[::2]:
        assert issubclass(kind, Timeout)
        assert text.startswith("call number 1 on silent, allreduce of 4 float32 by sum, has not completed in ")
        assert text.endswith(
            " s: arrived ranks {0, 2}, missing rank 1; 'world' of mesh world=3 cannot be used any more"
        )


def they_call_different_things(rank: int, silent: Silent) -> object:
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(7), op=dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)
    if rank == 2:
        dist.all_reduce(torch.ones(4))
    silent.completed = 1
    return error_of_the_next_call(silent)


def test_ranks_that_wait_in_different_calls_are_named(tmp_path: Path) -> None:
    program = they_call_different_things
    for kind, text in ranks(3, waits, tmp_path, str(tmp_path / "own"), 4.0, program, initialised=False):
        assert issubclass(kind, Disagreement)
        assert "call number 2 on 'world' of mesh world=3 is not the same on all its ranks:" in text
        assert "  rank 1: allreduce of 7 float32 by max" in text
        assert "  ranks {0, 2}: allreduce of 7 float32 by sum" in text


def a_slow_call(rank: int, silent: Silent) -> object:
    store = dist.distributed_c10d._get_default_group().get_group_store()
    if rank == 0:
        dist.send(torch.ones(4), 1)  # which does not change the numbers of collectives
        silent.completed = 1
    dist.all_reduce(torch.ones(4))
    while not store.check([_watched.KEY]):  # a rank is out of time
        time.sleep(0.01)
    store.set(f"rank {rank} has seen it", "")
    store.wait([f"rank {each} has seen it" for each in range(3)])
    while store.check([_watched.KEY]):  # all have met, and are in the same call
        time.sleep(0.01)
    silent.completed = 2
    dist.all_reduce(torch.ones(4))
    silent.completed = 3
    dist.all_reduce(torch.ones(4))
    return silent.aborted.is_set()


def test_a_slow_call_that_all_ranks_are_in_goes_on(tmp_path: Path) -> None:
    assert ranks(3, waits, tmp_path, str(tmp_path / "own"), 8.0, a_slow_call, initialised=False) == [False] * 3


def one_dies(rank: int, silent: Silent) -> object:
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        os._exit(0)
    return error_of_the_next_call(silent)


def test_a_process_that_dies_is_named_at_once(tmp_path: Path) -> None:
    found = ranks(3, waits, tmp_path, str(tmp_path / "own"), 10 * LIMIT, one_dies, initialised=False, dies=[1])
    for kind, text in found:
        assert issubclass(kind, PeerLost)
        assert "rank 1 is gone: its process has ended or cannot be reached" in text
