"""The signatures of the package beside those of the originals."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What the package adds, always by keyword: which rank is asked about, without a process.
ADDED = ("rank", "world_size", "state", "create_all_gather_group", "independent_all_gather")


def signature(function: Callable[..., Any], *extensions: str) -> str:
    """The parameters of a function and their defaults, without the types and without rankmesh's own keywords."""
    given = inspect.signature(function)
    own = [given.parameters[name] for name in extensions]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in own)
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in given.parameters.items()
        if name not in extensions
    ]
    return str(inspect.Signature(kept))


def found(package: str, path: str) -> Any:
    """What a package has under `module.Class.method`."""
    module, *names = path.split(".")
    value = importlib.import_module(f"{package}.{module}")
    for name in names:
        value = getattr(value, name)
    return value


def differences(vocabulary: str) -> list[str]:
    """Where signatures are not those in `originals/VOCABULARY.txt`, a line each: `module.Class.method(a, b=1)`."""
    differ = []
    for line in (Path(__file__).parent / "originals" / f"{vocabulary}.txt").read_text().splitlines():
        path, _, parameters = line.partition("(")
        function = found(f"rankmesh.{vocabulary}", path)
        given = inspect.signature(function).parameters
        added = [name for name in ADDED if name in given and given[name].kind is inspect.Parameter.KEYWORD_ONLY]
        ours = signature(function, *added).replace("(self, ", "(").replace("(self)", "()")
        if ours != f"({parameters}":
            differ.append(f"{path}: ({parameters} is here {ours}")
    return differ
