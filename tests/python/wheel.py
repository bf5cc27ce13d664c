"""usage: wheel.py SOURCE WORK SETTING...: an sdist, the wheel made of it, and that in an empty virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

source, work = (Path(word).resolve() for word in sys.argv[1:3])
PROGRAM = """
import array, sys
import rankmesh
from rankmesh import World

def program(world: World) -> float:
    return world.join("dp=*").on("dp").all_reduce(array.array("d", [world.rank]))[0]

assert "numpy" not in sys.modules
print(list(rankmesh.Mesh("pp=2 tp=4").group(5, "tp")), rankmesh.run(3, program), *rankmesh.engines())
print(rankmesh.convert({"tp_size": 2, "pp_size": 2, "dp_size": 2}, from_="picotron", to="rankmesh").text)
"""
EXPECTED = "[4, 5, 6, 7] [3.0, 3.0, 3.0] threads\ndp=2 pp=2 cp=1 tp=2\n"


def called(*words: str | Path, **settings: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


shutil.rmtree(work, ignore_errors=True)
(work / "tmp").mkdir(parents=True)
os.environ["TMPDIR"] = str(work / "tmp")
for name in ("CMAKE_PREFIX_PATH", "PYTHONPATH"):
    os.environ.pop(name, None)
defined = [f"-Ccmake.define.{setting}" for setting in sys.argv[3:]]
called(sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", *defined, source, cwd=work)
(sdist,) = (work / "dist").glob("*.tar.gz")
(wheel,) = (work / "dist").glob("*.whl")
called(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)

with tarfile.open(sdist) as opened:
    packed = {name.partition("/")[2] for name in opened.getnames()}
# The library's objects may be those of another build, which would hide that one of its sources is missing.
library = [file for folder in ("include", "src") for file in (source / folder).rglob("*") if file.is_file()]
missing = sorted({str(file.relative_to(source)) for file in library} - packed)
assert library
assert not missing, missing
assert {"pyproject.toml", "LICENSE", "README.md", "CMakeLists.txt"} <= packed, packed
strange = sorted(name for name in packed if name.startswith((".ci/", "bench/", "build/", "tests/")))
assert not strange, strange

with zipfile.ZipFile(wheel) as opened:
    files = {name: opened.read(name) for name in opened.namelist()}
written = {str(path.relative_to(source / "python")) for path in (source / "python/rankmesh").rglob("*.py")}
assert {*written, "rankmesh/py.typed"} <= files.keys(), written - files.keys()
modules = {name.partition(".")[0] for name in files if name.endswith(".so")}
assert len(modules) == 3, files.keys()
for module in modules:
    assert {f"{module}.pyi", f"{module}/__init__.pyi"} & files.keys(), f"no stub of {module}"
for name, text in files.items():
    for path in (source, work):
        assert bytes(path) not in text, f"{name} has the path {path}"

venv.create(work / "venv", with_pip=False)
python = work / "venv/bin/python"
called(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
said = called(python, "-I", "-c", PROGRAM, cwd=work)
assert said == EXPECTED, said
version = called(python, "-I", "-c", "import rankmesh; print(rankmesh.__version__)", cwd=work)
said = called(work / "venv/bin/rankmesh", "--version", cwd=work)
assert said.splitlines()[0] == f"rankmesh {version.strip()}", said
