# SPDX-License-Identifier: Apache-2.0
"""A run of a trainer: its ranks are started under a time limit, and what they have written is read."""

import contextlib
import json
import math
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from original_tests.processes import end, environment_of

SCRIPTS = Path(__file__).resolve().parents[1]
START = 600.0  # seconds until the ranks have begun
GRACE = 3.0  # seconds after the limit, at which ranks write where they stand


@dataclass
class Run:
    """What became of a run: `wrong` in words, or the steps and counts of each rank."""

    layout: str
    ranks: int
    module: str  # "" is the framework's own
    wrong: str = ""
    steps: list = field(default_factory=list)  # of each rank: a dict of numbers for each step
    counts: list = field(default_factory=list)  # of each rank: calls, made, groups, seconds
    errors: list = field(default_factory=list)  # of each rank that has one
    wall: float = 0.0

    def most(self, what):
        return max((each[what] for each in self.counts), default=0)

    @property
    def seconds(self):
        """Of the rank that has waited least for others."""
        return min((each["seconds"] for each in self.counts), default=0.0)

    @property
    def calls(self):
        """The fewest calls of our functions on a rank."""
        return min((sum(each["calls"].values()) for each in self.counts), default=0)


def start(trainer, framework, checkout, name, module, steps, limit):
    """Trains by this layout with `module` installed; "" is the framework's own."""
    layout = framework.layouts[name]
    run = Run(name, layout.ranks, module)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        where = sys.modules[trainer].__file__
        paths = [SCRIPTS, Path(where).parent] if "." not in trainer else [SCRIPTS]
        arguments = [str(layout.ranks), trainer, name, str(steps), str(limit)]
        with open(folder / "output", "w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "original_trainers.ranks", *arguments],
                cwd=folder, env=environment_of(framework, checkout, module or None, paths),
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                status = _wait(process, folder, layout.ranks, limit)  # None where it hangs
            finally:
                end(process)
        run.wall = time.monotonic() - began
        _read(run, folder)
        if status is None:
            run.wrong = f"not over in {limit:g} s\n" + "\n".join(_where(folder, rank) for rank in range(layout.ranks))
        elif status or len(run.counts) < layout.ranks:
            run.wrong = _error(run, folder, status)
        else:
            run.wrong = _useless(run, steps)
    return run


def _wait(process, folder, ranks, limit):
    """The status with which the process ends, or None: `limit` seconds after its ranks have begun."""
    begun, until = False, time.monotonic() + START
    while process.poll() is None and time.monotonic() < until:
        if not begun and all((folder / f"steps.{rank}").exists() for rank in range(ranks)):
            begun, until = True, time.monotonic() + limit + GRACE
        time.sleep(0.05)
    return process.returncode


def _read(run, folder):
    run.steps = [[] for rank in range(run.ranks)]
    for rank in range(run.ranks):
        with contextlib.suppress(OSError):
            lines = [json.loads(line) for line in (folder / f"steps.{rank}").read_text().splitlines()]
            run.steps[rank] += [line["step"] for line in lines if "step" in line]
            run.counts += [line for line in lines if "calls" in line]
            run.errors += [(rank, line) for line in lines if "error" in line]


def _printed(folder, rank, stream):
    with contextlib.suppress(OSError):
        text = (folder / "printed" / str(rank) / stream).read_text(errors="replace")
        return [line for line in text.splitlines() if line.strip()]
    return []


def _where(folder, rank):
    """What a rank that hangs has done and printed last, and where it stands."""
    text = f"  rank {rank}: "
    with contextlib.suppress(OSError):
        text += f"{len((folder / f'steps.{rank}').read_text().splitlines())} steps done, "
    said = _printed(folder, rank, "stdout")[-1:] or _printed(folder, rank, "stderr")[-1:]
    text += f"last printed: {said[0].strip()}" if said else "printed nothing"
    with contextlib.suppress(OSError):
        stack = (folder / f"stacks.{rank}").read_text().split("(most recent call first):\n")[-1]
        frames = [line.strip() for line in stack.splitlines() if line.strip().startswith("File")]
        text += "".join(f"\n    at {frame}" for frame in frames[:4])
    return text


def _error(run, folder, status):
    """The first error of a rank, or else the last line that one has printed."""
    if run.errors:
        rank, error = min(run.errors, key=lambda each: each[1]["time"])
        lines = error["error"].rstrip().splitlines()
        return f"rank {rank}: {lines[-1]}" + "".join(f"\n  {line}" for line in lines[-9:-1])
    lines = [line for rank in range(run.ranks) for line in _printed(folder, rank, "stderr")]
    lines = lines or (folder / "output").read_text(errors="replace").splitlines()
    return f"exit status {status}: {lines[-1].strip() if lines else 'no output'}"


def _useless(run, steps):
    """Why the steps cannot be compared."""
    if not any(run.steps):
        return "no rank has noted a step"
    for rank, noted in enumerate(run.steps):
        if noted and len(noted) != steps:
            return f"rank {rank} has noted {len(noted)} of {steps} steps"
        for number, step in enumerate(noted, 1):
            for name, value in step.items():
                if not math.isfinite(value):
                    return f"rank {rank}, step {number}: {name} is {value}"
    return ""


def difference(own, other):
    """Says where two runs first differ in a bit, "" where nowhere."""
    for number in range(max(map(len, own.steps))):
        for rank, (a, b) in enumerate(zip(own.steps, other.steps)):
            a, b = (each[number] if number < len(each) else {} for each in (a, b))
            for name in a | b:
                if name not in a or name not in b or struct.pack("d", a[name]) != struct.pack("d", b[name]):
                    return f"step {number + 1}, rank {rank}: {name} is {a.get(name)} with its own modules and {b.get(name)} with {other.module}"
    return ""


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # past the ends of what was started
