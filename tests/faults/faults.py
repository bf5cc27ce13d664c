#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts jobs with one random fault each, and counts how they end.

    tests/faults/faults.py --engine gloo --jobs 100 --seed 7 [--checked]

Everything about a job follows from the engine, the seed and the job's number, but for what the system's scheduler adds; each job
that does not end right is printed with the command that repeats it. Exits with 1 if there is one.
"""
import argparse, collections, concurrent.futures, dataclasses, functools, json, os, random, re, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("threads", "gloo", "mpi", "nccl")  # the last: the fake NCCL and CUDA runtime, with Gloo for the host

# What is right for each kind of fault. `survivors` are all ranks but the victim; a rank that shares no group with the victim may
# instead name ranks that have failed before it. On MPI, where a failure ends the job, "throws" is: the job ends in an error, and
# its output names the victim. Nowhere may a rank that the fault reaches report success, and no element may be wrong.
#
#   kind                      row         right is
RIGHT = {
    "kill":      ("dies",       "survivors throw PeerLost with the victim, before the timeout; in join Timeout is right as well"),
    "segv":      ("dies",       "as kill"),
    "exit":      ("dies",       "as kill; on MPI before the world in the words of the launcher, which names no rank then"),
    "exit0":     ("dies",       "as kill, although the exit code says success"),
    "throw":     ("dies",       "as kill"),
    "forked":    ("dies",       "as kill, although a child of the victim lives on with its descriptors"),
    "finalize":  ("early",      "as early, of a rank that calls MPI_Finalize while it has a world"),
    "descriptors": ("limits",   "where the limit is met, the victim says so and ends, and survivors throw PeerLost or Timeout with it"),
    "memory":    ("limits",     "as descriptors"),
    "disk":      ("limits",     "as descriptors"),
    "early":     ("early",      "survivors throw PeerLost with the victim, before the timeout; before join Timeout is right as well"),
    "absent":    ("absent",     "survivors throw Timeout with the victim as missing; on threads PeerLost, before the timeout"),
    "stop":      ("stopped",    "survivors throw Timeout with the victim as missing; it throws as well once it goes on"),
    "cut":       ("stopped",    "as stop, of a rank whose link is cut: what it sends and what is sent to it vanishes"),
    "pause":     ("harmless",   "all sums are right: it goes on in time"),
    "slow":      ("harmless",   "all sums are right"),
    "none":      ("harmless",   "all sums are right"),
    "fewer":     ("absent",     "survivors, which make one world more of the job than the victim, throw Timeout with it as missing"),
    "worlds":    ("harmless",   "all sums are right in the second world that each rank makes, be the first one ended or not"),
    "child":     ("harmless",   "all sums are right; the child, which goes on with what its parent had, throws UsageError and ends"),
    "started":   ("harmless",   "all sums are right where one rank starts a call that others block in; MPI may refuse it in words"),
    "plan":      ("plans",      "every rank throws Disagreement, with the victim where it is outnumbered; on MPI the first to exit ends the rest"),
    "operation": ("mismatch",   "every rank of the call throws Disagreement, with the victim where it is outnumbered; where one side is a "
                                "send_recv, which is messages, Timeout with the victim is right as well without checked mode, on those "
                                "that wait for it"),
    "length":    ("mismatch",   "as operation"),
    "type":      ("mismatch",   "as operation"),
    "root":      ("mismatch",   "as operation"),
    "reduction": ("mismatch",   "as operation"),
    "parts":     ("mismatch",   "as operation, of a list that is as long and cut elsewhere"),
    "tag":       ("mismatch",   "as operation"),
    "skip":      ("sequence",   "every rank throws: Disagreement or Timeout with the victim, or what follows from that; in checked mode "
                                "Disagreement where all ranks of a group wait on its communicator, one of them in a collective"),
    "twice":     ("sequence",   "as skip"),
    "swap":      ("sequence",   "every rank throws with the ranks that it waits for, or all sums are right where none waits for the victim"),
}
ROWS = {
    "dies": "dies: killed, exits or throws, also with a forked child",
    "early": "returns early",
    "absent": "does not come",
    "stopped": "is stopped, or its link is cut",
    "limits": "has no more descriptors, memory or disk",
    "plans": "plans differ",
    "mismatch": "operation, length, type, root, reduction, tag or the parts of a list differ",
    "sequence": "a call skipped, made twice, or swapped with the next",
    "harmless": "harmless: paused, slowed, started for blocking, no fault",
}
# Without checked mode, docs/engines.md promises an error in words only where an engine notices; the rest is counted as not noticed.
STORE_PORTS = "tcp://127.0.0.1:29600-29663"  # of which rank 0 takes one that is free
LAUNCHERS = ("mpirun", "orterun", "orted")
MISMATCHES = ("mismatch", "sequence")
CLASSES = {
    "H": "hang", "O": "processes left", "W": "wrong data reported as right", "C": "aborted without words", "S": "silent",
    "E": "wrong or nameless error", "L": "late", "U": "not noticed, as documented",
}
# Where calls differ the real NCCL may do anything; the fake one ends the process with these words.
VIOLATION = "fake nccl: violation: "
NEVER_STARTED = "mpirun itself can end without words, crash or hang where a rank never starts MPI"
# What is known to fail today, and why: drawn, counted, and not run without --known.
KNOWN = {  # (engine, checked, row or kind, moment, or of a mismatch how it is called): reason; None stands for any
    ("nccl", False, "early", "step"): "NCCL says nothing of a call that meets the end of its communicator on a peer: the fake one ends the process",
    ("mpi", False, "mismatch", "started"): "Open MPI can crash in a started call whose data does not fit, before ranks have compared it",
    ("mpi", None, "absent", None): NEVER_STARTED,
    ("mpi", None, "early", "world"): NEVER_STARTED,
    ("mpi", None, "exit0", "world"): NEVER_STARTED,
    ("mpi", None, "stopped", "world"): NEVER_STARTED,
}

MOMENTS = {
    "kill": ("world", "join", "in-join", "step", "pending", "during", "end"),
    "exit": ("world", "join", "in-join", "step", "pending", "during", "end"),
    "segv": ("join", "step", "pending", "during"),
    "exit0": ("world", "join", "step", "pending", "during", "end"),
    "throw": ("world", "join", "step", "pending", "end"),
    "forked": ("join", "step", "pending"),
    "early": ("world", "join", "step"),
    "absent": ("world",),
    "fewer": ("world",),
    "worlds": ("world",),
    "stop": ("world", "join", "in-join", "step", "pending", "during"),
    "pause": ("world", "join", "in-join", "step", "pending", "during"),
    "slow": ("step", "pending"),
    "cut": ("world", "join", "in-join", "step", "pending", "during"),
    "child": ("step", "pending"),
    "finalize": ("step", "pending"),
    "descriptors": ("world", "join", "in-join", "step"),
    "memory": ("world", "join", "in-join", "step"),
    "disk": ("world", "join"),
}
# Faults that only some engines can have, and that --rare draws.
RARE = {"gloo": ("cut", "cut", "child", "descriptors", "memory", "disk", "worlds", "fewer"), "mpi": ("finalize", "child"), "nccl": (), "threads": ()}
BEFORE = ("world", "device", "join", "in-join")  # the first call
LISTED = ("all_gather_v", "gather_v", "scatter_v", "all_to_all_v")  # whose parts differ
ROOTED = ("reduce", "broadcast", "gather", "scatter", "gather_v", "scatter_v")
SCANS = ("scan", "exclusive_scan")
REDUCING = ("all_reduce", "reduce", *SCANS, "reduce_scatter", "list")
RINGS = ("send_recv", "halo")  # messages to both neighbours
TAGGED = RINGS + ("message",)
MESSAGES = ("message", "any")  # between the root and the rank behind it; "any": received from any rank
OPERATIONS = REDUCING + ("reproducible_sum", "broadcast", "gather", "scatter", "all_gather", "all_to_all", "shift") + LISTED + TAGGED + ("any", "sparse")
PLANS = ("order", "name", "axis", "sizes", "over", "separate")


@dataclasses.dataclass
class Job:
    engine: str
    checked: bool
    seed: int
    number: int
    timeout: int  # in ms
    dp: int = 1
    tp: int = 1
    kind: str = "none"
    moment: str = ""
    victim: int = -1
    at: int = -1
    delay: int = 0  # in us
    rare: bool = False
    room: int = 0  # what a limit leaves: descriptors, or MiB of memory
    store: str = "folder"
    plan: str = ""
    steps: list = dataclasses.field(default_factory=list)
    victim_steps: list = dataclasses.field(default_factory=list)

    @property
    def ranks(self):
        return self.dp * self.tp

    @property
    def row(self):
        return RIGHT[self.kind][0]

    def group(self, axes, rank):
        if axes == "all":
            return list(range(self.ranks))
        if axes == "dp":
            return list(range(rank % self.tp, self.ranks, self.tp))
        return list(range(rank // self.tp * self.tp, (rank // self.tp + 1) * self.tp))

    def members(self, step, rank):
        """The ranks with which `rank` makes this call: none for one that its message passes by."""
        group = self.group(step["axes"], rank)
        if step["operation"] not in MESSAGES:
            return group
        ends = [group[step["root"] % len(group)], group[(step["root"] + 1) % len(group)]]
        return ends if rank in ends else []

    def command(self):
        words = [f"tests/faults/faults.py --engine {self.engine}", "--checked" if self.checked else "",
                 "--rare" if self.rare else "", f"--store {self.store}" if self.store != "folder" else "",
                 f"--seed {self.seed} --job {self.number}", f"--timeout {self.timeout}" if self.timeout != 2000 else ""]
        return " ".join(word for word in words if word)

    def words(self):
        where = f" at {self.moment}" if self.moment else ""
        where += f" with the store of rank 0" if self.store == "tcp" else ""
        where += f" {self.at}" if self.moment in ("step", "pending", "during") or self.row in MISMATCHES else ""
        step = self.steps[self.at] if 0 <= self.at < len(self.steps) else None
        what = f" ({step['operation']} on {step['axes']}{', started' if step['how'] == 'started' else ''})" if step else ""
        return f"{self.kind}{where}{what} of rank {self.victim} in dp={self.dp} tp={self.tp}"


def as_words(steps):
    names = ("id", "axes", "operation", "length", "type", "reduction", "root", "how", "tag")
    return ",".join(":".join(str(step[name]) for name in names) for step in steps)


def draw(engine, checked, seed, number, timeout, rare=False, store="folder"):
    """The job of this number."""
    chance = random.Random(f"{seed} {engine} {int(checked)} {number}")
    job = Job(engine, checked, seed, number, timeout, rare=rare, store=store)
    job.dp, job.tp = chance.choice([(2, 1), (1, 3), (3, 1), (2, 2), (4, 1), (1, 5), (2, 3), (3, 2), (6, 1)])
    axes = [name for name, size in (("dp", job.dp), ("tp", job.tp), ("all", 2)) if size > 1]
    for i in range(chance.randint(6, 16)):
        job.steps.append({
            "id": i, "axes": chance.choice(axes), "operation": chance.choice(OPERATIONS),
            # No two are alike, so that no call can be taken for another one.
            "length": (chance.choice([1, 20, 20, 20, 20000]) + i) * 2, "type": chance.choice(["i32", "f32", "i64"]),
            "reduction": chance.choice(["sum", "max"]), "root": chance.randrange(job.ranks),
            "how": chance.choice(["blocking", "blocking", "started"]), "tag": chance.choice([0, 0, 1, 2])})
    if engine == "nccl":
        for step in job.steps:
            step["operation"] = "message" if step["operation"] == "any" else step["operation"]
            as_nccl_has(step)
    job.victim = chance.randrange(job.ranks)
    row = chance.choice(["dies"] * 6 + ["early", "absent", "stopped", "plans"] + ["mismatch", "sequence"] * 3 + ["harmless"] * 2)
    others = {kind for kinds in RARE.values() for kind in kinds}
    kinds = [kind for kind, right in RIGHT.items() if right[0] == row and kind not in others]
    if engine == "threads":  # a killed thread is a killed process
        kinds = [kind for kind in kinds if row != "dies" or kind == "throw"]
    job.kind = chance.choice(kinds)
    if rare:
        job.kind = chance.choice(RARE[engine])
    moments = MOMENTS.get(job.kind, ("",))
    if engine == "threads":
        moments = [moment for moment in moments if moment not in ("world", "in-join", "during")] or ["join"]
    if engine == "nccl" and job.kind != "absent" and "world" in moments:
        moments = ("device", *moments)  # between the world of hosts and that of devices
    job.moment = chance.choice(moments)
    job.delay = chance.choice([100, 1000, 10000, 50000]) if job.moment == "in-join" else chance.choice([10, 100, 1000])
    job.plan = chance.choice(["order", "name", "axis", "sizes", "over", "separate"])
    if job.plan == "order" and job.dp == job.tp or job.plan in ("sizes", "over") and job.tp == 1:
        job.plan = "name"
    change_calls(job, chance)
    if rare:
        job.room = chance.choice([0, 1, 2, 5, 10, 20, 50])
    barrier = {"id": 99, "axes": "all", "operation": "barrier", "length": 1, "type": "i32", "reduction": "sum", "root": 0,
               "how": "started" if engine == "nccl" else "blocking", "tag": 0}  # a device is waited for
    if job.kind != "early" or job.moment != "step":
        job.victim_steps.append(barrier)
    job.steps.append(barrier)
    return job


def as_nccl_has(step):
    """Changes a call that NCCL does not have: it scans by sum only, and sums in any order."""
    if step["operation"] in SCANS:
        step["reduction"] = "sum"
    instead = {"reproducible_sum": "all_reduce", "sparse": "shift"}
    step["operation"] = instead.get(step["operation"], step["operation"])


def is_of_two(job):
    """Whether two ranks contradict each other about what one sends to the other: no majority says which one is wrong."""
    calls = {job.steps[job.at]["operation"], job.victim_steps[job.at]["operation"]}
    return bool(calls & set(RINGS) or job.kind == "length" and calls & set(LISTED))


def change_calls(job, chance):
    """Chooses the call that the fault is about, and changes the victim's calls where they are the fault."""
    takes_part = [i for i, step in enumerate(job.steps) if len(job.members(step, job.victim)) > 1]
    if job.kind == "root":
        takes_part = [i for i in takes_part if job.steps[i]["operation"] in ROOTED]
    if job.kind == "reduction":
        takes_part = [i for i in takes_part if job.steps[i]["operation"] in REDUCING and
                      (job.engine != "nccl" or job.steps[i]["operation"] not in SCANS)]
    if job.kind == "operation":
        takes_part = [i for i in takes_part if job.steps[i]["operation"] not in MESSAGES]
    if job.kind in ("length", "type"):  # a receiver of "sparse" expects neither
        takes_part = [i for i in takes_part if job.steps[i]["operation"] != "sparse"]
    if job.kind == "tag":
        takes_part = [i for i in takes_part if job.steps[i]["operation"] in TAGGED]
    if job.kind == "swap":
        takes_part = [i for i in takes_part if i + 1 in takes_part]
    if job.row == "sequence":  # two of "sparse" match, whatever their lengths
        takes_part = [i for i in takes_part if [step["operation"] for step in job.steps[i:i + 2]] != ["sparse"] * 2]
    if not takes_part:  # such a job is one without a fault
        job.kind, job.moment = "none", ""
        job.victim_steps = list(job.steps)
        return
    at = job.at = chance.choice(takes_part)
    if job.moment == "pending":
        job.steps[at]["how"] = "started"
        if job.steps[at]["operation"] == "sparse":  # which has no started form
            job.steps[at]["operation"] = "shift"
    if job.moment == "during" and job.kind != "pause":  # long enough to be met inside
        job.steps[at]["length"] = 200000 + job.at
    if job.kind == "parts":
        job.steps[at] |= {"operation": "list", "length": max(20, job.steps[at]["length"])}
    job.victim_steps = [dict(step) for step in job.steps]
    own = job.victim_steps[at]
    if job.kind == "operation":
        no_others = ("reproducible_sum", "all_reduce") if own["operation"] == "all_reduce" and job.engine == "nccl" else ()
        own["operation"] = chance.choice([name for name in OPERATIONS if name not in (*MESSAGES, own["operation"], *no_others)])
        if job.engine == "nccl":
            as_nccl_has(own)
    if job.kind == "length":
        own["length"] += chance.choice([-1, 1, 7, 5000])
    if job.kind == "type":
        own["type"] = chance.choice([name for name in ("i32", "f32", "i64") if name != own["type"]])
    if job.kind == "tag":
        own["tag"] += chance.choice([1, 2])
    if job.kind in ("root", "parts"):
        size = len(job.group(own["axes"], job.victim))
        own["root"] = (own["root"] + chance.randrange(1, size)) % size if size > 1 else own["root"]
        own["root"], job.steps[at]["root"] = own["root"], job.steps[at]["root"] % size
        if own["root"] == job.steps[at]["root"]:
            own["root"] = (own["root"] + 1) % size
    if job.kind == "reduction":
        own["reduction"] = "max" if own["reduction"] == "sum" else "sum"
    if job.kind == "started":
        own["how"] = "blocking" if own["how"] == "started" else "started"
    if job.kind == "skip":
        del job.victim_steps[at]
    if job.kind == "twice":
        job.victim_steps.insert(at, dict(own))
    if job.kind == "swap":
        job.victim_steps[at], job.victim_steps[at + 1] = job.victim_steps[at + 1], job.victim_steps[at]
    if job.kind == "early" and job.moment == "step":
        del job.victim_steps[at:]


# --- one job ---

@dataclasses.dataclass
class Outcome:
    events: dict  # rank: its events
    codes: dict   # rank: the exit code; -1: the launcher's, or that of the process of all threads
    text: str     # what was printed besides events
    seconds: float
    hung: list    # pids that were still there at the end
    only_launcher: bool = False
    left: list = dataclasses.field(default_factory=list)  # pids that outlived the job


def processes_of(mark):
    """The pids of the processes that have inherited the mark of a job."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark.encode() in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def events_in(paths):
    events, rest = collections.defaultdict(list), []
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line[line.index('{"rank"'):])
                events[event["rank"]].append(event)
            except ValueError:
                rest.append(line)
    return events, "\n".join(rest)


class Links:
    """A network of its own for each rank, linked by a bridge, from which a rank can be cut off without anybody being told."""

    def __init__(self, ranks):
        self.holders = []
        try:
            self.hub = self.hold()
            self.do(self.hub, "link add bridge0 type bridge", "link set bridge0 up")
            self.hosts = [self.hold() for _ in range(ranks)]
            self.do(self.hub, *(words for rank, host in enumerate(self.hosts) for words in (
                f"link add port{rank} type veth peer name eth0 netns {host}", f"link set port{rank} master bridge0 up")))
            for rank, host in enumerate(self.hosts):
                self.do(host, "link set lo up", f"address add {self.address(rank)}/24 dev eth0", "link set eth0 up")
        except Exception:
            self.close()
            raise

    def hold(self):
        """The pid of a process that does nothing but be in a network namespace of its own."""
        holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 600"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.holders.append(holder)
        if not holder.stdout.readline():
            raise OSError(holder.stderr.read().decode().strip())
        return holder.pid

    @staticmethod
    def do(host, *commands):
        subprocess.run(["nsenter", "-t", str(host), "-n", "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True,
                       capture_output=True)

    @staticmethod
    def address(rank):
        return f"10.88.0.{rank + 1}"

    def on(self, rank):
        return ["nsenter", "-t", str(self.hosts[rank]), "-n"]

    def cut(self, rank):
        self.do(self.hub, f"link set port{rank} nomaster")

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.communicate()

    @staticmethod
    @functools.cache
    def why_not():
        """Why this machine cannot have them, "" if it can."""
        try:
            Links(2).close()
            return ""
        except (OSError, subprocess.CalledProcessError) as error:
            return f"links cannot be cut here: {getattr(error, 'stderr', None) or error}".strip()


def run(job, program, launcher):
    folder = Path(tempfile.mkdtemp(prefix="faults"))
    mark = f"RANKMESH_FAULT_JOB={os.getpid()}-{job.number}-{folder.name}"
    environment = {name: value for name, value in os.environ.items()
                   if not re.match("RANKMESH_|OMPI_COMM|OMPI_MCA|PMI_|WORLD_SIZE|RANK$|SLURM_", name)}
    environment |= dict([mark.split("=")], TMPDIR=str(folder), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    arguments = [str(program)] + [f"{name}={value}" for name, value in {
        "engine": job.engine, "timeout": job.timeout, "checked": int(job.checked), "dp": job.dp, "tp": job.tp,
        "fault": "early" if job.kind == "absent" else job.kind,
        "when": job.moment, "victim": job.victim, "at": job.at, "delay": job.delay, "room": job.room, "plan": job.plan,
        "steps": as_words(job.steps), "victim-steps": as_words(job.victim_steps)}.items()]
    outs, children, readers, links = [], {}, [], None

    def start(rank, words, **more):
        outs.append(folder / f"out-{rank}")
        with open(outs[-1], "w") as out:
            if job.kind == "disk":  # what is full must not be what ranks print to
                readers.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out, start_new_session=True))
                out = readers[-1].stdin
            children[rank] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                              env=environment | more)
            if readers:
                out.close()

    began = time.monotonic()
    if job.engine == "mpi":
        start(-1, launcher.split() + ["-n", str(job.ranks)] + arguments)
    elif job.engine == "threads":
        start(-1, arguments)
    else:
        links = Links(job.ranks) if job.kind == "cut" else None
        store = folder / "store" if job.store == "folder" else f"tcp://{links.address(0)}:29500" if links else STORE_PORTS
        for rank in range(job.ranks):
            start(rank, (links.on(rank) if links else []) + arguments, RANK=str(rank), WORLD_SIZE=str(job.ranks),
                  RANKMESH_STORE=str(store), RANKMESH_JOB=folder.name, RANKMESH_INTERFACE="eth0" if links else "lo")
    limit = began + 4 * job.timeout / 1000 + 60
    goes_on, stopped, lasting, woken = None, None, [], False
    while True:
        running = [rank for rank, child in children.items() if child.poll() is None]
        events, _ = events_in(outs) if job.kind in ("stop", "pause", "forked", "cut") and stopped is None else ({}, "")
        for event in events.get(job.victim, []):
            if event["event"] == "fault":
                stopped = event["pid"]
                lasting = [event["child"]] if event["child"] else []
                goes_on = time.monotonic() + job.timeout / 4000
        if job.engine != "threads" and goes_on and time.monotonic() > goes_on and job.kind == "pause":
            send_signal(stopped, signal.SIGCONT)
            goes_on = None
        if job.kind == "cut" and stopped and not woken and state_of(stopped) == "T":
            links.cut(job.victim)
            send_signal(stopped, signal.SIGCONT)
            woken = True
        if job.kind == "stop" and stopped and state_of(stopped) == "T" and is_alone(job, stopped, running, mark):
            send_signal(stopped, signal.SIGCONT if job.engine in ("gloo", "nccl") else signal.SIGKILL)
        if not running or time.monotonic() > limit:
            break
        time.sleep(0.01)
    seconds = time.monotonic() - began
    hung = [pid for pid in processes_of(mark) if pid not in lasting] if running else []
    only_launcher = bool(hung) and all(name_of(pid) in LAUNCHERS for pid in hung)
    left = []
    if not running:
        for _ in range(50):  # who has been told to end may need a moment
            left = [pid for pid in processes_of(mark) if pid not in lasting and state_of(pid) != "Z"]
            if not left:
                break
            time.sleep(0.05)
    for pid in processes_of(mark):
        send_signal(pid, signal.SIGKILL)
    for child in [*children.values(), *readers]:
        child.wait()
    if links:
        links.close()
    events, text = events_in(outs)
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(events, {rank: child.returncode for rank, child in children.items()}, text, seconds, hung, only_launcher, left)


def is_alone(job, victim, running, mark):
    """Whether all other ranks have ended."""
    if job.engine != "mpi":
        return running == [job.victim]
    return all(pid == victim or name_of(pid) in LAUNCHERS or state_of(pid) == "Z" for pid in processes_of(mark))


# --- how it ended ---

def judge(job, outcome):
    """The class of the end, "" if it is right, and why."""
    if outcome.hung:
        return "H", "only the launcher is left" if outcome.only_launcher else f"after {outcome.seconds:.1f} s"
    if outcome.left:
        return "O", f"{len(outcome.left)} processes"
    compared = job.engine == "mpi" and job.row == "mismatch" and is_collective(job)  # among the first calls
    noticed = job.checked or job.engine == "threads" or job.row not in MISMATCHES or compared
    wrong = [rank for rank, events in outcome.events.items() if any(event["event"] == "wrong" for event in events)]
    if wrong:
        return "W" if noticed else "U", f"wrong data on {sorted(wrong)}"
    children = [event for events in outcome.events.values() for event in events if event.get("phase") == "child"]
    ends = {rank: next((event for event in reversed(events) if event["event"] in ("ok", "error") and event not in children), None)
            for rank, events in outcome.events.items()}
    ends = {rank: ends.get(rank) for rank in range(job.ranks)}
    fault = next((event for event in outcome.events.get(job.victim, []) if event["event"] == "fault"), None)
    if job.kind == "child" and fault and [child["type"] for child in children] != ["UsageError"]:
        return "E" if children else "C", f"the child: {children}"
    met = not all(end and end["event"] == "ok" for end in ends.values())
    if job.row == "harmless" or job.row in ("dies", "stopped", "limits") and not fault or job.row == "limits" and not met:
        return harmless(job, outcome, ends)
    if job.kind == "swap" and all(end and end["event"] == "ok" for end in ends.values()):
        return harmless(job, outcome, ends)
    return (judge_mpi if job.engine == "mpi" else judge_ranks)(job, outcome, ends, fault, noticed)


def is_collective(job):
    return not {job.steps[job.at]["operation"], job.victim_steps[job.at]["operation"]} & set(TAGGED)


def harmless(job, outcome, ends):
    said = outcome.text + "".join(end["text"] for end in ends.values() if end and end["event"] == "error")
    refused = "MPI does not match a started call|An error occurred in MPI|is not the same on all its ranks: (blocking|started) "
    if job.kind == "started" and job.engine == "mpi" and re.search(refused, said):
        return "", ""
    for rank, end in ends.items():
        if not end:
            return "C", f"rank {rank} ended without words, exit codes {outcome.codes}: {outcome.text[-600:]}"
        if end["event"] != "ok":
            return "E", f"rank {rank}: {end['type']}: {end['text']}"
    bad = {rank: code for rank, code in outcome.codes.items() if code != 0}
    return ("C", f"exit codes {bad} after success") if bad else ("", "")


def named(end):
    return set(end.get("ranks", []))


def judge_ranks(job, outcome, ends, fault, noticed):
    """Of processes or threads that end by themselves."""
    allowed = allowed_types(job)
    last = len(job.steps) - 1
    near_end = job.moment == "end" or job.moment in ("during", "in-join") and fault and fault["step"] >= last
    survivors = [rank for rank in range(job.ranks) if rank != job.victim or job.row in ("plans", "mismatch", "sequence")]
    failed = {rank: ends[rank]["ns"] for rank in ends if ends[rank] and ends[rank]["event"] == "error"}
    problems = []
    for rank in survivors:
        end, code = ends[rank], outcome.codes.get(rank, outcome.codes.get(-1))
        reported = re.search("rankmesh: |" + VIOLATION, outcome.text) and not noticed
        if code is not None and code < 0 and not reported:
            problems.append(("C", f"rank {rank} ended by signal {-code}"
                             + (f" after {end['type']}" if end and end["event"] == "error" else "")))
        elif not end:
            problems.append(("C", f"rank {rank} ended without words")) if not reported else None
        elif end["event"] == "ok":
            if not near_end and noticed:
                problems.append(("S", f"rank {rank} ended well"))
        elif not noticed:
            if end["type"] in ("other", "UsageError"):
                problems.append(("E", f"rank {rank}: {end['type']}: {end['text']}"))
        else:
            problems += judge_error(job, rank, end, fault, allowed, failed)
    if not problems and fault:
        problems += judge_victim(job, outcome, ends[job.victim], near_end)
    if job.kind in ("skip", "twice") and noticed and not problems:
        said = "\n".join(end["text"] for end in ends.values() if end and end["event"] == "error")
        if not re.search(rf"(rank |\{{[^}}]*|from |to )\b{job.victim}\b", said):
            problems.append(("E", f"no rank names {job.victim}: {said}"))
    if job.checked and job.row in MISMATCHES and not problems and (group := undetected(job, ends)):
        problems.append(("L", f"ranks {group} wait in different calls until the timeout"))
    if not noticed and not problems and re.search(VIOLATION, outcome.text):
        return "U", "the fake NCCL ended a process"
    if not noticed and not failed and not problems and not re.search("rankmesh: ", outcome.text):
        return "U", "no rank failed"
    return min(problems, key=lambda problem: "CSEL".index(problem[0])) if problems else ("", "")


def undetected(job, ends):
    """A group whose ranks all waited on its communicator, one of them in a collective, until a timeout; none if there is none."""
    def call_of(rank):
        end = ends[rank]
        steps = job.victim_steps if rank == job.victim else job.steps
        return steps[end["step"]] if end and end["event"] == "error" and end["phase"] == "step" else None

    for group in {tuple(job.group(step["axes"], rank)) for rank in ends if (step := call_of(rank))}:
        calls = {rank: call_of(rank) for rank in group}
        if len(group) > 1 and all(call and tuple(job.group(call["axes"], rank)) == group for rank, call in calls.items()) \
                and any(call["operation"] not in RINGS + MESSAGES for call in calls.values()) \
                and any(ends[rank]["type"] == "Timeout" for rank in group):
            return list(group)
    return []


def judge_victim(job, outcome, end, near_end):
    """What is wrong with the end of a rank that meets a limit, or that goes on after the others have given it up."""
    code = outcome.codes.get(job.victim, outcome.codes.get(-1))
    if job.kind in ("stop", "cut") and job.engine in ("gloo", "nccl"):
        if not end or code < 0:
            return [("C", f"the victim, rank {job.victim}, ended without words by {code}")]
        if end["event"] == "ok" and not near_end and job.moment != "during":
            return [("S", "the victim ended well")]
        if end["event"] == "error" and (end["type"] not in ("Timeout", "PeerLost") or not named(end)):
            return [("E", f"the victim, rank {job.victim}: {end['type']}: {end['text']}")]
    if job.row == "limits":
        if not end and not outcome.text.strip():
            return [("C", f"the victim, rank {job.victim}, ended without words by {code}")]
        if end and end["event"] == "ok":
            return [("S", "the victim ended well")]
        if end and end["type"] == "other" and job.kind != "memory":
            return [("E", f"the victim, rank {job.victim}: {end['type']}: {end['text']}")]
    return []


def allowed_types(job):
    """What a rank of the same call may throw."""
    if job.row == "dies":
        return {"PeerLost"} | ({"Timeout"} if job.moment in BEFORE else set())
    if job.row == "early":
        return {"PeerLost"} | ({"Timeout"} if job.moment in BEFORE and job.engine != "threads" else set())
    if job.row == "limits":
        return {"PeerLost", "Timeout", "Disagreement"}
    if job.row == "absent":
        return {"PeerLost"} if job.engine == "threads" else {"Timeout"}
    if job.row == "stopped":
        return {"Timeout"}
    if job.row == "sequence":
        return {"Disagreement", "Timeout", "PeerLost"}
    return {"Disagreement"}


def judge_error(job, rank, end, fault, allowed, failed):
    """What is wrong with the error of one rank."""
    said = f"rank {rank}: {end['type']} of {sorted(named(end))}: {end['text']}"
    # The call in which it failed: does the victim take part in it, and had the fault happened by then?
    step = job.steps[end["step"]] if end["phase"] == "step" and rank != job.victim else None
    together = set(range(job.ranks)) if step is None else set(job.members(step, rank))
    direct = job.victim in together and (step is None or end["step"] >= job.at or job.moment in BEFORE)
    if end["type"] not in ("PeerLost", "Timeout", "Disagreement"):
        return [("E", said)]
    if not named(end):
        return [("E", said)]
    if rank == job.victim or job.row == "sequence":  # what either waits for is true of both; judged as a whole
        return []
    if end["type"] == "Disagreement" and len(together) == 2 and job.victim in together:
        return []  # neither is outnumbered
    # Others that had failed by then, or were failing: their own words say why.
    followed = {other for other, ns in failed.items() if ns < end["ns"] + 100_000_000 or end["type"] == "Timeout"} - {rank}
    by_victim = job.kind == "cut" and f"expired on rank {job.victim} " in end["text"] + " " or \
        job.kind == "cut" and re.search(rf" on rank {job.victim}: arrived", end["text"])
    if by_victim:  # to whom the others are missing
        return []
    at_other = re.search(r"expired on (?:rank (\d+)|ranks \{[^}]*\})", end["text"])
    if at_other and at_other.group(1) != str(rank):  # the words of others, to whom this one may be missing
        followed.add(rank)
    if job.row == "mismatch" and end["type"] == "Disagreement" and end["step"] >= job.at and job.victim in named(end) \
            and is_of_two(job):  # one whose messages have come is in a later call
        return []
    if named(end) - followed - {job.victim}:
        return [("E", said)]
    # A rank that ends because of another passes that one on: who is named otherwise has not come, and waits for the victim.
    if job.engine != "mpi" and end["type"] == "PeerLost" and named(end) != {job.victim}:
        return [("E", said)]
    follows = bool(named(end) & followed) and end["phase"] == "step" and not end["type"] == "Disagreement"
    if job.row == "mismatch":
        direct = step is not None and end["step"] == job.at and job.victim in together
        if direct and is_of_two(job):
            if job.victim not in named(end) and not named(end) & followed:
                return [("E", said)]
        elif direct and (end["type"] != "Disagreement" or named(end) != {job.victim}):
            return [("E", said)]
    elif job.row == "plans":
        if end["type"] != "Disagreement" or job.ranks > 2 and named(end) != {job.victim}:
            return [("E", said)]
    elif end["phase"] != "step" and named(end) != {job.victim}:
        return [("E", said)]
    elif direct and end["type"] not in allowed:
        late = end["type"] == "Timeout" and job.victim in named(end)
        if not (follows and not late):
            return [("L" if late else "E", said)]
    elif direct and job.row in ("dies", "stopped") and job.victim not in named(end) and end["step"] >= job.at and not follows:
        return [("E", said)]
    since = max(end["began"], fault["ns"] if fault else 0)
    waited = (end["ns"] - since) / 1e6
    if end["type"] == "PeerLost" and direct and end["phase"] == "step" and job.victim in named(end) and job.row in ("dies", "early") \
            and waited > 0.75 * job.timeout:
        return [("L", f"after {waited:.0f} ms, {said}")]
    if waited > job.timeout * (2.5 if job.checked else 1.5) + 1500:  # checked, comparing and moving have a timeout each
        return [("L", f"after {waited:.0f} ms, {said}")]
    return []


def blamed_in(text, ranks):
    """The ranks that the text of an MPI job names as the cause."""
    found = set()
    for pattern in (r"missing ranks? (\{[^}]*\}|\d+)", r"no answer from ranks? (\{[^}]*\}|\d+)", r"rank (\{[^}]*\}|\d+)(?: \[[^]]*\])? (?:has ended|left by|is stopped|is gone)",
                    r"process rank (\d+)", r"Process name: \[\[\d+,\d+\],(\d+)\]", r"have started what (\{[^}]*\}|\d+)",
                    r"the fault of rank (\d+)", r"rank (\d+) with PID"):
        for match in re.finditer(pattern, text):
            words = match.group(1).strip("{}")
            for word in words.split(","):
                low, _, high = word.strip().partition("..")
                found |= set(range(int(low), int(high or low) + 1))
    return found & set(range(ranks))


def judge_mpi(job, outcome, ends, fault, noticed):
    """Of a job that a failure ends as a whole."""
    code = outcome.codes[-1]
    errors = {rank: end for rank, end in ends.items() if end and end["event"] == "error"}
    spoken = bool(errors) or bool(re.search("rankmesh: |An error occurred in MPI|mpirun noticed|mpirun has exited|mpirun detected|"
                                            "Primary job|MPI_ABORT", outcome.text))
    near_end = job.moment == "end" or job.moment in ("during", "in-join") and fault and fault["step"] >= len(job.steps) - 1
    well = [rank for rank, end in ends.items() if rank != job.victim and end and end["event"] == "ok"]
    if not noticed:
        if not spoken:
            return ("C", f"exit code {code}: {outcome.text[-600:]}") if code else ("U", "no rank failed")
        return "", ""
    if code == 0 and not (near_end and len(well) == job.ranks - 1):
        return "S", "the launcher says success"
    if well and not near_end:
        return "S", f"{well} ended well"
    if not spoken:
        return ("", "") if near_end and len(well) == job.ranks - 1 else ("C", f"exit code {code}: {outcome.text[-600:]}")
    survivors = {rank: end for rank, end in errors.items() if rank != job.victim or job.row in MISMATCHES}
    failed = {rank: end["ns"] for rank, end in errors.items()}
    allowed = allowed_types(job) | {"Timeout", "PeerLost"}
    for rank, end in survivors.items():
        problems = judge_error(job, rank, end, fault, allowed, failed)
        if problems:
            return problems[0]
    if job.row in ("plans", "mismatch") and survivors:
        return "", ""
    if job.row == "mismatch" and len(job.members(job.steps[job.at], job.victim)) == 2 \
            and "is not the same on all its ranks" in outcome.text:
        return "", ""  # both calls are told, and neither rank is outnumbered
    blamed = blamed_in(outcome.text, job.ranks) | {rank for end in survivors.values() for rank in named(end)}
    if job.moment == "world" and re.search("1 process returned", outcome.text):
        return "", ""
    if job.victim not in blamed and not (near_end and len(well) == job.ranks - 1) and job.row != "sequence":
        return "E", f"names {sorted(blamed)}: {outcome.text[-900:]}"
    return "", ""


# --- all jobs ---

def is_known(job):
    if job.kind == "cut" and Links.why_not():
        return Links.why_not()
    when = job.moment
    if job.row == "mismatch" and "started" in (job.steps[job.at]["how"], job.victim_steps[job.at]["how"]):
        when = "started"
    for (engine, checked, what, moment), reason in KNOWN.items():
        if engine == job.engine and checked in (None, job.checked) and what in (job.row, job.kind) and moment in (None, when):
            return reason
    return None


def table(counts, columns):
    lines = ["| fault | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row, words in ROWS.items():
        cells = []
        for column in columns:
            ended = counts.get((column, row), collections.Counter())
            jobs = sum(ended.values())
            bad = " ".join(f"{ended[name]}{name}" for name in CLASSES if ended[name])
            cells.append(f"{jobs} / {ended['']}" + (f" {bad}" if bad else "") if jobs else "-")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def program_in(build, name="faults_rank"):
    found = sorted(build.glob(f"*/tests/faults/{name}"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit(f"no {name} is built; cmake --build build/release --target {name} makes it, or give --program")
    return found[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES + ("all",), default="threads", help="all: each engine, all but threads also checked")
    parser.add_argument("--jobs", type=int, default=100, help="how many, of each engine")
    parser.add_argument("--seed", type=int, help="else RANKMESH_FAULT_SEED, else a fresh one, which is printed")
    parser.add_argument("--checked", action="store_true", help="in checked mode")
    parser.add_argument("--rare", action="store_true", help="faults of Gloo or MPI alone: " + ", ".join(sorted(set(sum(RARE.values(), ())))))
    parser.add_argument("--store", choices=("folder", "tcp"), default="folder", help="of Gloo; tcp: the one that rank 0 serves")
    parser.add_argument("--job", type=int, help="only this one, with all that it printed")
    parser.add_argument("--fault", choices=RIGHT, help="only the jobs with this fault")
    parser.add_argument("--timeout", type=int, default=2000, help="of the worlds, in ms")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time")
    parser.add_argument("--known", action="store_true", help="also run what is known to fail")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each job instead of the table")
    parser.add_argument("--program", type=Path, help="else the newest build/*/tests/faults/faults_rank")
    parser.add_argument("--launcher", default="mpirun --oversubscribe", help="of MPI")
    given = parser.parse_args()
    if given.seed is None:
        given.seed = int(os.environ.get("RANKMESH_FAULT_SEED") or int.from_bytes(os.urandom(3), "little"))
    program = (given.program or program_in(ROOT / "build")).resolve()
    columns = [("threads", False)] + [(engine, checked) for engine in ENGINES[1:] for checked in (False, True)] \
        if given.engine == "all" else [(given.engine, given.checked)]
    numbers = [given.job] if given.job is not None else range(given.jobs)
    if given.rare:
        columns = [column for column in columns if RARE[column[0]]]
    jobs = [draw(engine, checked, given.seed, number, given.timeout, given.rare, given.store if engine == "gloo" else "folder")
            for engine, checked in columns for number in numbers]
    jobs = [job for job in jobs if given.fault in (None, job.kind)]
    print(f"seed {given.seed}: {len(jobs)} jobs", file=sys.stderr if given.json else sys.stdout, flush=True)
    left_out = collections.Counter()
    if given.job is None:
        reasons = [is_known(job) for job in jobs]
        left_out.update(reason for job, reason in zip(jobs, reasons) if reason and (job.kind == "cut" or not given.known))
        jobs = [job for job, reason in zip(jobs, reasons) if not reason or given.known and job.kind != "cut"]
    counts, bad = collections.defaultdict(collections.Counter), 0
    with concurrent.futures.ThreadPoolExecutor(given.workers) as pool:
        for job, outcome in zip(jobs, pool.map(lambda job: run(job, program, given.launcher), jobs)):
            kind, why = judge(job, outcome)
            counts[(job.engine + (", checked" if job.checked else ""), job.row)][kind] += 1
            bad += kind not in ("", "U")
            if given.json:
                print(json.dumps({"engine": job.engine, "checked": job.checked, "seed": job.seed, "job": job.number,
                                  "fault": job.kind, "moment": job.moment, "row": job.row, "class": kind, "why": why,
                                  "seconds": round(outcome.seconds, 2)}), flush=True)
            elif kind not in ("", "U"):
                print(f"{kind} ({CLASSES[kind]}) {job.words()}: {why[:900]}\n  {job.command()}", flush=True)
            if given.job is not None and not given.json:
                print(f"{job.words()}: {CLASSES.get(kind, 'right')} {why}\nright is: {RIGHT[job.kind][1]}")
                for rank in range(-1, job.ranks):
                    for event in outcome.events.get(rank, []):
                        print(" ", json.dumps(event))
                print(f"exit codes {outcome.codes} after {outcome.seconds:.1f} s\n{outcome.text}")
    if not given.json:
        print("\njobs / clear and right; then " + ", ".join(f"{name} {words}" for name, words in CLASSES.items()) + "\n")
        print(table(counts, list(dict.fromkeys(column for column, _ in counts))))
        for reason, count in left_out.items():
            print(f"left out: {count} jobs: {reason}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
