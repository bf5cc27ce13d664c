#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills ranks of one job again and again, starts each anew in its place, and counts what goes wrong.

    tests/faults/cycles.py --engine gloo --cycles 100 --seed 5

In each cycle a rank is killed, often another one while the ranks go on without the first, or the process that comes for it. Which and
where follows from the seed. The job's ranks compare every sum, who is named as lost, and the descriptors and threads that they hold.
Exits with 1 if anything was wrong.
"""
import argparse, collections, concurrent.futures, contextlib, dataclasses, os, random, signal, socket, subprocess, sys, tempfile, time
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


def free_port():
    """A port below those from which the system takes one for whoever calls."""
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return free.getsockname()[1]


def draw(seed, cycles, mortal):
    """What happens in each cycle; `mortal`: the ranks that may be killed."""
    chance = random.Random(f"{seed} {len(mortal)}")
    fates = []
    for _ in range(cycles):
        fate = Fate(chance.choice(mortal), chance.choice(FIRST))
        fate.delay = chance.choice([0, 100, 1000, 3000, 10000, 30000, 100000])
        also = chance.choice([None, None, None, *SECOND, *ENTRANT])
        if also in SECOND:
            fate.second = chance.choice([rank for rank in mortal if rank != fate.victim])
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
        self.fates, self.cycle, self.bad, self.kills = fates, -1, [], 0
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

    def died(self, rank, said):
        """A rank was killed, as it has said that it would be: another process takes its place."""
        self.kills += 1
        role, _, cycle = (said or "nobody").partition(" ")
        fate = self.fates[int(cycle)] if role in ("first", "second") else None
        if not (role == "to" or fate and rank == (fate.victim if role == "first" else fate.second)):
            self.bad.append(f"cycle {self.cycle}: rank {rank} was killed out of turn")
            return
        death = ()
        if role == "first":
            # Ranks that lost it before they had begun its cycle begin that again, with all others.
            self.cycle = max(self.cycle, int(cycle))
            if fate.entrant:
                death = (f"{fate.entrant}:{fate.delay}",)
        self.start(rank, "rejoin", death)

    def read(self, rank, path):
        """What a rank has printed: the last that it said of its death."""
        lines = path.read_text().splitlines()
        notes = collections.deque(maxlen=6)
        dies = ""
        for line in lines:
            if line.startswith("note "):
                notes.append(line)
            elif line.startswith("dies "):
                dies = line.removeprefix("dies ")
            elif line.startswith("done"):
                self.done.append(line)
            else:
                self.bad.append("\n  ".join((f"cycle {self.cycle}: rank {rank}: {line}", *notes)))
        if self.bad:
            self.notes += [f"rank {rank}, process {path.name}: {line}" for line in notes]
        path.unlink()
        return dies

    def run(self):
        """Until all have ended, or something is wrong; what the ranks printed when they were done."""
        last = time.monotonic()
        while self.processes and not self.bad:
            ended = [pid for pid, (_, process, _) in self.processes.items() if process.poll() is not None]
            if not ended:
                if time.monotonic() - last > HANG:
                    self.bad.append(f"cycle {self.cycle}: hangs")
                time.sleep(0.005)
                continue
            last = time.monotonic()
            rank, process, path = self.processes.pop(ended[0])
            said = self.read(rank, path)
            if process.returncode == -signal.SIGKILL:
                self.died(rank, said)
            elif process.returncode != 0:
                self.bad.append(f"cycle {self.cycle}: rank {rank} ended with {process.returncode}")
        for stop in (signal.SIGSTOP, signal.SIGKILL):  # so that none says that it has lost another
            for _, process, _ in self.processes.values():
                process.send_signal(stop)
        for rank, process, path in self.processes.values():
            process.wait()
            self.read(rank, path)
        return self.done


def run(given, program, seed):
    """One job: what it printed, how many of its ranks were killed, and whether anything was wrong."""
    fates = draw(seed, given.cycles, list(range(given.store == "tcp", given.size)))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store, server = f"{folder}/store", None
        if given.store != "folder":
            port = free_port()
            store = f"{given.store}://127.0.0.1:{port}"
        if given.store == "redis":
            server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                                      stdout=subprocess.DEVNULL)
            while subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).returncode and server.poll() is None:
                time.sleep(0.01)
        outputs = Path(folder) / "outputs"
        outputs.mkdir()
        job = Job(program, given.size, fates, store, outputs)
        done = job.run()
        if server:
            server.kill()
            server.wait()
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
    parser.add_argument("--store", choices=("folder", "redis", "tcp"), default="folder",
                        help="where ranks find each other; tcp: at rank 0, which is never killed")
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
