#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on meshes of two and three axes whose ranks call along axes only. One rank is lost; all others must go on.

    tests/faults/survivors.py --jobs 100 --seed 7

Nobody destroys anything before it calls `survivors`. Ranks that share no group with the lost rank wait in a call, a started call, a
message, or a step of all ranks. What happens follows from the seed and the job's number. A job is wrong if a healthy rank is not in the
new world within 2 s of the loss. Exits with 1 if one is. Runs on Gloo; tests/python/torch_survivors.py does the same on torch.
"""
import argparse, collections, concurrent.futures, os, random, re, subprocess, sys, tempfile, time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import faults

WAITS = ("call", "call", "start", "message", "join", "group", "split", "sub", "grow")
LIMIT = 2000  # ms, from the loss until the last rank is in the new world
HANG = 90     # s


def draw(seed, number):
    chance = random.Random(f"{seed} {number}")
    axes = chance.choice((2, 3))
    size = chance.choice((4, 6, 8)) if axes == 2 else 8
    job = {"size": size, "axes": axes, "victim": chance.randrange(size), "how": chance.choice(WAITS),
           "end": chance.choice(("killed", "killed", "throws")), "delay": chance.choice((0, 100, 1000, 10000, 50000)),
           "checked": chance.random() < 0.25}
    if job["how"] == "message":
        job["checked"] = False  # then a message that meets a collective is a Disagreement
    if job["how"] not in ("call", "start"):
        job["delay"] = 0  # ranks that wait in something else would keep the victim's peers from calling it
    return job


def run(program, seed, number):
    """The job, how long its slowest rank took in ms, and what was wrong."""
    job = draw(seed, number)
    words = [str(program), job["how"], str(job["victim"]), str(job["axes"]), job["end"], str(job["delay"])]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"RANKMESH_ENGINE": "gloo", "RANKMESH_STORE": f"{folder}/store", "RANKMESH_JOB": "survivors",
                                    "WORLD_SIZE": str(job["size"]), "RANKMESH_TEST_FOLDER": folder,
                                    "RANKMESH_CHECK": "1" if job["checked"] else "0"}
        ranks = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment | {"RANK": str(rank)})
                 for rank in range(job["size"])]
        text, until = "", time.monotonic() + HANG
        for rank in ranks:
            try:
                text += rank.communicate(timeout=max(until - time.monotonic(), 1))[0]
            except subprocess.TimeoutExpired:
                rank.kill()
                text += rank.communicate()[0] + "hangs\n"
    died = re.search(r"dies at (\d+) ms", text)
    there = re.findall(rf" of {job['size'] - 1}, with \{{[^}}]*\}} at (\d+) ms", text)
    took = max(map(int, there), default=0) - int(died[1]) if died else -1
    wrong = not died or len(there) != job["size"] - 1 or took > LIMIT
    wrong = wrong or len(re.findall(rf"has lost \{{{job['victim']}\}}: ", text)) != job["size"] - 1
    return job, took, text if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--job", type=int, help="only this one")
    parser.add_argument("--seed", type=int, help="else RANKMESH_FAULT_SEED, else a fresh one, which is printed")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--program", type=Path, help="else the newest build/*/tests/engine/gloo_survivors_program")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = int(os.environ.get("RANKMESH_FAULT_SEED") or int.from_bytes(os.urandom(3), "little"))
    found = given.program or max((faults.ROOT / "build").glob("*/tests/engine/gloo_survivors_program"), key=lambda each: each.stat().st_mtime)
    program, numbers = found.resolve(), [given.job] if given.job is not None else range(given.jobs)
    kinds, times, wrong = collections.Counter(), [], 0
    with concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        for number, (job, took, text) in zip(numbers, pool.map(lambda each: run(program, given.seed, each), numbers)):
            kinds[f"{job['axes']} axes, {job['end']}, in {job['how']}"] += 1
            times.append(took)
            if text:
                wrong += 1
                print(f"job {number} of seed {given.seed}: {job}, {took} ms\n{text}", flush=True)
    for kind, count in sorted(kinds.items()):
        print(f"{count:6} {kind}")
    times.sort()
    print(f"seed {given.seed}: {len(times)} jobs, {wrong} wrong; the last rank goes on after {times[len(times) // 2]} ms in the median, "
          f"{times[-1]} ms at most")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
