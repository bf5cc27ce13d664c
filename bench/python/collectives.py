"""Collectives of rankmesh's Gloo engine beside those of c10d's Gloo backend, in one set of processes and in turn.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/collectives.py --processes 2 4
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import rankmesh
import torch
import torch.distributed as dist
from samples import keep_samples, rounds_of
from torch_bring_up import processes

SIZES = (8, 512, 4096, 65536, 1 << 20, 16 << 20, 64 << 20)
Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def calls_of(dp: Any, size: int, length: int) -> Calls:
    """Ours and c10d's of each operation on the same memory: `part` goes from one rank to one other."""
    part, whole, other = (np.ones(length * n, np.float32) for n in (1, size, size))
    tensor, all_of_it, another = (torch.from_numpy(each) for each in (part, whole, other))
    return {
        "all_reduce": (lambda: dp.all_reduce(part), lambda: dist.all_reduce(tensor)),
        "broadcast": (lambda: dp.broadcast(part), lambda: dist.broadcast(tensor, 0)),
        "all_gather": (lambda: dp.all_gather(part, whole), lambda: dist.all_gather_into_tensor(all_of_it, tensor)),
        "reduce_scatter": (
            lambda: dp.reduce_scatter(whole, part),
            lambda: dist.reduce_scatter_tensor(tensor, all_of_it),
        ),
        "all_to_all": (lambda: dp.all_to_all(whole, other), lambda: dist.all_to_all_single(another, all_of_it)),
    }


def time_of(calls: int, call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return 1e9 * (time.perf_counter() - begin) / calls


def in_turn(dp: Any, rounds: int, calls: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> list[list[float]]:
    """Nanoseconds by round of ours, theirs and theirs again, after a round that is not counted."""
    found: list[list[float]] = [[], [], []]
    for turn in range(rounds + 1):
        for i in range(3):
            which = (i + turn) % 3
            dp.barrier()
            taken = time_of(calls, theirs if which else ours)
            if turn:
                found[which].append(taken)
    return found


def rank_program(rank: int, size: int, store: dist.Store, port: int, most: int) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    os.environ.update(RANKMESH_STORE=f"tcp://127.0.0.1:{port}", RANK=str(rank), WORLD_SIZE=str(size))
    dp = rankmesh.World.from_environment(engine="gloo").join("dp=*").on("dp")
    for length in (each for each in SIZES if each <= most):
        rounds = rounds_of(51 if length <= 65536 else 15 if length <= 1 << 20 else 5)
        calls = max(40 // size, 1) if length <= 65536 else 1
        for name, (ours, theirs) in calls_of(dp, size, length // 4).items():
            found = in_turn(dp, rounds, calls, ours, theirs)
            if rank == 0:
                keep_samples(f"c10d: {name} on {size}/{length}", *found)
                mine, other, again = map(statistics.median, found)
                ratios = f"ratio {mine / other:.3f} (c10d beside itself {again / other:.3f})"
                print(f"{size} processes, {name:15} {length:9} bytes a part: {mine:12.0f} ns, {ratios}", flush=True)
    nothing: tuple[Callable[[], Any], Callable[[], Any]] = (dp.barrier, dist.barrier)
    found = in_turn(dp, rounds_of(51), max(40 // size, 1), *nothing)
    if rank == 0:
        keep_samples(f"c10d: barrier on {size}/0", *found)
    dp.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="bytes of the largest part")
    given = parser.parse_args()
    for name in [each for each in os.environ if each.startswith("RANKMESH_") and each[9:] not in ("SAMPLES", "ROUNDS")]:
        del os.environ[name]
    for size in given.processes:
        port = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).port  # which is free
        processes(size, rank_program, port, given.most)


if __name__ == "__main__":
    main()
