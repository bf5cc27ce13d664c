"""Seconds of `rankmesh.torch.init` beside `init_device_mesh` over Gloo, in an initialised world and from nothing.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/torch_start.py --processes 2 4 8 16 32 64
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import rankmesh
import rankmesh.torch
import torch.distributed as dist
from samples import keep_samples, rounds_of
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch_bring_up import end, processes, spread

MESHES = ("dp=*", "dp=* tp=2", "pp=2 dp=* tp=2", "pp=2 dp=* cp=2 tp=2")
OURS, TORCH, AGAIN = "rankmesh", "torch", "torch again"
STARTS = ("initialised", "from nothing", "initialised, torchrun", "from nothing, torchrun")  # torchrun: its store

BringUp = Callable[[str, int, int, int], Any]  # mesh, rank, size and a port for a store; returns what `end` ends


def by_rankmesh(mesh: str, rank: int, size: int, port: int) -> Any:
    if dist.is_initialized():
        return rankmesh.torch.init(mesh)
    url = f"tcp://127.0.0.1:{port}"
    return rankmesh.torch.init(mesh, backend="gloo", init_method=url, rank=rank, world_size=size)


def by_torch(mesh: str, rank: int, size: int, port: int) -> Any:
    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    shape = rankmesh.Mesh(mesh, size)
    return device_mesh.init_device_mesh("cpu", tuple(shape.shape), mesh_dim_names=tuple(shape.axes))


CONTESTANTS: dict[str, BringUp] = {OURS: by_rankmesh, TORCH: by_torch, AGAIN: by_torch}


class Meeting:
    """A barrier over the benchmark's own store, which waits without requests."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self.store, self.rank, self.size, self.number = store, rank, size, 0

    def meet(self, said: str = "") -> str:
        """Returns what rank 0 has said when all ranks are here."""
        self.number += 1
        key = f"meeting {self.number}"
        if self.rank == 0:
            self.store.set(key + " said", said)
        if self.store.add(key, 1) == self.size:
            self.store.set(key + " full", "")
        self.store.wait([key + " full"])
        return self.store.get(key + " said").decode()


def times(
    rank: int, size: int, store: dist.Store, meshes: list[str], start: str, rounds: int
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Seconds and processor seconds on this rank, by mesh and contestant, in rounds of random order."""
    meeting = Meeting(store, rank, size)
    initialised, by_torchrun = start.startswith("initialised"), start.endswith("torchrun")
    if by_torchrun:
        os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    if initialised:
        dist.init_process_group("gloo", store=dist.PrefixStore("world", store), rank=rank, world_size=size)
    found: dict[str, dict[str, list[tuple[float, float]]]] = {m: {name: [] for name in CONTESTANTS} for m in meshes}
    orders = random.Random(size)
    gc.collect()
    gc.freeze()  # what was loaded stays
    for turn in range(rounds + 1):
        for mesh in meshes:
            for name in orders.sample(list(CONTESTANTS), len(CONTESTANTS)):
                before = set(c10d._world.pg_map)
                rankmesh.torch._start._ids.clear()  # or ranks have found each other once for all
                agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
                port = 0 if agent is None else agent.port
                if not by_torchrun:
                    agent = None
                port = int(meeting.meet(str(port)))
                begin, used = time.perf_counter(), time.process_time()
                made = CONTESTANTS[name](mesh, rank, size, port)
                taken = time.perf_counter() - begin, time.process_time() - used
                meeting.meet()
                end(before, made, None)
                del made
                meeting.meet()
                if not initialised and dist.is_initialized():
                    dist.destroy_process_group()
                gc.collect()  # or groups in cycles end inside another's time
                meeting.meet()
                if turn:  # the first round loads what is loaded late
                    found[mesh][name].append(taken)
    return found


def say(size: int, mesh: str, start: str, ranks: list[Any], rounds: int) -> None:
    slowest = {n: [max(rank[mesh][n][turn][0] for rank in ranks) for turn in range(rounds)] for n in CONTESTANTS}
    used = {n: sum(each[1] for rank in ranks for each in rank[mesh][n]) for n in CONTESTANTS}
    ns = {name: [1e9 * each for each in values] for name, values in slowest.items()}
    keep_samples(f"init beside init_device_mesh, {mesh}, {start}/{size}", ns[OURS], ns[TORCH], ns[AGAIN])
    if rounds < 3:
        return
    pairs = [2 * a / (b + c) for a, b, c in zip(*slowest.values(), strict=True)]
    noise = [c / b for b, c in zip(slowest[TORCH], slowest[AGAIN], strict=True)]
    medians = {name: 1e3 * statistics.median(values) for name, values in slowest.items()}
    print(
        f"{size:3} {mesh:20} {start:22} {medians[OURS]:8.2f} ms beside {medians[TORCH]:8.2f}: ratio {spread(pairs)}, "
        f"torch again {spread(noise)}, processor time {2 * used[OURS] / (used[TORCH] + used[AGAIN]):.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4, 8], help="worlds to time")
    parser.add_argument("--meshes", nargs="*", default=MESHES)
    parser.add_argument("--starts", nargs="*", default=STARTS)
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rounds = rounds_of(given.rounds)
    print("medians of the slowest rank's milliseconds; ratios to the mean of both of torch's: median and quartiles")
    for size in given.processes:
        meshes = []
        for mesh in given.meshes:
            with contextlib.suppress(rankmesh.Error):  # the mesh does not divide this number of ranks
                rankmesh.Mesh(mesh, size)
                meshes.append(mesh)
        for start in given.starts:
            ranks = processes(size, times, meshes, start, rounds)
            for mesh in meshes:
                say(size, mesh, start, ranks, rounds)


if __name__ == "__main__":
    sys.exit(main())
