"""Collectives of rankmesh's Gloo engine beside those of c10d's Gloo backend, in one set of processes and in turn.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/collectives.py --processes 2 4 --pairs c10d backend
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import rankmesh
import rankmesh.torch
import torch
import torch.distributed as dist
from samples import keep_samples, rounds_of
from torch_bring_up import processes

PAIRS = {
    "c10d": "c10d beside",  # a communicator beside c10d's Gloo
    "backend": "c10d beside",  # torch's calls on the backend rankmesh beside the same on c10d's Gloo
    "checked": "unchecked beside",  # the backend with RANKMESH_CHECK=1 beside without
}
SIZES = (8, 512, 4096, 65536, 1 << 20, 16 << 20, 64 << 20)
Calls = dict[str, Callable[[], Any]]


def calls_of_torch(group: dist.ProcessGroup, size: int, length: int) -> Calls:
    """torch's calls on a group; `part` goes from one rank to one other."""
    part, whole, other = (torch.ones(length * n) for n in (1, size, size))
    return {
        "all_reduce": lambda: dist.all_reduce(part, group=group),
        "broadcast": lambda: dist.broadcast(part, 0, group=group),
        "all_gather": lambda: dist.all_gather_single(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }


def calls_of_communicator(dp: Any, size: int, length: int) -> Calls:
    """The same calls on a communicator of rankmesh."""
    part, whole, other = (np.ones(length * n, np.float32) for n in (1, size, size))
    return {
        "all_reduce": lambda: dp.all_reduce(part),
        "broadcast": lambda: dp.broadcast(part),
        "all_gather": lambda: dp.all_gather(part, whole),
        "reduce_scatter": lambda: dp.reduce_scatter(whole, part),
        "all_to_all": lambda: dp.all_to_all(whole, other),
    }


def time_of(calls: int, call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return 1e9 * (time.perf_counter() - begin) / calls


def in_turn(
    barrier: Callable[[], Any], rounds: int, calls: int, ours: Callable[[], Any], theirs: Callable[[], Any]
) -> list[list[float]]:
    """Nanoseconds by round of ours, theirs and theirs again, after a round that is not counted."""
    found: list[list[float]] = [[], [], []]
    for turn in range(rounds + 1):
        for i in range(3):
            which = (i + turn) % 3
            barrier()
            taken = time_of(calls, theirs if which else ours)
            if turn:
                found[which].append(taken)
    return found


def backend_group(checked: bool) -> dist.ProcessGroup:
    """A group of all ranks on the backend rankmesh."""
    os.environ["RANKMESH_CHECK"] = str(int(checked))
    group = dist.new_group(backend="rankmesh")
    del os.environ["RANKMESH_CHECK"]
    assert isinstance(group, dist.ProcessGroup)
    return group


def rank_program(rank: int, size: int, store: dist.Store, port: int, most: int, pairs: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    os.environ.update(RANKMESH_STORE=f"tcp://127.0.0.1:{port}", RANK=str(rank), WORLD_SIZE=str(size))
    dp = rankmesh.World.from_environment(engine="gloo").join("dp=*").on("dp")
    del os.environ["RANKMESH_STORE"]
    gloo, plain, checked = dist.group.WORLD, backend_group(False), backend_group(True)
    assert gloo is not None
    sides: dict[str, tuple[Callable[[int], Calls], Callable[[int], Calls], Callable[[], Any], Callable[[], Any]]] = {
        "c10d": (
            lambda length: calls_of_communicator(dp, size, length),
            lambda length: calls_of_torch(gloo, size, length),
            dp.barrier,
            dist.barrier,
        ),
        "backend": (
            lambda length: calls_of_torch(plain, size, length),
            lambda length: calls_of_torch(gloo, size, length),
            lambda: dist.barrier(plain),
            dist.barrier,
        ),
        "checked": (
            lambda length: calls_of_torch(checked, size, length),
            lambda length: calls_of_torch(plain, size, length),
            lambda: dist.barrier(checked),
            lambda: dist.barrier(plain),
        ),
    }
    for pair in pairs:
        ours, theirs, barrier, their_barrier = sides[pair]
        measured = [(0, "barrier", barrier, their_barrier)]
        for length in (each for each in SIZES if each <= most):
            other = theirs(length // 4)
            measured += [(length, name, call, other[name]) for name, call in ours(length // 4).items()]
        for length, name, call, their_call in measured:
            rounds = rounds_of(51 if length <= 65536 else 15 if length <= 1 << 20 else 5)
            found = in_turn(dp.barrier, rounds, max(40 // size, 1) if length <= 65536 else 1, call, their_call)
            if rank == 0:
                keep_samples(f"{pair}: {name} on {size}/{length}", *found)
                mine, other_time, again = map(statistics.median, found)
                ratios = f"ratio {mine / other_time:.3f} ({PAIRS[pair]} itself {again / other_time:.3f})"
                print(
                    f"{pair}, {size} processes, {name:15} {length:9} bytes a part: {mine:12.0f} ns, {ratios}",
                    flush=True,
                )
    dp.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="bytes of the largest part")
    parser.add_argument("--pairs", nargs="*", choices=PAIRS, default=["c10d"])
    given = parser.parse_args()
    for name in [each for each in os.environ if each.startswith("RANKMESH_") and each[9:] not in ("SAMPLES", "ROUNDS")]:
        del os.environ[name]
    for size in given.processes:
        port = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).port  # which is free
        processes(size, rank_program, port, given.most, given.pairs)


if __name__ == "__main__":
    main()
