"""What OLMo-core raises, and which of it for what its rows refuse: classes that programs catch."""

from __future__ import annotations

import functools
import sys
from typing import Any

from rankmesh._frameworks import rows
from rankmesh._originals import FrameworkError, raises


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


_BY_TEXT: dict[str, type[Exception]] = {
    "divisible by 0": ZeroDivisionError,
    "invalid shape dimension": RuntimeError,
    "Mesh should not be bigger": RuntimeError,
    "v schedules": AssertionError,
    "Interleaved 1F1B": AssertionError,
    "'cp' is folded": AssertionError,
    "give NUM_NODES or LOCAL_WORLD_SIZE": KeyError,
    "ascending order": KeyError,
    "could not": RuntimeError,
    "Data parallel config": OLMoConfigurationError,
    "Custom 1F1B": NotImplementedError,
}
_BY_FAULT = {"sizes": OLMoConfigurationError, "exclusive": OLMoConfigurationError, "unknown": KeyError}


def kind(error: FrameworkError) -> type[Exception]:
    """What OLMo-core raises, by what the text holds, else by fault; all others are RuntimeError."""
    by_text = (kind for part, kind in _BY_TEXT.items() if part in str(error))
    found = next(by_text, _BY_FAULT.get(error.fault, RuntimeError))
    return configuration_error() if found is OLMoConfigurationError else found


@raises(kind)
def _ask(accessor: str, world: tuple[int, int] | None = None, /, **options: Any) -> Any:
    """The answer of a row, on a rank of a world or without one."""
    state = rows.State("olmo")
    if world is not None:
        state.enter(*world)
    return state.ask(accessor, {name: str(each) if isinstance(each, str) else each for name, each in options.items()})
