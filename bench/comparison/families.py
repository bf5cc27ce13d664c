"""The table of what is compared: which programs are run, and what their rows are held against."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A program of a build tree that appends to the file RANKMESH_SAMPLES; without one ./bench/compare takes it."""

    name: str
    command: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()  # instead, with --quick
    needs: tuple[str, ...] = ()  # of: mpirun, torch, peers
    is_quick: bool = True
    limit: int = 600  # seconds

    @property
    def stem(self) -> str:
        """Its name without the number at its end."""
        return re.sub(r" \d+$", "", self.name)


@dataclass(frozen=True)
class Family:
    """Rows whose names begin alike: what they stand beside, in which unit their curve runs, what is promised, and the
    least that any program could take."""

    name: str
    theirs: str
    unit: str
    target: float
    limit: str
    from_1_mib: float | None = None  # the target from there on, where it is another

    def target_at(self, at: str) -> float:
        large = self.unit == "bytes" and int(at) >= 1 << 20
        return self.from_1_mib if large and self.from_1_mib is not None else self.target


MPIRUN = ("mpirun", "--oversubscribe", "-n")
COLLECTIVES = ("{bin}/bench_engine_collectives",)
BACKEND = ("{python}", "{bench}/python/collectives.py", "--pairs", "backend", "checked")

PARTS = (
    Part("mesh", (*MPIRUN, "12", "{bin}/bench_core_mesh"), needs=("mpirun",)),
    Part("lists", ("{bin}/bench_framework_lists",)),
    Part("worlds", ("{bin}/bench_framework_start_up",)),
    Part("bookkeeping", ("{bin}/bench_engine_bookkeeping",)),
    Part(
        "frameworks",
        ("{python}", "{bench}/python/frameworks.py", "--ours", "{bin}/bench_framework_start_up", "--peers", "{peers}"),
        needs=("torch", "peers"),
        is_quick=False,
    ),
    *(
        Part(f"threads {size}", ("{bin}/bench_engine_threads", str(size)), is_quick=size == 8)
        for size in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    ),
    *(
        Part(f"join {n}", (*MPIRUN, str(n), "{bin}/bench_engine_join"), needs=("mpirun",), is_quick=n == 2)
        for n in (2, 4, 8, 16, 32, 64, 128)
    ),
    *(
        Part(f"Gloo bring-up {size}", ("{bin}/bench_engine_gloo_bring_up", mesh), is_quick=size == 2)
        for size, mesh in (
            (2, "dp=2"),
            (4, "dp=2 tp=2"),
            (8, "pp=2 cp=2 tp=2"),
            (16, "pp=2 dp=2 cp=2 tp=2"),
            (32, "pp=2 dp=4 cp=2 tp=2"),
            (64, "pp=2 dp=8 cp=2 tp=2"),
        )
    ),
    *(
        Part(
            f"store {size}",
            ("{python}", "{bench}/python/tcp_bring_up.py", "--processes", str(size)),
            needs=("torch",),
            is_quick=size == 2,
        )
        for size in (2, 4, 8, 16, 32, 64)
    ),
    *(
        Part(
            f"torch {size}",
            (
                *("{python}", "{bench}/python/torch_bring_up.py", "--times"),
                *("--processes", str(size), "--rounds", str(rounds)),
            ),
            needs=("torch",),
            is_quick=False,
        )
        for size, rounds in ((2, 25), (4, 25), (8, 11), (16, 7), (32, 5), (64, 3), (128, 3))
    ),
    *(
        Part(
            f"c10d {size}",
            ("{python}", "{bench}/python/collectives.py", "--processes", str(size), "--most", str(most)),
            ("{python}", "{bench}/python/collectives.py", "--processes", str(size), "--most", "4096"),
            needs=("torch",),
            is_quick=size == 2,
        )
        for size, most in ((2, 64 << 20), (4, 64 << 20), (8, 64 << 10), (16, 64 << 10))
    ),
    *(
        Part(
            f"backend {size}",
            (*BACKEND, "--processes", str(size), "--most", str(most)),
            (*BACKEND, "--processes", str(size), "--most", "4096"),
            needs=("torch",),
            is_quick=size == 2,
        )
        for size, most in ((2, 16 << 20), (4, 16 << 20), (8, 64 << 10))
    ),
    *(
        Part(
            f"training {size}",
            ("{python}", "{bench}/python/training_step.py", "--processes", str(size)),
            needs=("torch",),
            is_quick=size == 2,
        )
        for size in (2, 4)
    ),
    Part("halo", (*MPIRUN, "2", "{bin}/bench_engine_halo"), needs=("mpirun",), is_quick=False),
    Part("programs", (*MPIRUN, "2", "{bin}/bench_engine_programs"), needs=("mpirun",), is_quick=False),
    Part("MPI", (*MPIRUN, "2", *COLLECTIVES), (*MPIRUN, "2", *COLLECTIVES, "--benchmark_filter=/(8|0)$"), ("mpirun",)),
    Part("Gloo", ("{bin}/bench_engine_gloo", "2", "bound"), ("{bin}/bench_engine_gloo", "2", "bound", "barrier")),
    Part("show"),
    Part("import", needs=("torch",)),
    Part("size"),
)


def listed(parts: Sequence[Part]) -> str:
    """Their names, those that differ in their number only as one."""
    numbers: dict[str, list[str]] = {}
    for part in parts:
        numbers.setdefault(part.stem, []).append(part.name.removeprefix(part.stem).strip())
    return ", ".join(stem + (f" ({', '.join(found)})" if all(found) else "") for stem, found in numbers.items())


def chosen(names: Sequence[str], quick: bool) -> list[Part]:
    """The parts that are named, in full or but for their number; all where none is named."""
    for name in names:
        named = [part for part in PARTS if name in (part.name, part.stem)]
        if not named:
            raise SystemExit(f"no part is named '{name}'; parts are {listed(PARTS)}")
        if quick and not any(part.is_quick for part in named):
            raise SystemExit(f"--quick takes nothing of '{name}'; it takes {listed(chosen((), quick))}")
    return [
        part
        for part in PARTS
        if (not names or part.name in names or part.stem in names) and (part.is_quick or not quick)
    ]


# The longest name that fits a row is that of its family.
FAMILIES = (
    Family(
        "coordinate round trip",
        "MPI_Cart_coords and MPI_Cart_rank",
        "ranks",
        0.25,
        "two multiplications a digit, and one back",
    ),
    Family("group of a rank", "the coordinate of a rank", "ranks", 2, "a coordinate"),
    Family("membership", "the coordinate of a rank", "ranks", 2, "a coordinate"),
    Family("list of all groups", "memset of as many bytes", "ranks", 1.2, "memset"),
    Family(
        "list of all groups, small", "memset of as many bytes", "ranks", 500, "memset: beginning a list takes longer"
    ),
    Family("list of a framework's kind", "memset of as many bytes", "framework", 1.25, "memset"),
    Family("start-up of 65,536 ranks beside 64", "the same in a world of 64 ranks", "framework", 1.5, "1"),
    Family("start-up beside a framework's Python", "the framework", "framework", 0.001, "0"),
    Family("join's bookkeeping", "the same in a world of 8 ranks", "ranks", 1.5, "1"),
    Family("join's memory in bytes", "the same in a world of 8 ranks", "ranks", 1.5, "1"),
    Family("bring-up of threads", "std::thread and std::barrier", "threads", 4, "1: the threads themselves"),
    Family("join on MPI", "MPI_Comm_create_group by the members and MPI_Allreduce", "processes", 1.25, "1"),
    Family("bring-up beside Gloo alone", "Gloo's own contexts", "processes", 0.8, "connections of own groups"),
    Family("start of a world beside TCPStore", "torch's TCPStore", "processes", 1, "a line from and to each"),
    Family(
        "bring-up by join beside init_device_mesh", "init_device_mesh", "processes", 0.25, "own groups' connections"
    ),
    Family("growth of a rank's part in a join", "the growth of its own groups' sizes", "processes", 1, "1"),
    Family(
        "bring-up by rankmesh.torch.init beside init_device_mesh",
        "init_device_mesh",
        "processes",
        0.75,
        "torch's own groups, fewer calls",
    ),
    Family("c10d: ", "c10d's Gloo backend, from Python", "bytes", 0.5, "the kernel's sockets", 0.9),
    Family("backend: ", "the same calls of torch on c10d's Gloo", "bytes", 0.5, "the kernel's sockets", 0.9),
    Family("checked: ", "the same calls of torch unchecked", "bytes", 1.5, "1 plus the time of a comparison"),
    Family("training step: ", "the same on torch's own groups over Gloo", "groups", 1.01, "1: the arithmetic"),
    Family("training step, checked: ", "the same on torch's own groups", "groups", 1.1, "1"),
    Family("training step, recorded each second: ", "the same on torch's own groups", "groups", 1.1, "1"),
    Family("Gloo: ", "Gloo's own call", "bytes", 1.1, "1: the same connections"),
    Family("Gloo: all_reduce, checked", "the same unchecked", "bytes", 1.1, "1"),
    Family("MPI: checked ", "the same unchecked", "bytes", 1.5, "1 plus the time of a comparison"),
    Family("MPI: reproducible ", "the plain sum", "bytes", 4, "1 plus the time to sum roundings"),
    Family("MPI: recorded ", "the same without a flight record", "bytes", 1.1, "1 plus two reads of a clock"),
    Family("halo: ", "MPI_Cart with a datatype for each face", "cells along an axis", 1.05, "1"),
    Family("programs: ", "the same program on MPI alone", "elements of a rank", 1.05, "1"),
    Family("programs: conjugate gradients, reproducible", "the plain sums of MPI alone", "elements of a rank", 4, "1"),
    Family("MPI: ", "the bare MPI call", "bytes", 1.1, "1"),
    Family("import of rankmesh.torch", "import torch", "", 1.05, "1"),
    Family("cold show of a million ranks", "/bin/true", "", 10, "1: starting a process"),
    Family("bytes that the core adds to a program", "300 KiB", "", 1, "0"),
)


def family_of(name: str) -> Family:
    fitting = [family for family in FAMILIES if name.startswith(family.name)]
    if not fitting:
        raise SystemExit(f"no family in bench/comparison/families.py is named like '{name}'")
    return max(fitting, key=lambda family: len(family.name))


def target_of(name: str) -> float:
    return family_of(name).target_at(name.rpartition("/")[2])
