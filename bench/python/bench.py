"""What a query costs beside a call that does nothing, a list of groups beside C++'s, an import beside json's.

PYTHONPATH=build/release/python:build/release/bin build/venv/bin/python bench/python/bench.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import bench_python_bare as bare
from rankmesh import Mesh


def measured(pick: Callable[[list[float]], float], count: int, *measures: Callable[[], float]) -> list[float]:
    """The least or the median of each measure, which take turns, so that the load is the same to all."""
    rounds = [[measure() for measure in measures] for _ in range(count)]
    return [pick(list(times)) for times in zip(*rounds, strict=True)]


def say(what: str, ours: float, beside: str, bare: float, at_most: float | None = None) -> None:
    promised = "" if at_most is None else f"   promised at most {at_most}"
    print(f"{what:30} {1e9 * ours:12.0f} ns   {beside:44} {1e9 * bare:12.0f} ns   ratio {ours / bare:5.2f}{promised}")


def call(code: str, calls: int = 20_000, **names: Any) -> Callable[[], float]:
    timer = timeit.Timer(code, globals=names)
    return lambda: timer.timeit(calls) / calls


def fresh(code: str) -> Callable[[], float]:
    """Seconds that code takes in an interpreter that has just started."""
    program = f"import time; begin = time.perf_counter(); {code}; print(time.perf_counter() - begin)"
    return lambda: float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


def whole(code: str) -> Callable[[], float]:
    """Seconds from the start of an interpreter to its end."""

    def measure() -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin

    return measure


text, rank = "pp=16 dp=512 tp=8", 12_345
mesh = Mesh(text)
mesh.partition("tp").numpy()  # NumPy is loaded
queries = ("coord(rank)", "index(rank, 'tp')", "group(rank, 'tp')")
nothing, *times = measured(
    min,
    51,
    call("nothing()", nothing=bare.nothing),
    *(call(f"made.{query}", made=made, rank=rank) for made in (mesh, bare.Bare()) for query in queries),
)
for query, ours, theirs in zip(queries, times[: len(queries)], times[len(queries) :], strict=True):
    say(f"mesh.{query}", ours, f"bare.{query}, which does nothing", theirs, None if "group" in query else 3)
    say("", ours, "nothing(), which takes nothing", nothing)
for axis in mesh.axes:
    ours, theirs = measured(
        min,
        301,
        call("mesh.partition(axis).numpy()", 1, mesh=mesh, axis=axis),
        lambda axis=axis: bare.list_groups(text, axis),
    )
    say(f"mesh.partition('{axis}').numpy()", ours, "partition and copy_to in C++", theirs, 2)
ours, theirs = measured(statistics.median, 51, fresh("import rankmesh"), fresh("import json"))
say("import rankmesh", ours, "import json", theirs, 3)
ours, theirs, none = measured(statistics.median, 51, whole("import rankmesh"), whole("import json"), whole("pass"))
say("python -c 'import rankmesh'", ours, "python -c 'import json'", theirs)
say("python -c 'import json'", theirs, "python -c pass", none)
