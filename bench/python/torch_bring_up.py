"""Bringing up torch's groups of 4 axes and 4 sets: what one rank calls and asks, and seconds over Gloo, beside others.

The others are torch's DeviceMesh, and Megatron-core where a checkout of it is given.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/torch_bring_up.py --megatron CHECKOUT
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import rankmesh
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh.megatron import parallel_state as live
from rankmesh.torch import _agree, _gloo, _start
from samples import keep_samples, rounds_of
from torch.distributed import device_mesh
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore

MESH = "pp=2 dp=* cp=2 tp=2"
SETS = (("dp", "cp"), ("cp", "tp"), ("pp", "tp"), ("dp", "cp", "tp"))
SIZES = (8, 16, 64, 256, 1024, 2048)
SMALL_MESH, SMALL_SETS = "dp=* tp=2", (("dp", "tp"),)  # of fewer than 8 ranks
LIMIT = 400.0  # seconds for a world of processes
OURS, JOIN, MESHES = "rankmesh.torch.init", "World.join", "init_device_mesh"
LAZY = "TORCH_GLOO_LAZY_INIT"

BringUp = Callable[[int], Any]  # makes a world's groups; what it returns is kept until they have been made


# --- what is compared


def plan_of(size: int) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """The mesh of that many ranks, and its sets of axes that also get groups."""
    return (MESH, SETS) if size >= 8 else (SMALL_MESH, SMALL_SETS)


def by_join(world: Callable[[], rankmesh.World], size: int) -> Any:
    mesh, sets = plan_of(size)
    return world().join(mesh, over=sets)


def by_rankmesh(size: int) -> Any:
    mesh, sets = plan_of(size)
    return rankmesh.torch.init(mesh, over=sets)


def by_device_mesh(size: int) -> Any:
    axes_of, sets = plan_of(size)
    mesh = rankmesh.Mesh(axes_of, size)
    made = device_mesh.init_device_mesh("cpu", tuple(mesh.shape), mesh_dim_names=tuple(mesh.axes))
    for axes in sets:
        made[axes]._flatten()
    return made


def by_megatron(parallel_state: Any, size: int) -> None:
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=2, pipeline_model_parallel_size=2, context_parallel_size=2
    )


def lazily(bring_up: BringUp, size: int) -> Any:
    """Gloo connects two ranks when they first communicate."""
    os.environ[LAZY] = "1"
    try:
        return bring_up(size)
    finally:
        del os.environ[LAZY]


def megatron(checkout: Path) -> Any:
    """Megatron-core's parallel_state without the rest of it, which needs more than torch."""
    for name in ("megatron", "megatron.core", "megatron.core.inference"):
        package = types.ModuleType(name)
        package.__path__ = [str(checkout.joinpath(*name.split(".")))]
        sys.modules[name] = package
    return importlib.import_module("megatron.core.parallel_state")


def end(before: set[dist.ProcessGroup], made: Any, original: Any) -> None:
    """Ends the groups that were made, by whom ever."""
    if isinstance(made, rankmesh.torch.Member):
        made.destroy()
    for state in (live, original):
        if state is not None:
            state.destroy_model_parallel()
    for group in set(c10d._world.pg_map) - before:
        with contextlib.suppress(ValueError):
            dist.destroy_process_group(group)


@functools.cache
def started() -> rankmesh.World:
    """This process's world, whose own engine is Gloo as torch's."""
    return rankmesh.World.from_environment(engine="gloo", timeout=LIMIT)


# --- counts


class Counts(NamedTuple):
    """What one rank does."""

    calls: int
    """of new_group and split_group"""
    groups: int
    """that it is in, made for it"""
    connections: int
    """to other ranks, where the groups are Gloo's"""
    requests: int
    """to the store, for Gloo's groups: torch's group of n ranks makes 1 + 2 n, ours makes 3 for up to 128 ranks"""


class Requests(dist.Store):
    """A store that counts what is asked of it; `others` is called before the first wait."""

    def __init__(self, store: dist.Store, others: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.store, self.others, self.requests = store, others, 0

    def wait(self, *args: Any) -> None:
        self.requests += 1
        self.others()
        self.others = lambda: None
        self.store.wait(*args)


def _counted(name: str) -> Callable[..., Any]:
    def request(self: Requests, *args: Any) -> Any:
        self.requests += 1
        return getattr(self.store, name)(*args)

    return request


for _name in ("set", "get", "add", "append", "check", "compare_set", "delete_key", "multi_get", "multi_set"):
    setattr(Requests, _name, _counted(_name))


@contextlib.contextmanager
def counted_calls(backend: str | None) -> Iterator[list[int]]:
    """The size of the group for each call that makes one, 0 where this rank is not in it."""
    sizes: list[int] = []
    names, modules = ("new_group", "split_group"), (dist, c10d, device_mesh)
    originals = {(module, name): getattr(module, name, None) for module in modules for name in names}

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def counted(*args: Any, **options: Any) -> Any:
            if backend is not None:
                options["backend"] = backend
            group = original(*args, **options)
            sizes.append(group.size() if isinstance(group, dist.ProcessGroup) else 0)
            return group

        return counted

    try:
        for (module, name), original in originals.items():
            if original is not None:
                setattr(module, name, counting(original))
        yield sizes
    finally:
        for (module, name), original in originals.items():
            if original is not None:
                setattr(module, name, original)


def asked_by_rankmesh(size: int) -> int:
    """Requests of a rank to compare its plan, and as many to meet when its groups are made."""
    store = dist.HashStore()

    def others() -> None:
        for rank in range(1, size):
            _agree.arrive(store, rank, size, MESH)

    counting = Requests(store, others)
    _start.Start(0, size, counting, "").agree(MESH, timedelta(seconds=60), lambda ranks: "")
    return 2 * counting.requests


@contextlib.contextmanager
def fake_world(size: int) -> Iterator[None]:
    """This process as rank 0 of a world of torch's fake backend, whose groups move nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def counts(bring_up: BringUp, size: int, original: Any = None) -> Counts:
    """Of rank 0 in a fake world."""
    with fake_world(size):
        before = set(c10d._world.pg_map)
        with counted_calls("fake") as sizes:
            made = bring_up(size)
        groups = [each for each in sizes if each]
        if bring_up is by_rankmesh:
            requests = asked_by_rankmesh(size) + sum(1 + 2 * math.ceil(each / _gloo.BATCH) for each in groups)
        else:
            requests = sum(1 + 2 * each for each in groups)
        end(before, made, original)
        return Counts(len(sizes), len(groups), sum(each - 1 for each in groups), requests)


def seconds_alone(bring_up: BringUp, size: int, original: Any) -> float:
    """As long as rank 0 takes where nothing is communicated."""
    original_new_group = dist.new_group
    with fake_world(size):
        dist.new_group = lambda *args, **options: original_new_group(*args, **{**options, "backend": "fake"})
        try:
            before = set(c10d._world.pg_map)
            begin = time.perf_counter()
            made = bring_up(size)
            taken = time.perf_counter() - begin
            end(before, made, original)
            return taken
        finally:
            dist.new_group = original_new_group


# --- processes


def _rank(program: Callable[..., Any], rank: int, size: int, port: int, args: tuple[Any, ...], out: Connection) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    store: dist.Store = dist.TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False)
    out.send(program(rank, size, store, *args))
    out.poll(LIMIT)  # the store ends with rank 0
    os._exit(0)


def free_port() -> int:
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).port


def processes(size: int, program: Callable[..., Any], *args: Any) -> list[Any]:
    """What `program(rank, size, store, *args)` returns on each rank."""
    context = multiprocessing.get_context("fork")
    port = free_port()
    running = []
    for rank in range(size):
        here, there = context.Pipe()
        process = context.Process(target=_rank, args=(program, rank, size, port, args, there), daemon=True)
        process.start()
        there.close()
        running.append((process, here))
    try:
        results = []
        for _, here in running:
            if not wait([here], LIMIT):
                raise TimeoutError(f"{size} processes have not returned in {LIMIT:g} s")
            results.append(here.recv())
        for _, here in running:
            here.send(None)
        return results
    finally:
        for process, _ in running:
            process.join(1)
            process.kill()


def live_requests(rank: int, size: int, store: dist.Store, bring_ups: Sequence[BringUp], original: Any) -> list[int]:
    """Requests of this rank to the store for each of these."""
    counting = Requests(store)
    dist.init_process_group("gloo", store=counting, rank=rank, world_size=size)
    found = []
    for bring_up in bring_ups:
        before, already = set(c10d._world.pg_map), counting.requests
        made = bring_up(size)
        found.append(counting.requests - already)
        dist.barrier()
        end(before, made, original)
        dist.barrier()
    return found


def times(
    rank: int, size: int, store: dist.Store, bring_ups: Sequence[BringUp], original: Any, rounds: int, port: int
) -> list[list[float]]:
    """Seconds on this rank for each of these, in rounds that take them in random orders, equal on all ranks."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    os.environ.update(RANKMESH_STORE=f"tcp://127.0.0.1:{port}", RANK=str(rank), WORLD_SIZE=str(size))
    started()
    found: list[list[float]] = [[] for _ in bring_ups]
    orders = random.Random(size)
    gc.collect()
    gc.freeze()  # what was loaded stays
    for _ in range(rounds + 1):
        for which in orders.sample(range(len(bring_ups)), len(bring_ups)):
            before = set(c10d._world.pg_map)
            dist.barrier()
            begin = time.perf_counter()
            made = bring_ups[which](size)
            found[which].append(time.perf_counter() - begin)
            dist.barrier()
            end(before, made, original)
            del made
            gc.collect()  # or groups in cycles end inside another's time
            dist.barrier()
            time.sleep(0.05 + 0.005 * size)  # in which connections end
    return [each[1:] for each in found]  # the first round loads what is loaded late


# --- what is said


def spread(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def say_times(
    size: int, contestants: dict[str, BringUp], beside: Sequence[tuple[str, str]], original: Any, rounds: int
) -> None:
    ranks = processes(size, times, list(contestants.values()), original, rounds, free_port())
    slowest = {
        name: [max(rank[which][turn] for rank in ranks) for turn in range(rounds)]
        for which, name in enumerate(contestants)
    }
    ns = {name: [1e9 * each for each in values] for name, values in slowest.items()}
    for ours, name in ((OURS, "rankmesh.torch.init"), (JOIN, "join")):
        keep_samples(f"bring-up by {name} beside init_device_mesh/{size}", ns[ours], ns[MESHES], ns[f"{MESHES} again"])
    if rounds < 3:
        return
    print(f"\n{size} processes over Gloo: the slowest rank's seconds in {rounds} rounds, median and quartiles")
    for name, values in slowest.items():
        print(f"  {name:32} {spread([1e3 * value for value in values])} ms")
    for ours, theirs in beside:
        ratios = [mine / other for mine, other in zip(slowest[ours], slowest[theirs], strict=True)]
        print(f"  {ours} / {theirs}: {spread(ratios)}")


STYLE = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}.dim{fill:#656d76}"
    ".axis{stroke:#656d76;stroke-width:1}.grid{stroke:#d1d9e0}.curve{fill:none;stroke-width:2.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#8b949e}.axis{stroke:#8b949e}.grid{stroke:#3d444d}}"
)
COLOURS = ("#0072b2", "#c77700", "#cc79a7")


def picture(curves: dict[str, dict[int, Counts]]) -> str:
    """Calls and requests over the size of the world, both on logarithmic scales."""
    wide, high, left, top = 300, 190, 72, 62
    sizes = list(next(iter(curves.values())))
    shown = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 320" width="780" height="320" role="img">\n'
    shown += f"<title>Groups of {MESH} and 4 sets</title>\n<style>{STYLE}</style>\n"
    for number, (name, colour) in enumerate(zip(curves, COLOURS, strict=False)):
        x = left + 250 * number
        shown += f'<path d="M{x} 20h24" class="curve" style="stroke:{colour}"/>'
        shown += f'<text x="{x + 32}" y="24">{name}</text>\n'
    for panel, (what, title) in enumerate((("calls", "calls that make groups"), ("requests", "requests to the store"))):
        x0, y0 = left + panel * (wide + 90), top + high
        most = max(getattr(each, what) for curve in curves.values() for each in curve.values())
        decades = math.ceil(math.log10(most))

        def x_of(size: int, x0: int = x0) -> float:
            return x0 + wide * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

        def y_of(value: float, y0: int = y0, decades: int = decades) -> float:
            return y0 - high * math.log10(max(value, 1)) / decades

        shown += f'<text x="{x0}" y="{top - 12}" class="dim">{title} of one rank</text>\n'
        for decade in range(decades + 1):
            y = y_of(10**decade)
            shown += f'<path d="M{x0} {y:.1f}h{wide}" class="grid"/>'
            shown += f'<text x="{x0 - 8}" y="{y + 4:.0f}" text-anchor="end" class="dim">{10**decade:,}</text>\n'
        for size in sizes:
            shown += f'<path d="M{x_of(size):.1f} {y0}v-{high}" class="grid"/>'
            shown += f'<text x="{x_of(size):.0f}" y="{y0 + 20}" text-anchor="middle" class="dim">{size}</text>\n'
        shown += f'<path d="M{x0} {top}V{y0}H{x0 + wide}" class="axis" fill="none"/>\n'
        for curve, colour in reversed([*zip(curves.values(), COLOURS, strict=False)]):
            points = " ".join(f"{x_of(size):.1f},{y_of(getattr(each, what)):.1f}" for size, each in curve.items())
            dashed = ";stroke-dasharray:7 5" if colour == COLOURS[0] else ""  # where curves meet both are seen
            shown += f'<polyline points="{points}" class="curve" style="stroke:{colour}{dashed}"/>\n'
        shown += f'<text x="{x0 + wide / 2:.0f}" y="{y0 + 44}" text-anchor="middle" class="dim">ranks</text>\n'
    return shown + "</svg>\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megatron", type=Path, help="a checkout of Megatron-LM")
    parser.add_argument("--processes", type=int, nargs="*", default=[8], help="worlds to time")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", action="store_true", help="no counts, nothing that connects late")
    parser.add_argument("--picture", type=Path, help="the SVG file to draw the counts into")
    given = parser.parse_args()
    warnings.simplefilter("ignore")

    original = megatron(given.megatron) if given.megatron else None
    mine, theirs, port, again = OURS, "Megatron-core", "rankmesh.megatron", f"{MESHES} again"
    counted: dict[str, BringUp] = {mine: by_rankmesh, MESHES: by_device_mesh}
    if original is not None:
        counted[theirs] = functools.partial(by_megatron, original)
    connecting_late = {f"{name}, lazy Gloo": functools.partial(lazily, counted[name]) for name in counted}
    joining = functools.partial(by_join, started)
    timed: dict[str, BringUp] = {**counted, again: by_device_mesh, JOIN: joining}
    if not given.times:
        timed |= connecting_late
    beside = [(again, MESHES), (JOIN, MESHES), *((mine, name) for name in counted if name != mine)]
    if original is not None:
        timed[port] = functools.partial(by_megatron, live)
        beside.append((port, theirs))
    if given.times:
        for size in given.processes:
            say_times(size, timed, beside, original, rounds_of(given.rounds))
        return
    beside += [(f"{mine}, lazy Gloo", name) for name in (*connecting_late, *counted) if name != f"{mine}, lazy Gloo"]

    sets = ", ".join(",".join(axes) for axes in SETS)
    print(f"rank 0 of {MESH} with groups of each axis and of {sets}; connections and requests where they are Gloo's")
    print(f"  {'':20} {'ranks':>6} {'calls':>8} {'groups':>8} {'connections':>12} {'requests':>10}")
    curves: dict[str, dict[int, Counts]] = {}
    for name, bring_up in counted.items():
        curves[name] = {size: counts(bring_up, size, original) for size in SIZES}
        for size, each in curves[name].items():
            print(f"  {name:20} {size:6} {each.calls:8,} {each.groups:8} {each.connections:12,} {each.requests:10,}")
    print("milliseconds of rank 0 with torch's fake backend, which communicates nothing: median of 5 rounds")
    for size in SIZES:
        rounds = [[seconds_alone(each, size, original) for each in counted.values()] for _ in range(6)][1:]
        medians = (1e3 * statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"  {size:6} ranks: {', '.join(f'{name} {ms:.2f}' for name, ms in zip(counted, medians, strict=True))}")
    if given.picture:
        given.picture.write_text(picture(curves), encoding="utf-8")

    size = SIZES[0]
    found = processes(size, live_requests, list(counted.values()), original)
    print(f"requests of rank 0 to {size - 1} in a world of {size} processes over Gloo")
    for which, name in enumerate(counted):
        print(f"  {name:20} {' '.join(str(rank[which]) for rank in found)}")
    for size in given.processes:
        say_times(size, timed, beside, original, rounds_of(given.rounds))


if __name__ == "__main__":
    main()
