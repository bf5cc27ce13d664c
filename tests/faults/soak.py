#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts and ends worlds in the same processes for a long time, with many calls in each, and measures what the processes hold.

    tests/faults/soak.py --minutes 60 --ranks 4        # with build/release/python in PYTHONPATH

Each rank is a process. In each round it begins a world on Gloo, joins a mesh, makes calls of every kind along every axis and compares each
result, makes smaller worlds, and ends all of them. After a quarter of the rounds, the warm-up, memory may grow by 1 % of what a round
began with, and descriptors and threads not at all. Exits with 1 if anything was wrong.
"""
import argparse, array, functools, gc, json, os, subprocess, sys, tempfile, time
from pathlib import Path

MOST_GROWTH = 0.01  # of the memory, after the warm-up
MESHES = {2: "dp=2", 4: "dp=2 tp=2", 8: "pp=2 dp=2 tp=2"}


def held():
    """Memory in kB, descriptors and threads of this process."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), len(os.listdir("/proc/self/fd")), int(status["Threads"])


def round_of(start, mesh, calls):
    """One world with its calls; how many calls it made."""
    made = 0
    with start() as world:
        me = world.join(mesh, over=[tuple(axis.split("=")[0] for axis in mesh.split())])
        axes = [axis.split("=")[0] for axis in mesh.split()]
        for turn in range(calls):
            for axis in axes:
                on = me.on(axis)
                value = array.array("q", [world.rank + turn])
                on.all_reduce(value)
                assert value[0] == sum(rank + turn for rank in me.ranks(axis)), (axis, turn)
                parts = array.array("q", [0] * on.size)
                on.all_gather(array.array("q", [world.rank]), parts)
                assert list(parts) == list(me.ranks(axis)), (axis, turn)
                on.broadcast(value, turn % on.size)
                assert value[0] == sum(rank + turn for rank in me.ranks(axis)), (axis, turn)
                on.start_all_reduce(value).wait()
                on.barrier()
                made += 5
        part = world.sub([rank for rank in range(world.size) if rank % 2 == world.rank % 2])
        part.join("all=*").on("all").barrier()
        part.close()
    return made + 1


def be_rank(stop, shared, rank, size, calls):
    import rankmesh

    for turn in range(1_000_000_000):
        # Rank 0 decides for all whether there is another round, by the file of its number.
        mine = shared / f"round{turn}"
        if rank == 0:
            (shared / "new").write_text("go" if time.time() < stop else "stop")
            (shared / "new").rename(mine)
        while not mine.exists():
            time.sleep(0.002)
        if mine.read_text() == "stop":
            return
        start = functools.partial(rankmesh.World.from_store, str(shared / "store"), rank, size, job="soak", timeout=300)
        print(json.dumps([round_of(start, MESHES[size], calls), *held()]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--ranks", type=int, choices=MESHES, default=4)
    parser.add_argument("--calls", type=int, default=100, help="turns of all calls in a round")
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)  # what a rank is started with
    given = parser.parse_args()
    if given.rank:
        rank, stop, folder = given.rank
        return be_rank(float(stop), Path(folder), int(rank), given.ranks, given.calls)
    with tempfile.TemporaryDirectory() as folder:
        stop = str(time.time() + 60 * given.minutes)
        words = [sys.executable, __file__, "--ranks", str(given.ranks), "--calls", str(given.calls), "--rank"]
        files = [Path(folder) / f"out{rank}" for rank in range(given.ranks)]
        ranks = [subprocess.Popen([*words, str(rank), stop, folder], stdout=file.open("w")) for rank, file in enumerate(files)]
        try:
            codes = [rank.wait(60 * given.minutes + 600) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        wrong = codes != [0] * given.ranks
        for rank, file in enumerate(files):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            if len(rows) < 8:
                sys.exit(f"rank {rank} made {len(rows)} rounds only, and ended with {codes[rank]}; give it more --minutes")
            warm, last = rows[len(rows) // 4], rows[-1]
            grown = last[1] / warm[1] - 1
            print(f"rank {rank}: {len(rows)} worlds, {sum(row[0] for row in rows)} calls; after the warm-up {warm[1]} kB, {warm[2]} descriptors, "
                  f"{warm[3]} threads; at the end {last[1]} kB ({grown:+.1%}), {last[2]}, {last[3]}")
            wrong |= grown > MOST_GROWTH or last[2] > warm[2] or last[3] > warm[3]
    sys.exit(wrong)


if __name__ == "__main__":
    main()
