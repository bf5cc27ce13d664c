#!/usr/bin/env python3
"""Jobs of torch on meshes of two and three axes, with calls along axes only. One rank is lost; all others must go on.

    PYTHONPATH=build/release/python build/venv/bin/python tests/python/torch_survivors.py --jobs 100 --seed 7

What happens follows from the seed and the job's number. A job is wrong if a healthy rank is not in the new world within
2 s of the loss. Exits with 1 if one is.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rankmesh.torch
import torch
import torch.distributed as dist
from elastic_ranks import Job, die
from rankmesh import PeerLost, UsageError

LIMIT = 2.0  # seconds, from the loss until the last rank is in the new world
DELAYS = (0.0, 0.0001, 0.001, 0.01, 0.05)  # seconds


class Loss(NamedTuple):
    """Who is lost, and how; ranks without a group with the victim wait in `how`."""

    size: int
    plan: str
    backend: str
    victim: int
    raises: bool
    delay: float
    how: str
    checked: bool


def call(me: rankmesh.torch.Member) -> None:
    """Steps along every axis until it raises."""
    while True:
        for axis in me.mesh.axes:
            dist.all_reduce(torch.ones(100), group=me.group(axis))


def started(me: rankmesh.torch.Member) -> None:
    """Waits for calls that it has started."""
    while True:
        tensors = [torch.ones(100) for _ in me.mesh.axes]
        for work in [
            dist.all_reduce(tensor, group=me.group(axis), async_op=True)
            for tensor, axis in zip(tensors, me.mesh.axes, strict=True)
        ]:
            assert work is not None
            work.wait()


def message(me: rankmesh.torch.Member) -> None:
    """Waits for a message that nobody sends."""
    ranks = [rank for rank in me.ranks(me.mesh.axes[0]) if rank != me.rank]
    dist.recv(torch.ones(100), src=ranks[0])


def barrier(me: rankmesh.torch.Member) -> None:
    """Waits for all ranks."""
    dist.barrier()


def group(me: rankmesh.torch.Member) -> None:
    """Makes a group of all ranks, which the others do not make."""
    dist.all_reduce(torch.ones(1), group=dist.new_group(list(range(me.size))))


WAYS: dict[str, Callable[[rankmesh.torch.Member], None]] = {
    "call": call,
    "started": started,
    "message": message,
    "barrier": barrier,
    "group": group,
}


def lose(me: rankmesh.torch.Member, loss: Loss, noted: Path) -> None:
    """Works until a rank is lost. The victim notes when, and returns unless it is killed."""

    def die_now() -> None:
        noted.write_text(str(time.monotonic()))
        die()

    for axis in me.mesh.axes:
        dist.all_reduce(torch.ones(100), group=me.group(axis))
    if me.rank == loss.victim:
        if loss.raises:
            noted.write_text(str(time.monotonic()))
            return
        if loss.delay == 0:
            die_now()
        threading.Timer(loss.delay, die_now).start()
    if me.rank == loss.victim or any(loss.victim in me.ranks(axis) for axis in me.mesh.axes):
        call(me)
    WAYS[loss.how](me)
    raise AssertionError("it has not waited")


def rank_of(rank: int, loss: Loss, noted: Path) -> Any:
    """Returns when this rank was in the new world, the ranks of that, and who was lost."""
    me = rankmesh.torch.init(loss.plan, backend=loss.backend, timeout=60)
    numbers = torch.zeros(loss.size, dtype=torch.int64)
    try:
        lose(me, loss, noted)
    except PeerLost as lost:
        ranks = lost.ranks
    else:
        error = ValueError("a mistake")
        me.__exit__(ValueError, error, None)
        return "raised"
    with contextlib.suppress(UsageError):  # the plan does not fit seven ranks; torch's default group is the new world
        me.survivors(grace=20)
    numbers[rank] = 1
    dist.all_reduce(numbers)
    there = time.monotonic()
    dist.destroy_process_group()
    return there, numbers.nonzero().flatten().tolist(), ranks


def draw(seed: int, number: int, backends: Sequence[str]) -> Loss:
    chance = random.Random(f"{seed} {number}")
    size, plan = chance.choice([(4, "rep=* shard=2"), (8, "rep=* shard=2"), (8, "rep=* cp=2 shard=2")])
    how = chance.choice(["call", *WAYS])
    return Loss(
        size,
        plan,
        chance.choice(backends),
        chance.randrange(size),
        chance.random() < 0.3,
        # Ranks that wait in something else would keep the victim's peers from calling it.
        chance.choice(DELAYS) if how in ("call", "started") else 0.0,
        how,
        how != "message" and chance.random() < 0.2,  # in checked mode a message that meets a collective is an error
    )


def run(loss: Loss) -> tuple[float, str]:
    """Returns how long the slowest rank took, and what was wrong."""
    begin = time.monotonic()
    results: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder, Job(Path(folder), loss.size) as job:
        noted = Path(folder) / "died"
        for rank in range(loss.size):
            job.start(rank, rank_of, rank, loss, noted, RANKMESH_CHECK=str(int(loss.checked)))
        try:
            results.update((rank, result) for rank, result in job.ended(90) if rank != loss.victim)
        except AssertionError as error:
            return time.monotonic() - begin, str(error)
        died = float(noted.read_text())
    took = max(there for there, _, _ in results.values()) - died
    left = [rank for rank in range(loss.size) if rank != loss.victim]
    wrong = [str(result) for result in results.values() if result[1:] != (left, [loss.victim])]
    return took, "\n".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--job", type=int, help="only this one")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument(
        "--backends", default="cpu:rankmesh", help="of which a job has one, such as cpu:rankmesh,rankmesh+gloo"
    )
    given = parser.parse_args()
    numbers = range(given.jobs) if given.job is None else [given.job]
    losses = [draw(given.seed, number, given.backends.split(",")) for number in numbers]
    kinds, times, wrong = collections.Counter[str](), [], 0
    with concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        for number, loss, (took, text) in zip(numbers, losses, pool.map(run, losses), strict=True):
            kinds[f"{loss.backend}, {loss.plan}, {'raises' if loss.raises else 'killed'}, in {loss.how}"] += 1
            times.append(took)
            if text or took > LIMIT:
                wrong += 1
                print(f"job {number} of seed {given.seed}: {loss}, {took:.1f} s\n{text}", flush=True)
    for kind, count in sorted(kinds.items()):
        print(f"{count:6} {kind}")
    times.sort()
    print(
        f"seed {given.seed}: {len(times)} jobs, {wrong} wrong; the last rank goes on after "
        f"{times[len(times) // 2]:.2f} s in the median, {times[-1]:.2f} s at most"
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
