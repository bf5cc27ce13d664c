"""Pending operations in asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

SHORTEST, LONGEST = 0.00005, 0.01  # seconds between two polls


async def completed(ask: Callable[[float], tuple[Any] | None]) -> Any:
    """Waits for an operation while other tasks of the event loop run, and returns or raises its result.

    `ask` takes the seconds that have passed and returns None until the operation is complete. It is called
    repeatedly, because a waiting thread would keep all others from the communicator.
    """
    begin = time.monotonic()
    pause = SHORTEST
    while (result := ask(time.monotonic() - begin)) is None:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST)
    return result[0]
