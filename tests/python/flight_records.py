"""Dumps of PyTorch's flight recorder for a program on NCCL in which one rank does something wrong.

A rank's device runs its calls in order: one begins when the one before it is over, and is over when all members of its
group have begun it with the same arguments. A rank's program is `ahead` calls ahead of its device at most.
With the fault "stall" a call to which all have come does not end; nobody is to blame.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankmesh import Mesh

FAULTS = ("none", "skip", "twice", "swap", "operation", "size", "dtype", "stop", "dead", "not started", "unfinished")
OPERATIONS = ("all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast")


@dataclass(frozen=True)
class Call:
    """One collective: the axis of its group, or "" for all ranks."""

    axis: str
    operation: str
    size: int
    dtype: str = "Float"


@dataclass
class Enqueued:
    """A call of one rank, as its recorder has it."""

    call: Call
    group: str
    number: int
    state: str = "scheduled"


@dataclass
class Job:
    """A program on a mesh, who does what wrong in it, and the ranks' calls when nothing goes on."""

    mesh: Mesh
    fault: str
    culprit: int
    step: int
    stalled: tuple[str, int] | None
    programs: list[list[Call]]
    groups: dict[str, list[int]]
    names: list[dict[str, str]]
    enqueued: list[list[Enqueued]] = field(default_factory=list)


def job(seed: int, fault: str) -> Job:
    """The job of a seed, run until nothing goes on."""
    draw = random.Random(f"{seed} {fault}")
    meshes = ["dp=2 tp=2", "dp=3 tp=2", "dp=2 tp=4", "pp=2 dp=2 tp=2", "dp=4 tp=3", "dp=2 tp=3 cp=2"]
    mesh = Mesh(draw.choice(meshes))
    axes = list(mesh.axes)
    groups = {"0": list(range(mesh.size))}
    names: list[dict[str, str]] = [{"": "0"} for _ in range(mesh.size)]
    for axis in axes:
        for ranks in mesh.partition(axis):
            name = str(len(groups))
            groups[name] = list(ranks)
            for rank in groups[name]:
                names[rank][axis] = name
    # As programs do, no two calls in a row are the same.
    calls: list[Call] = []
    while len(calls) < 16:
        call = Call(draw.choice([*axes, *axes, ""]), draw.choice(OPERATIONS), draw.choice([4, 64, 1024]))
        if not calls or (calls[-1].axis, calls[-1].operation) != (call.axis, call.operation):
            calls.append(call)
    culprit = draw.randrange(mesh.size)
    step = draw.randrange(4, 10)
    programs = [list(calls) for _ in range(mesh.size)]
    wrong = programs[culprit]
    call = wrong[step]
    if fault == "skip":
        del wrong[step]
    elif fault == "twice":
        wrong.insert(step, call)
    elif fault == "swap":
        # Of two groups that share ranks: the others wait in the one, and the culprit in the other.
        pair = [Call(axes[0], "all_reduce", 7), Call("", "all_reduce", 7)]
        for rank, program in enumerate(programs):
            program[step : step + 2] = reversed(pair) if rank == culprit else pair
    elif fault == "operation":
        wrong[step] = Call(call.axis, "broadcast" if call.operation != "broadcast" else "all_reduce", call.size)
    elif fault == "size":
        wrong[step] = Call(call.axis, call.operation, call.size + 1)
    elif fault == "dtype":
        wrong[step] = Call(call.axis, call.operation, call.size, "BFloat16")
    elif fault in ("stop", "dead"):
        del wrong[step:]
    name = names[culprit][call.axis]
    before = sum(names[culprit][other.axis] == name for other in calls[: step + 1])
    stalled = (name, before) if fault == "stall" else None
    made = Job(mesh, fault, culprit, step, stalled, programs, groups, names)
    run(made, ahead=draw.randrange(1, 5))
    return made


def run(job: Job, ahead: int) -> None:
    """Runs the devices until nothing goes on."""
    size = job.mesh.size
    made: list[list[Enqueued]] = [[] for _ in range(size)]
    done = [0] * size
    counts: list[dict[str, int]] = [{} for _ in range(size)]
    began: dict[tuple[str, int], dict[int, Call]] = {}
    goes_on = True
    while goes_on:
        goes_on = False
        for rank in range(size):
            program = job.programs[rank]
            while len(made[rank]) < min(len(program), done[rank] + ahead):
                call = program[len(made[rank])]
                name = job.names[rank][call.axis]
                counts[rank][name] = counts[rank].get(name, 0) + 1
                made[rank].append(Enqueued(call, name, counts[rank][name]))
                goes_on = True
            if done[rank] == len(made[rank]):
                continue
            entry = made[rank][done[rank]]
            if entry.state == "scheduled":
                if job.fault == "not started" and rank == job.culprit and done[rank] == job.step:
                    continue
                entry.state = "started"
                began.setdefault((entry.group, entry.number), {})[rank] = entry.call
                goes_on = True
            calls = began[entry.group, entry.number]
            if job.fault == "unfinished" and rank == job.culprit and done[rank] == job.step:
                continue
            if (entry.group, entry.number) == job.stalled:
                continue
            if len(calls) == len(job.groups[entry.group]) and len(set(calls.values())) == 1:
                entry.state = "completed"
                done[rank] += 1
                goes_on = True
    job.enqueued = made


def dump(job: Job, rank: int) -> dict[str, Any]:
    """What PyTorch 2.13 writes for a rank."""
    entries = []
    for number, entry in enumerate(job.enqueued[rank]):
        call = entry.call
        many = len(job.groups[entry.group])
        sizes_in = call.size * many if call.operation == "_reduce_scatter_base" else call.size
        sizes_out = call.size * many if call.operation == "_all_gather_base" else call.size
        time = 1_760_000_000_000_000_000 + 1_000_000 * number + rank
        entries.append(
            {
                "frames": [{"name": "step", "filename": "train.py", "line": 10 + number}],
                "record_id": number,
                "pg_id": int(entry.group),
                "process_group": (entry.group, description(job, entry.group)),
                "thread_name": "pt_main_thread",
                "thread_id": "139",
                "collective_seq_id": entry.number,
                "p2p_seq_id": 0,
                "op_id": entry.number,
                "profiling_name": f"nccl:{call.operation}",
                "time_created_ns": time,
                "input_sizes": [[sizes_in]],
                "input_dtypes": [call.dtype],
                "output_sizes": [[sizes_out]],
                "output_dtypes": [call.dtype],
                "state": entry.state,
                "time_discovered_started_ns": None if entry.state == "scheduled" else time + 1,
                "time_discovered_completed_ns": time + 2 if entry.state == "completed" else None,
                "retired": entry.state == "completed",
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    mine = sorted(job.names[rank].values(), key=int)
    of = {name: [entry for entry in job.enqueued[rank] if entry.group == name] for name in mine}
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {
            name: {"name": name, "desc": description(job, name), "ranks": str(job.groups[name])} for name in mine
        },
        "pg_status": {
            name: {
                "last_enqueued_collective": len(of[name]),
                "last_started_collective": sum(entry.state != "scheduled" for entry in of[name]),
                "last_completed_collective": sum(entry.state == "completed" for entry in of[name]),
            }
            for name in mine
            if of[name]
        },
        "entries": entries,
    }


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    """A dump where PyTorch does not time calls, as by default: it has no start events, so no call is `started`."""
    for entry in record["entries"]:
        entry["time_discovered_started_ns"] = None
        if entry["state"] == "started":
            entry["state"] = "scheduled"
    for status in record["pg_status"].values():
        status["last_started_collective"] = -1
    return record


def of_gloo(record: dict[str, Any]) -> dict[str, Any]:
    """The same of PyTorch's Gloo: a call that is over is `retired`, and no group has its ranks."""
    untimed(record)
    for entry in record["entries"]:
        entry["profiling_name"] = entry["profiling_name"].replace("nccl:", "gloo:")
        entry["state"] = "scheduled"
        entry["time_discovered_completed_ns"] = None
    return record | {"pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}, "comm_lib_version": ""}


def without_entries(record: dict[str, Any]) -> dict[str, Any]:
    """A dump without its calls, of which the status alone tells."""
    return record | {"entries": []}


def description(job: Job, group: str) -> str:
    """What a program calls a group."""
    if group == "0":
        return "default_pg"
    return next(f"mesh_{axis}" for names in job.names for axis, name in names.items() if name == group)


def write(job: Job, folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
    """Writes the dumps of all ranks, as PyTorch names them, after a change; a rank that died has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(job.mesh.size):
        if job.fault != "dead" or rank != job.culprit:
            protocol = 2 if rank % 2 == 0 else 4
            made = pickle.dumps(change(dump(job, rank)), protocol=protocol)
            (folder / f"nccl_trace_rank_{rank}").write_bytes(made)
