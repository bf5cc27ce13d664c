"""What it costs that a world of torch changes: survivors, grow, swap and reconfigure beside init of as many ranks.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/torch_elastic.py --size 4 --rounds 7

Each time is that of the slowest rank, until its first all_reduce in the new world has returned. The processes that come
wait already in rejoin.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import PeerLost

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/python"))
from elastic_ranks import Job, die

PLAN = "dp=* tp=1"
OPTIONS: Any = {"over": [("dp", "tp")], "timeout": 120}
Times = dict[str, list[float]]


def timed(
    times: Times, what: str, change: Callable[[], rankmesh.torch.Member], *, waits: bool = False
) -> rankmesh.torch.Member:
    """Times a change of the world on the slowest rank; `waits`: this rank does not count."""
    begin = time.perf_counter()
    me = change()
    dist.all_reduce(torch.ones(1))
    took = torch.tensor([0.0 if waits else time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    times.setdefault(what, []).append(took.item())
    return me


def start(times: Times, size: int, rounds: int) -> rankmesh.torch.Member:
    """Starts `rounds` worlds one after the other, and returns the member of the last."""
    for left in reversed(range(rounds)):
        me = timed(times, "init", lambda: rankmesh.torch.init(PLAN, backend="rankmesh", **OPTIONS))
        if left:
            me.destroy()
    for _ in range(rounds):
        me = timed(times, "reconfigure", functools.partial(me.reconfigure, range(size)))
    return me


def grow(me: rankmesh.torch.Member, times: Times, standby: bool) -> rankmesh.torch.Member:
    if not standby:
        return timed(times, "grow", lambda: me.grow(1, timeout=60))
    other = me.standby(1, timeout=60)
    while not other.ready():
        pass
    return timed(times, "standby.swap", other.swap)


def rank_of(rank: int, size: int, rounds: int, folder: Path, turn: int | None) -> Times:
    """A rank; the last kills itself when it is in the world of all, and `turn` counts those that come for it."""
    times: Times = {}
    if turn is None:
        me, turn = start(times, size, rounds), 0
    else:
        (folder / f"{turn}").touch()
        me = timed(times, "rejoin", lambda: rankmesh.torch.rejoin(PLAN, **OPTIONS), waits=True)
    while turn < 2 * rounds:
        turn += 1
        if rank == size - 1:
            die()
        try:
            while True:
                dist.all_reduce(torch.ones(1))
        except PeerLost:
            me = timed(times, "survivors", functools.partial(me.survivors, grace=10))
        while not (folder / f"{turn}").exists():
            time.sleep(0.001)
        me = grow(me, times, standby=turn % 2 == 0)
    me.destroy()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4, help="ranks")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Job(Path(folder), given.size) as job:
        for rank in range(given.size):
            job.start(rank, rank_of, rank, given.size, given.rounds, Path(folder), None)
        comes = 0
        for rank, times in job.ended(120):
            if times is None:
                comes += 1
                last = {"RANKMESH_JOB": f"{job.environment['RANKMESH_JOB']}.{given.rounds}"}
                job.start(rank, rank_of, rank, given.size, given.rounds, Path(folder), comes, **last)
            elif rank == 0:
                medians = {what: statistics.median(each) for what, each in times.items()}
    for what, median in medians.items():
        print(f"{what:12} {1000 * median:8.1f} ms, {median / medians['init']:.2f} of init")


if __name__ == "__main__":
    main()
