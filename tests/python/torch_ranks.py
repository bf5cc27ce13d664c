"""Worlds of torch for tests: of processes that have torch imported already, and of this process alone."""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing
import os
import random
import runpy
import socket
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

LIMIT = 240.0  # seconds for a world: long enough on a machine that is busy with other work
_processes = multiprocessing.get_context("forkserver")
_preloaded = ["pytest", "torch.distributed.device_mesh", "rankmesh.torch"]
_processes.set_forkserver_preload(_preloaded)


def preload(*modules: str) -> None:
    """Has the processes start with these modules imported too; called before the first start."""
    _processes.set_forkserver_preload([*_preloaded, *modules])


def free_port() -> int:
    """A port below those from which the system takes one for whoever calls."""
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return int(free.getsockname()[1])


@contextlib.contextmanager
def fake_world(rank: int, size: int) -> Iterator[None]:
    """This process as one rank of a world of torch's fake backend, whose groups move nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


class NewGroups:
    """Counts the groups that torch makes, by whatever is called of it."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        import torch.distributed as dist

        self.dist, self.original = dist, dist.new_group

    def __enter__(self) -> list[list[int]]:
        @functools.wraps(self.original)
        def counted(ranks: list[int], *args: Any, **options: Any) -> Any:
            self.calls.append(list(ranks))
            return self.original(ranks, *args, **options)

        self.dist.new_group = self.dist.device_mesh.new_group = counted  # type: ignore[assignment]
        return self.calls

    def __exit__(self, *error: object) -> None:
        self.dist.new_group = self.dist.device_mesh.new_group = self.original


def _rank(
    program: Callable[..., Any], rank: int, size: int, store: str | None, args: tuple[Any, ...], out: Connection
) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        if store is not None:
            dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
        result: tuple[bool, Any] = True, program(rank, size, *args)
    except BaseException:
        result = False, traceback.format_exc()
    out.send(result)
    out.poll(LIMIT)  # no rank leaves while others still connect to it
    if dist.is_initialized():
        dist.destroy_process_group()


def example(rank: int, size: int, path: Path, environment: dict[str, str]) -> str:
    """What an example prints on one rank; a program of `ranks`."""
    out = io.StringIO()
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(path), run_name="__main__")
    return out.getvalue()


def ranks(
    size: int,
    program: Callable[..., Any],
    folder: Path,
    *args: Any,
    initialised: bool = True,
    only: Any = None,
    dies: Any = (),
) -> list[Any]:
    """What `program(rank, size, *args)` returns on each rank, or on those of `only`, but those that it kills."""
    store = str(folder / f"store{len(list(folder.iterdir()))}") if initialised else None
    running = []
    for rank in range(size) if only is None else only:
        here, there = _processes.Pipe()
        process = _processes.Process(target=_rank, args=(program, rank, size, store, args, there), daemon=True)
        process.start()
        there.close()
        running.append((rank, process, here))
    results: dict[int, Any] = {}
    wrong = ""
    try:
        for rank, process, here in running:
            if not wait([here], LIMIT):
                raise AssertionError(f"rank {rank} of {size} has not returned from {program.__name__} in {LIMIT:g} s")
            try:
                good, value = here.recv()
            except EOFError:
                process.join()
                if rank in dies:
                    continue
                raise AssertionError(f"rank {rank} of {size} ended with {process.exitcode}") from None
            results[rank] = value
            wrong += "" if good else f"\nrank {rank} of {size}:\n{value}"
        assert not wrong, wrong
        for _, _, here in running:
            here.close()
        for _, process, _ in running:
            process.join(LIMIT)
    finally:
        for _, process, _ in running:
            process.kill()
    return [results[rank] for rank in sorted(results)]


class Counting:
    """A store that counts what is asked of it."""

    def __init__(self, store: Any) -> None:
        self.store, self.requests = store, 0

    def __getattr__(self, name: str) -> Any:
        self.requests += 1
        return getattr(self.store, name)
