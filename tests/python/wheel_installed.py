"""usage: wheel_installed.py PYTHON WORK WHEEL ENGINE...: a wheel in an empty environment of an interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

THREADS = """
import array, sys
import rankmesh
from rankmesh import World

def program(world: World) -> float:
    return world.join("dp=*").on("dp").all_reduce(array.array("d", [world.rank]))[0]

assert "numpy" not in sys.modules
print(list(rankmesh.Mesh("pp=2 tp=4").group(5, "tp")), rankmesh.run(3, program), *rankmesh.engines())
print(rankmesh.convert({"tp_size": 2, "pp_size": 2, "dp_size": 2}, from_="picotron", to="rankmesh").text)
"""
GLOO = """
import array, rankmesh
world = rankmesh.World.from_environment()
sum = array.array("d", [world.rank + 1])
world.join("dp=*").on("dp").all_reduce(sum)
print(world.engine, world.size, sum[0])
"""


def called(*words: str | Path, **settings: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def installed(interpreter: str | Path, work: Path, wheel: Path, engines: list[str]) -> None:
    """Installs the wheel in an empty environment, without an index, and runs what it has."""
    called(interpreter, "-m", "venv", "--clear", "--without-pip", work / "venv")
    python = work / "venv/bin/python"
    called(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", wheel)
    said = called(python, "-I", "-c", THREADS, cwd=work)
    assert said == f"[4, 5, 6, 7] [3.0, 3.0, 3.0] {' '.join(['threads', *engines])}\ndp=2 pp=2 cp=1 tp=2\n", said
    version = called(python, "-I", "-c", "import rankmesh; print(rankmesh.__version__)", cwd=work)
    said = called(work / "venv/bin/rankmesh", "--version", cwd=work)
    assert said.splitlines()[0] == f"rankmesh {version.strip()}", said
    if "gloo" not in engines:
        return
    job = {"WORLD_SIZE": "2", "RANKMESH_ENGINE": "gloo", "RANKMESH_STORE": str(work / "store"), "RANKMESH_JOB": "wheel"}
    ranks = [
        subprocess.Popen(
            ["timeout", "60", python, "-I", "-c", GLOO],
            cwd=work, env={**os.environ, **job, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    lines = [rank.communicate()[0] for rank in ranks]
    assert lines == ["gloo 2 3.0\n"] * 2, lines


if __name__ == "__main__":
    interpreter, work, wheel, *engines = sys.argv[1:]
    Path(work).mkdir(parents=True, exist_ok=True)
    installed(interpreter, Path(work).resolve(), Path(wheel).resolve(), engines)
