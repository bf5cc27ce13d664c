"""Until every process knows a line of every other, through one that serves: a world beside torch's TCPStore.

Both begin with nothing but the address of rank 0, on a port that is new for each round. Ours is the start of a world,
in which the ranks share their hosts and networks; torch's is a TCPStore, in which each rank sets such a line and gets
those of all.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/tcp_bring_up.py --processes 2 4 8 16 32 64
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import rankmesh
import torch.distributed as dist
from samples import keep_samples, rounds_of

LIMIT = 120.0  # seconds for a round
LINE = "{} 12345678901234567890 46 a-host-name\n"  # as long as ours


def ours(rank: int, size: int, port: int) -> Any:
    os.environ.update(RANKMESH_STORE=f"tcp://127.0.0.1:{port}", RANK=str(rank), WORLD_SIZE=str(size))
    return rankmesh.World.from_environment(engine="gloo", timeout=LIMIT)


def torchs(rank: int, size: int, port: int) -> Any:
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, wait_for_workers=False)
    store.set(f"line/{rank}", LINE.format(rank))
    lines = store.multi_get([f"line/{each}" for each in range(size)])
    assert len(lines) == size
    return store


CONTESTANTS: dict[str, Callable[[int, int, int], Any]] = {
    "rankmesh, tcp://": ours,
    "torch's TCPStore": torchs,
    "TCPStore again": torchs,
}


def serve(rank: int, size: int, pipe: Connection) -> None:
    while (told := pipe.recv()) is not None:
        name, port, begin = told
        time.sleep(max(0.0, begin - time.monotonic()))
        made = CONTESTANTS[name](rank, size, port)
        pipe.send(time.monotonic() - begin)
        pipe.recv()  # all have come
        if isinstance(made, rankmesh.World):
            made.close()
        del made
        pipe.send(None)
    os._exit(0)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(pipes: Sequence[Connection]) -> list[Any]:
    found = []
    for pipe in pipes:
        if not wait([pipe], LIMIT):
            raise TimeoutError(f"a process has not answered in {LIMIT:g} s")
        found.append(pipe.recv())
    return found


def times(size: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds until the slowest process is through, for each contestant and round."""
    context = multiprocessing.get_context("fork")
    running, pipes = [], []
    for rank in range(size):
        here, there = context.Pipe()
        running.append(context.Process(target=serve, args=(rank, size, there), daemon=True))
        running[-1].start()
        pipes.append(here)
    found: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    orders = random.Random(size)
    try:
        for turn in range(rounds + 1):
            for name in orders.sample([*CONTESTANTS], len(CONTESTANTS)):
                told = (name, free_port(), time.monotonic() + 0.02 + 0.0005 * size)
                for pipe in pipes:
                    pipe.send(told)
                slowest = max(answers(pipes))
                for pipe in pipes:
                    pipe.send(None)
                answers(pipes)
                if turn:  # the first round loads what is loaded late
                    found[name].append(1e3 * slowest)
        for pipe in pipes:
            pipe.send(None)
    finally:
        for process in running:
            process.join(1)
            process.kill()
    return found


def spread(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    for name in [each for each in os.environ if each.startswith("RANKMESH_") and each[9:] not in ("SAMPLES", "ROUNDS")]:
        del os.environ[name]
    rounds = rounds_of(given.rounds)
    first, other, again = CONTESTANTS
    for size in given.processes:
        found = times(size, rounds)
        nanoseconds = ([1e6 * each for each in found[name]] for name in CONTESTANTS)
        keep_samples(f"start of a world beside TCPStore/{size}", *nanoseconds)
        if len(found[first]) < 3:
            continue
        print(f"{size} processes: the slowest one's time in {rounds} rounds, median and quartiles")
        for name, values in found.items():
            print(f"  {name:20} {spread(values)} ms")
        for one, beside in ((first, other), (again, other)):
            ratios = [mine / theirs for mine, theirs in zip(found[one], found[beside], strict=True)]
            print(f"  {one} / {beside}: {spread(ratios)}", flush=True)


if __name__ == "__main__":
    main()
