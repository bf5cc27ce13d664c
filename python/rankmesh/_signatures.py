"""Signatures of the functions of the extension modules, as `inspect.signature` finds them."""

from __future__ import annotations

import inspect
import re
from typing import Any


def signature_of(function: Any) -> inspect.Signature:
    """Returns the signature in the documentation of a nanobind function, without `self` if the function is bound.

    The signature of a class is that of its `__init__`, which the `inspect` of Python 3.11.2 does not find.
    """
    if isinstance(function, type):
        made = inspect.signature(function.__init__)  # type: ignore[misc]
        return made.replace(parameters=[*made.parameters.values()][1:])
    signatures = [parsed(text, defaults or ()) for text, _, defaults in function.__nb_signature__]
    signature = signatures[0]
    if len(signatures) > 1:  # overloads: the first parameters are the same, all others are any
        parameters = [*signature.parameters.values()][: "self" in signature.parameters]
        rest = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
        rest.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
        signature = signature.replace(parameters=[*parameters, *rest])
    if getattr(function, "__self__", None) is not None:
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
    return signature


def parsed(text: str, defaults: tuple[object, ...] = ()) -> inspect.Signature:
    """Reads `def name(a: int, b: str = \\0) -> None`; annotations stay text."""
    name = text[len("def ") : text.index("(")]
    text = re.sub(r"\\=?(\d+)", r"defaults[\1]", text)
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text}: ...", {"defaults": defaults}, made)
    return inspect.signature(made[name])
