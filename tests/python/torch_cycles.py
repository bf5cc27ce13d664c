#!/usr/bin/env python3
"""Kills ranks of one job of torch again and again, starts each anew in its place, and counts what goes wrong.

    PYTHONPATH=build/release/python build/venv/bin/python tests/python/torch_cycles.py --cycles 200 --seed 5

In each cycle a rank is killed, before a call or in one. Often another is killed while the ranks go on without the
first, or the process that comes for it. The ranks take processes in by grow and by standby in turn, and check every
sum, their places, and the descriptors and threads that they hold. Exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rankmesh.torch
import torch
import torch.distributed as dist
from elastic_ranks import Job, die
from rankmesh import PeerLost

PLAN: Any = {"over": [("dp", "tp")], "timeout": 120}
DELAYS = (0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1)  # seconds
MOST_HELD = 4  # descriptors and threads more than after the first cycle


class Fate(NamedTuple):
    """Who is killed in a cycle, and when; `second` is killed while the others go on without `victim`."""

    victim: int
    delay: float
    second: int | None
    second_delay: float


def draw(seed: int, cycles: int, size: int) -> list[Fate]:
    chance = random.Random(seed)
    fates = []
    for _ in range(cycles):
        victim, second = chance.sample(range(size), 2)
        fates.append(
            Fate(victim, chance.choice(DELAYS), second if chance.random() < 0.3 else None, chance.choice(DELAYS))
        )
    return fates


def die_after(delay: float) -> None:
    """Kills this process after a delay, whatever it does then."""
    if delay == 0:
        die()
    timer = threading.Timer(delay, die)
    timer.daemon = True
    timer.start()


def total(me: rankmesh.torch.Member, value: float, op: Any = dist.ReduceOp.SUM, axes: Sequence[str] = ("dp",)) -> float:
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op=op, group=me.group(*axes))
    return tensor.item()


def work(me: rankmesh.torch.Member) -> None:
    """One step: every group has the right sum."""
    for axes in (("dp",), ("tp",), ("dp", "tp")):
        expected = sum(rank + 1 for rank in me.ranks(*axes))
        assert total(me, me.rank + 1, axes=axes) == expected, (me, axes)
    assert me.device_mesh().get_group("dp") is me.group("dp")


def held(most: int = 0) -> int:
    """Counts descriptors and threads, again until they are `most`: those of an old world end a moment after it."""
    until = time.monotonic() + 10
    while True:
        count = len(os.listdir("/proc/self/fd")) + len(os.listdir("/proc/self/task"))
        if count <= most or most == 0 or time.monotonic() > until:
            return count
        time.sleep(0.01)


def rank_of(place: int, size: int, fates: list[Fate], again: float | None) -> Any:
    """One process: it works until all cycles are done, or until it is killed."""
    if again is not None:
        if again >= 0:
            die_after(again)
        me = rankmesh.torch.rejoin("dp=* tp=1", **PLAN)
    else:
        me = rankmesh.torch.init("dp=* tp=1", backend="rankmesh", **PLAN)
    cycle, begun, most, first = 0, False, 0, 0
    while True:
        try:
            cycle = int(total(me, cycle, dist.ReduceOp.MAX))
            if me.size == size:
                assert me.rank == place, f"rank {me.rank} has the place {place}"
                first = first or held()
                most = max(most, held(first + MOST_HELD))
                if cycle == len(fates):
                    break
                begun, fate = True, fates[cycle]
                if place == fate.victim:
                    die_after(fate.delay)
                while True:
                    work(me)
            work(me)
            me = enter(me, size - me.size, cycle)
            if me.size == size and begun:
                cycle, begun = cycle + 1, False
        except PeerLost:
            if begun and place == fates[cycle].second:
                die_after(fates[cycle].second_delay)
            me = me.survivors(grace=30)
    work(me)
    me.destroy()
    return max(0, most - first)


def enter(me: rankmesh.torch.Member, most: int, cycle: int) -> rankmesh.torch.Member:
    if cycle % 2 == 0:
        return me.grow(most, timeout=60)
    standby = me.standby(most, timeout=60)
    while not standby.ready():
        work(me)
    return standby.swap()


def run(cycles: int, seed: int, folder: Path, size: int = 4) -> tuple[int, list[str]]:
    """Returns how many processes were killed, and what was wrong."""
    fates, chance, kills = draw(seed, cycles, size), random.Random(seed + 1), 0
    results: dict[int, int] = {}
    try:
        with Job(folder, size) as job:
            for rank in range(size):
                job.start(rank, rank_of, rank, size, fates, None)
            for rank, result in job.ended(120):
                if result is not None:
                    results[rank] = result
                    continue
                kills += 1
                job.start(rank, rank_of, rank, size, fates, chance.choice(DELAYS) if chance.random() < 0.2 else -1)
    except AssertionError as error:
        return kills, [str(error)]
    wrong = [
        f"rank {rank} holds {more} descriptors and threads more" for rank, more in results.items() if more > MOST_HELD
    ]
    if sorted(results) != list(range(size)):
        wrong.append(f"only ranks {sorted(results)} have done all cycles")
    return kills, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    parser.add_argument("--size", type=int, default=4, help="ranks")
    given = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        kills, wrong = run(given.cycles, given.seed, Path(folder), given.size)
    print(*wrong, sep="\n")
    seconds = time.monotonic() - begin
    print(f"seed {given.seed}: {given.cycles} cycles, {kills} killed, {len(wrong)} wrong, {seconds:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
