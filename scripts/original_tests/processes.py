# SPDX-License-Identifier: Apache-2.0
"""The processes of an original: what they need, their environment, their end. For scripts/originals and scripts/trainers."""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PARTS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Original:
    package: str  # whose first import has its modules replaced
    install: str  # the module of ours whose install() replaces them
    paths: tuple = (".",)  # what of the checkout is to be found by imports
    stubs: tuple = ()  # modules that are imported and not used
    bare: tuple = ()  # packages of its own whose __init__.py, which imports much that is not used, is not run
    needs: dict = field(default_factory=dict)  # modules of other packages: what pip calls them
    environment: dict = field(default_factory=dict)
    torch: bool = True  # it is written for CUDA's devices, which are replaced


def environment_of(original, checkout, install, paths=()):
    """The environment of a process that imports the original, with `install` (or nothing) in place of its modules."""
    replaced = {"package": original.package, "install": install,
                "stubs": original.stubs, "bare": original.bare, "torch": original.torch}
    paths = [*paths, PARTS, *([checkout / path for path in original.paths] if checkout else []), *package_path()]
    return os.environ | {
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"originals-{os.getuid()}"),  # not the checkout
        "PYTHONDONTWRITEBYTECODE": "",  # each of its processes would compile all sources again
    } | original.environment | {
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "RANKMESH_ORIGINALS": json.dumps(replaced),
        "OMP_NUM_THREADS": "1",
    }


def end(process, others=dict):
    """Ends a process that this script has started, with those that it has started; `others()` has the ids of more."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        process.send_signal(number)  # torchrun ends its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for other in others():
        with contextlib.suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)


def package_path():
    """The folder in which this Python has rankmesh."""
    spec = importlib.util.find_spec("rankmesh")
    return [Path(spec.origin).parent.parent] if spec and spec.origin else []


def missing(original, **more):
    """Says in one line which packages this Python lacks, and how to get them; "" where it has all.

    `more` are needed as well: modules, and what pip calls them."""
    needs = more | original.needs
    lacks = {name: wheel for name, wheel in needs.items() if importlib.util.find_spec(name) is None}
    others = [wheel for name, wheel in needs.items() if name not in lacks and "==" in wheel and wheel != _installed(wheel)]
    names = ["rankmesh"] * (not package_path()) + [*lacks]
    said = [f"lacks {', '.join(names)}"] * bool(names) + [f"has {_installed(wheel)} in place of {wheel}" for wheel in others]
    wheels = [f"'{wheel}'" if set(wheel) & set("<>") else wheel for wheel in [*lacks.values(), *others]]
    helps = ["put a build's folder `python` on PYTHONPATH"] * ("rankmesh" in names)
    helps += [f"{sys.executable} -m pip install {' '.join(wheels)}"] * bool(wheels)
    return f"{sys.executable} {' and '.join(said)}: {', and run '.join(helps)}" if said else ""


def _installed(wheel):
    """What of a pinned wheel is installed, in the same words: spmd_types==0.3.1."""
    name = wheel.split("==")[0]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return f"{name}=={importlib.metadata.version(name)}"
    return f"{name} without a version"
