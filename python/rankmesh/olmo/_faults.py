"""Which exception of OLMo-core's stands for what its dialect refuses."""

from __future__ import annotations

import functools
import sys

from rankmesh._originals import DialectError
from rankmesh.olmo.exceptions import OLMoConfigurationError


@functools.cache
def _both(theirs: type[Exception]) -> type[Exception]:
    return type("OLMoConfigurationError", (theirs, OLMoConfigurationError), {"__module__": theirs.__module__})


def configuration_error() -> type[Exception]:
    """Ours, which is OLMo-core's as well where that is imported."""
    loaded = sys.modules.get("olmo_core.exceptions")
    theirs = getattr(loaded, "OLMoConfigurationError", OLMoConfigurationError)
    return OLMoConfigurationError if theirs is OLMoConfigurationError else _both(theirs)


def kind(error: DialectError) -> type[Exception]:
    """By fault, and where one fault has several types in the original by text."""
    text = str(error)
    if error.fault == "sizes":
        if "nothing is divisible by 0" in text:
            return ZeroDivisionError
        if text.startswith(("invalid shape dimension", "Mesh should not be bigger")):
            return RuntimeError
        return AssertionError if text.startswith(("v schedules", "Interleaved 1F1B")) else configuration_error()
    if error.fault == "missing":
        if "give NUM_NODES or LOCAL_WORLD_SIZE" in text:
            return KeyError
        return configuration_error() if text.startswith("Data parallel config") else RuntimeError
    if error.fault == "exclusive":
        return configuration_error()
    if error.fault == "unknown":
        return RuntimeError if text.startswith("could not") else KeyError
    if text.startswith("Custom 1F1B"):
        return NotImplementedError
    if "ascending order" in text:
        return KeyError
    return AssertionError if text.startswith("'cp' is folded") else RuntimeError
