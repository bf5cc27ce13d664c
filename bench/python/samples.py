"""Where ./bench/compare finds what benchmarks measure; the same as keep_samples of bench/measure.hpp."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence


def rounds_of(rounds: int) -> int:
    """That many rounds, or the few that RANKMESH_ROUNDS asks for."""
    return min(rounds, max(1, int(os.environ.get("RANKMESH_ROUNDS", rounds))))


def keep_samples(name: str, ours: Sequence[float], theirs: Sequence[float], again: Sequence[float]) -> None:
    """Appends nanoseconds by round to the file RANKMESH_SAMPLES, where that is set."""
    if path := os.environ.get("RANKMESH_SAMPLES"):
        with open(path, "a", encoding="utf-8") as file:
            print(json.dumps({"name": name, "ours": [*ours], "theirs": [*theirs], "again": [*again]}), file=file)
