"""What the launcher says of the machines."""

from __future__ import annotations

import os

from rankmesh._errors import UsageError


def _number(name: str) -> int | None:
    given = os.environ.get(name)
    if given is None:
        return None
    try:
        return int(given)
    except ValueError:
        raise UsageError(f"{name} is {given!r}, which is no number") from None


def machines() -> tuple[int | None, int | None]:
    """NUM_NODES and LOCAL_WORLD_SIZE, None where they are not set."""
    return _number("NUM_NODES"), _number("LOCAL_WORLD_SIZE")
