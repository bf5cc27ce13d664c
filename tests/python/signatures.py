"""The signatures of the package beside those of the originals."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


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
