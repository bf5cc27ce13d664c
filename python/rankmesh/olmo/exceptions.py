"""What OLMo-core raises, and which of it for what its dialect refuses."""

from __future__ import annotations

import functools
import sys

from rankmesh._originals import DialectError


class OLMoError(Exception):
    """The base of OLMo-core's own exceptions."""


class OLMoConfigurationError(OLMoError):
    """Configurations that do not go together or do not fit the world."""


@functools.cache
def _both(theirs: type[Exception]) -> type[Exception]:
    return type("OLMoConfigurationError", (theirs, OLMoConfigurationError), {"__module__": theirs.__module__})


def configuration_error() -> type[Exception]:
    """Ours, which is OLMo-core's as well where that is imported."""
    loaded = sys.modules.get("olmo_core.exceptions")
    theirs = getattr(loaded, "OLMoConfigurationError", OLMoConfigurationError)
    return OLMoConfigurationError if theirs is OLMoConfigurationError else _both(theirs)


_KINDS: dict[str, dict[str, type[Exception]]] = {
    "sizes": {
        "divisible by 0": ZeroDivisionError,
        "invalid shape dimension": RuntimeError,
        "Mesh should not be bigger": RuntimeError,
        "v schedules": AssertionError,
        "Interleaved 1F1B": AssertionError,
        "": OLMoConfigurationError,
    },
    "missing": {
        "give NUM_NODES or LOCAL_WORLD_SIZE": KeyError,
        "Data parallel config": OLMoConfigurationError,
    },
    "exclusive": {"": OLMoConfigurationError},
    "unknown": {"could not": RuntimeError, "": KeyError},
    "argument": {"Custom 1F1B": NotImplementedError, "ascending order": KeyError, "'cp' is folded": AssertionError},
}
"""The types by fault, and by what the text holds; all others are RuntimeError."""


def kind(error: DialectError) -> type[Exception]:
    """By fault, and where one fault has several types in the original by text."""
    kinds = _KINDS.get(error.fault, {})
    found = next((kind for part, kind in kinds.items() if part in str(error)), RuntimeError)
    return configuration_error() if found is OLMoConfigurationError else found
