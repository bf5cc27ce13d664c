"""Jobs of torch for tests whose ranks are killed and come back: processes that have torch imported already."""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torch_ranks import _processes, free_port

if TYPE_CHECKING:
    from typing_extensions import Self


def die() -> NoReturn:
    """Ends this process as the system ends one that is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


def _run(program: Callable[..., Any], environment: dict[str, str], args: tuple[Any, ...], out: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ |= environment
    try:
        result: tuple[bool, Any] = True, program(*args)
    except BaseException:
        result = False, traceback.format_exc()
    out.send(result)
    if dist.is_initialized():
        dist.destroy_process_group()


class Job:
    """The processes of one job, which find each other in a folder."""

    def __init__(self, folder: Path, size: int) -> None:
        port = free_port()
        self.environment = {
            "RANKMESH_STORE": str(folder / "store"),
            "RANKMESH_JOB": "elastic",
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        self.running: dict[Connection, tuple[int, Any]] = {}

    def start(self, rank: int, program: Callable[..., Any], *args: Any, **environment: str) -> None:
        """Starts a process as this rank, which runs `program(*args)`."""
        here, there = _processes.Pipe(duplex=False)
        environment = self.environment | {"RANK": str(rank)} | environment
        process = _processes.Process(target=_run, args=(program, environment, args, there), daemon=True)
        process.start()
        there.close()
        self.running[here] = rank, process

    def start_all(self, program: Callable[..., Any], *args: Any) -> None:
        """Starts the processes of all ranks, which run `program(rank, *args)`."""
        for rank in range(int(self.environment["WORLD_SIZE"])):
            self.start(rank, program, rank, *args)

    def ended(self, within: float = 60.0) -> Iterator[tuple[int, Any]]:
        """Yields each rank whose process ends, with the result of its program; None if it was killed."""
        while self.running:
            ready = wait(list(self.running), within)
            assert ready, f"nobody has ended in {within:g} s; {sorted(rank for rank, _ in self.running.values())} run"
            for each in ready:
                assert isinstance(each, Connection)
                rank, process = self.running.pop(each)
                result: Any = None
                with contextlib.suppress(EOFError):
                    good, result = each.recv()
                    assert good, f"rank {rank}:\n{result}"
                process.join(within)
                assert process.exitcode == (-signal.SIGKILL if result is None else 0), f"{rank}: {process.exitcode}"
                yield rank, result

    def results(self, within: float = 60.0) -> list[Any]:
        """Returns what the programs returned, by rank. Killed ranks are left out."""
        results = {rank: result for rank, result in self.ended(within) if result is not None}
        return [results[rank] for rank in sorted(results)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for _, process in self.running.values():
            process.kill()
