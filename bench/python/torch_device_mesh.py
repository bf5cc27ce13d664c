"""DeviceMeshes with rankmesh.torch.install() beside torch's: groups of a rank, and seconds over Gloo as ratios.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/torch_device_mesh.py
"""

from __future__ import annotations

import contextlib
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import rankmesh.torch
import torch.distributed as dist
from samples import rounds_of
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch_bring_up import processes

ROUNDS = 40


def two_by_two() -> Any:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def two_by_two_by_two() -> Any:
    return init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))


def with_flattened() -> Any:
    mesh = two_by_two_by_two()
    return mesh, mesh["dp", "cp"]._flatten(), mesh["cp", "tp"]._flatten()


def views_of_a_world() -> Any:
    """Meshes of one world for dense layers, experts and data, as torchtitan makes them."""
    world = init_device_mesh("cpu", (8,), mesh_dim_names=("world",))
    return (
        world._unflatten(0, (2, 1, 2, 2), ("pp", "dp", "cp", "tp")),
        world._unflatten(0, (2, 1, 2, 2), ("pp", "edp", "ep", "etp")),
        world._unflatten(0, (2, 2, 2), ("pp", "batch", "tp")),
    )


SCENES: dict[str, tuple[int, Callable[[], Any]]] = {
    "(2, 2)": (4, two_by_two),
    "(2, 2, 2)": (8, two_by_two_by_two),
    "(2, 2, 2) and two flattened": (8, with_flattened),
    "three views of 8 ranks": (8, views_of_a_world),
}


@contextlib.contextmanager
def counted(rank: int, found: list[int]) -> Any:
    """Appends the calls of new_group, and how many of them create a group of this rank."""
    calls, original = [], dist.new_group

    def new_group(ranks: Any, *args: Any, **options: Any) -> Any:
        calls.append(rank in ranks)
        return original(ranks, *args, **options)

    dist.new_group = dist.device_mesh.new_group = new_group
    try:
        yield
    finally:
        dist.new_group = dist.device_mesh.new_group = original
        found += [len(calls), sum(calls)]


def measure(rank: int, size: int, store: dist.Store, make: Callable[[], Any], rounds: int) -> Any:
    """Counts of torch's and ours, and seconds on this rank for torch's, ours, and torch's once more, by round."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    found: list[list[float]] = [[], [], []]
    counts: list[int] = []
    orders = random.Random(size)
    for number in range(rounds + 1):
        for which in [0, 1, 2] if number == 0 else orders.sample(range(3), 3):
            before = set(c10d._world.pg_map)
            with contextlib.ExitStack() as stack:
                if which == 1:
                    stack.enter_context(rankmesh.torch.install())
                if number == 0:
                    stack.enter_context(counted(rank, counts))
                dist.barrier()
                begin = time.perf_counter()
                made = make()
                found[which].append(time.perf_counter() - begin)
            dist.barrier()
            for group in set(c10d._world.pg_map) - before:
                dist.destroy_process_group(group)
            del made
            gc.collect()
            dist.barrier()
    return counts[:4], [each[1:] for each in found]  # the first round loads what is loaded late


def main() -> None:
    print("| mesh | calls of new_group: torch | rankmesh | own groups: torch | rankmesh | seconds: rankmesh / torch |")
    print("|---|---|---|---|---|---|")
    for name, (size, make) in SCENES.items():
        results = processes(size, measure, make, rounds_of(ROUNDS))
        counts = [max(each) for each in zip(*(counts for counts, _ in results), strict=True)]
        theirs, ours, again = (
            [max(each) for each in zip(*rounds, strict=True)] for rounds in zip(*(s for _, s in results), strict=True)
        )
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        same = statistics.median(a / b for a, b in zip(again, theirs, strict=True))
        seconds = f"{ratio:.2f} (torch beside itself {same:.2f})"
        print(f"| `{name}` | {counts[0]} | {counts[2]} | {counts[1]} | {counts[3]} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
