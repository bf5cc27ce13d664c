"""The pages of docs/frameworks say what the package and the command say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "framework_pages"


@pytest.mark.skipif(not os.environ.get("RANKMESH_COMMAND"), reason="the command is not built")
def test_the_pages_of_frameworks_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all pages are up to date\n", "")
