# SPDX-License-Identifier: Apache-2.0
"""Where the processes of a run stand: each writes its stack when it is asked, and the script finds and reads them."""

import contextlib
import faulthandler
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

ANSWER = 10.0  # seconds for processes to write
END = ("in <module>\n", "in _run_module_as_main\n", "  ...\n")  # of a whole stack; faulthandler leaves out what is deeper


def write_when_asked(folder):
    """From now on, this process and those that it forks write their stacks into the folder on SIGUSR1."""

    def register():
        global _file
        _file = open(folder / f"stacks.{os.getpid()}", "w")
        faulthandler.register(signal.SIGUSR1, _file, all_threads=True)

    with contextlib.suppress(OSError):  # the folder is gone: the run has ended
        register()
        os.register_at_fork(after_in_child=register)


@dataclass(frozen=True)
class Place:
    """Where a process stands: in which line of a test, and in which function that the test has called."""

    who: str  # rank 3; child 3, if a test starts its ranks by itself
    at: str


def members(folder):
    """The processes of the run in this folder, by their environment: their ids and RANK, in the order of their ids."""
    mark = b"RANKMESH_ORIGINALS_RESULTS=" + os.fsencode(folder)
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            variables = path.read_bytes().split(b"\0")
            if mark in variables:
                ranks = [each[5:].decode() for each in variables if each.startswith(b"RANK=")]
                found[int(path.parent.name)] = ranks[0] if ranks else None
    return dict(sorted(found.items()))


def ask(folder):
    """Where the processes stand that are in a test."""
    ranks = {process: rank for process, rank in members(folder).items() if (folder / f"stacks.{process}").exists()}
    for process in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGUSR1)
    until = time.monotonic() + ANSWER
    while time.monotonic() < until and not all(written(folder, each).endswith(END) for each in ranks):
        time.sleep(0.05)
    places, children = [], 0
    for process, rank in ranks.items():
        at = innermost(written(folder, process))
        if at:
            places.append(Place(f"rank {rank}" if rank else f"child {children}", at))
            children += not rank
    return places


def written(folder, process):
    return (folder / f"stacks.{process}").read_text(errors="replace")


def innermost(stack):
    """The innermost line of a test in a stack that faulthandler has written, and what it has called; "" if none."""
    for thread in stack.split("\n\n"):
        frames = [line.strip() for line in thread.splitlines() if line.strip().startswith("File")]
        for frame in frames:
            if "test" in Path(frame.split('"')[1]).name:
                return "{file}:{line} in {name}".format(**_parts(frame)) + (
                    ", in {name} ({file}:{line})".format(**_parts(frames[0])) if frame != frames[0] else ""
                )
    return ""


def _parts(frame):
    """The parts of `File "/a/b.py", line 3 in call`."""
    _, file, rest = frame.split('"')
    line, _, name = rest.removeprefix(", line ").partition(" in ")
    return {"file": Path(file).name, "line": line, "name": name}
