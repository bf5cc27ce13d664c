"""A short form of scripts/trainers: a layout on 4 ranks, 2 steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/trainers"


def runs_of(name: str, layout: str) -> dict[str, Any]:
    """The runs of a layout by their module, after they have trained to equal losses."""
    command = [sys.executable, str(SCRIPT), name, "--layout", layout, "--steps", "2", "--limit", "900", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr
    return {run["module"]: run for run in json.loads(done.stdout)}


def group_calls(run: dict[str, Any]) -> int:
    """The most calls of new_group and split_group by a rank."""
    return max(counts["made"] for counts in run["counts"])
