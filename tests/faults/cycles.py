#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills ranks of one job again and again, starts each anew in its place, and counts what goes wrong.

    tests/faults/cycles.py --engine gloo --cycles 100 --seed 5

In each cycle a rank is killed, often another one while the ranks go on without the first, or the process that comes for it. Which and
where follows from the seed. The job's ranks compare every sum, who is named as lost, and the descriptors and threads that they hold.
Exits with 1 if anything was wrong.
"""
import argparse, collections, concurrent.futures, dataclasses, os, random, signal, socket, subprocess, sys, tempfile, time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import faults

FIRST = ("call", "short", "long", "grow")  # before a call, in one, or in a `grow` for which nobody comes
SECOND = ("survivors", "join", "grow")     # while the others go on without the first
ENTRANT = ("enter", "entered")             # the process that comes for the first: in `rejoin`, and after it
HANG = 120                                 # seconds in which nobody ends


@dataclasses.dataclass
class Fate:
    victim: int
    moment: str
    second: int = -1
    second_moment: str = "none"
    delay: int = 0  # in us
    entrant: str = ""

    def text(self):
        return f"{self.victim}:{self.moment}:{self.second}:{self.second_moment}:{self.delay}"

    def kind(self):
        return self.moment + (f", then another in {self.second_moment}" if self.second >= 0 else "") + \
            (f", then the next when it {'enters' if self.entrant == 'enter' else 'has entered'}" if self.entrant else "")


def draw(seed, cycles, size, lowest):
    chance = random.Random(f"{seed} {size}")
    fates = []
    for _ in range(cycles):
        fate = Fate(chance.randrange(lowest, size), chance.choice(FIRST))
        fate.delay = chance.choice([0, 100, 1000, 3000, 10000, 30000, 100000])
        also = chance.choice([None, None, None, *SECOND, *ENTRANT])
        if also in SECOND:
            fate.second = chance.choice([rank for rank in range(lowest, size) if rank != fate.victim])
            fate.second_moment = also
        elif also:
            fate.entrant = also
        fates.append(fate)
    return fates


class Job:
    """The processes of a job, by the ranks that they are or stand for."""

    def __init__(self, program, size, fates, store, folder):
        self.words = [str(size), ",".join(fate.text() for fate in fates)]
        self.program, self.folder, self.started = program, Path(folder), 0
        self.environment = os.environ | {"RANKMESH_ENGINE": "gloo", "RANKMESH_STORE": store, "RANKMESH_JOB": "cycles",
                                         "WORLD_SIZE": str(size), "MALLOC_ARENA_MAX": "2"}
        self.processes, self.outputs = {}, {}
        self.fates, self.cycle, self.due, self.bad, self.kills = fates, -1, [], [], 0
        self.done, self.notes = [], []
        for rank in range(size):
            self.start(rank, "start")

    def start(self, rank, how, death=()):
        self.started += 1
        path = self.folder / f"{self.started}"
        with open(path, "w") as output:
            process = subprocess.Popen([str(self.program), str(rank), self.words[0], how, self.words[1], *death], stdout=output,
                                       stderr=subprocess.STDOUT, env=self.environment | {"RANK": str(rank)})
        self.processes[process.pid] = (rank, process, path)

    def died(self, rank):
        """A rank was killed: is it one whose turn it was? Another process takes its place."""
        self.kills += 1
        death = ()
        if rank in self.due:
            self.due.remove(rank)
        else:
            self.cycle += 1
            if self.due or self.cycle >= len(self.fates) or self.fates[self.cycle].victim != rank:
                self.bad.append(f"cycle {self.cycle}: rank {rank} was killed out of turn")
                return
            fate = self.fates[self.cycle]
            if fate.entrant:
                death = (f"{fate.entrant}:{fate.delay}",)
            self.due = [rank] if fate.entrant else [fate.second] if fate.second >= 0 else []
        self.start(rank, "rejoin", death)

    def read(self, rank, path):
        """What a rank has printed."""
        lines = path.read_text().splitlines()
        notes = collections.deque(maxlen=6)
        for line in lines:
            if line.startswith("note "):
                notes.append(line)
            elif line.startswith("done"):
                self.done.append(line)
            else:
                self.bad.append("\n  ".join((f"cycle {self.cycle}: rank {rank}: {line}", *notes)))
        if self.bad:
            self.notes += [f"rank {rank}, process {path.name}: {line}" for line in notes]
        path.unlink()

    def run(self):
        """Until all have ended, or something is wrong; what the ranks printed when they were done."""
        last, waited = time.monotonic(), 0
        while self.processes and not self.bad:
            ended = [pid for pid, (_, process, _) in self.processes.items() if process.poll() is not None]
            if not ended:
                if time.monotonic() - last > HANG:
                    self.bad.append(f"cycle {self.cycle}: hangs")
                time.sleep(0.005)
                continue
            last = time.monotonic()
            # Of two that were killed at nearly the same time first the one whose turn it is, which may end later.
            turn = self.due or [fate.victim for fate in self.fates[self.cycle + 1:self.cycle + 2]]
            ended.sort(key=lambda pid: self.processes[pid][0] not in turn)
            if turn and self.processes[ended[0]][0] not in turn and waited < 100:
                waited += 1
                time.sleep(0.01)
                continue
            waited = 0
            rank, process, path = self.processes.pop(ended[0])
            self.read(rank, path)
            if process.returncode == -signal.SIGKILL:
                self.died(rank)
            elif process.returncode != 0:
                self.bad.append(f"cycle {self.cycle}: rank {rank} ended with {process.returncode}")
        for rank, process, path in self.processes.values():
            process.kill()
            process.wait()
            self.read(rank, path)
        return self.done


def run(given, program, seed):
    """One job: what it printed, how many of its ranks were killed, and whether anything was wrong."""
    fates = draw(seed, given.cycles, given.size, int(given.tcp))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        if given.tcp:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                store = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        outputs = Path(folder) / "outputs"
        outputs.mkdir()
        job = Job(program, given.size, fates, store, outputs)
        done = job.run()
        entries = [path.name for path in Path(folder).glob("store/**/*") if path.is_file()]
    if len(done) != given.size:
        job.bad.append(f"{len(done)} of {given.size} ranks have done all cycles")
    # What is left is what killed ranks wrote for others: no place of those that wait, of which there are so many.
    job.bad += [f"left in the store: {name}" for name in entries if name.startswith("candidate.")]
    text = list(job.bad)
    if job.bad:
        text += [f"cycle {job.cycle} is {fates[max(job.cycle, 0)]}", *(f"  {note}" for note in job.notes)]
    timeouts = max((int(line.split(", ")[2].split()[0]) for line in done), default=0)
    text.append(f"seed {seed}, {given.engine}: {job.cycle + 1} cycles, {job.kills} killed, {len(job.bad)} wrong, "
                f"{timeouts} times by a timeout, {len(entries)} entries left, {time.monotonic() - begin:.0f} s")
    return text, job, fates[:job.cycle + 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("gloo", "nccl"), default="gloo", help="nccl: the fake NCCL, with Gloo for the host")
    parser.add_argument("--cycles", type=int, default=20, help="of each job")
    parser.add_argument("--seed", type=int, help="of the first job; else RANKMESH_FAULT_SEED, else a fresh one, which is printed")
    parser.add_argument("--jobs", type=int, default=1, help="how many, of this seed and the next")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--size", type=int, default=4, help="ranks, an even number")
    parser.add_argument("--tcp", action="store_true", help="by the store that rank 0 serves, which is never killed, instead of a folder")
    parser.add_argument("--program", type=Path, help="else the newest build/*/tests/faults/cycles_rank, or nccl_cycles_rank")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = int(os.environ.get("RANKMESH_FAULT_SEED") or int.from_bytes(os.urandom(3), "little"))
    name = "nccl_cycles_rank" if given.engine == "nccl" else "cycles_rank"
    program = (given.program or faults.program_in(faults.ROOT / "build", name)).resolve()
    print(f"seed {given.seed}: {given.jobs} jobs of {given.cycles} cycles", flush=True)
    kinds, kills, bad = collections.Counter(), 0, 0
    with concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        for text, job, fates in pool.map(lambda seed: run(given, program, seed), range(given.seed, given.seed + given.jobs)):
            print(*text, sep="\n", flush=True)
            kinds.update(fate.kind() for fate in fates)
            kills += job.kills
            bad += len(job.bad)
    for kind, count in sorted(kinds.items()):
        print(f"{count:6} {kind}")
    print(f"{kinds.total()} cycles, {kills} killed, {bad} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
