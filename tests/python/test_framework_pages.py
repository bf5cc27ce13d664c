"""The pages and the C++ headers of frameworks say what the rows say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "framework_pages"


@pytest.mark.skipif(not os.environ.get("RANKMESH_COMMAND"), reason="the command is not built")
def test_the_pages_of_frameworks_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all pages are up to date\n", "")


def test_the_headers_of_frameworks_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/framework_headers", tmp_path], check=True, timeout=120)
    headers = (ROOT / "include/rankmesh/frameworks").glob("*.hpp")
    texts = {header.name: header.read_text() for header in headers}
    committed = {name: text for name, text in texts.items() if text.startswith("// Generated ")}
    assert committed == {header.name: header.read_text() for header in tmp_path.iterdir()}
