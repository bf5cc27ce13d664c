#!/usr/bin/env python3
"""A quick ./bench/compare of a build tree ends, and its rows have all that they should: compare_quick.py BUILD PYTHON OUT."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

build, python, out = sys.argv[1:]
root = Path(__file__).resolve().parents[2]
subprocess.run(
    [sys.executable, root / "bench" / "compare", "--quick", "--build", build, "--python", python, "--out", out],
    check=True,
)
text = (Path(out) / "compare.json").read_text(encoding="utf-8")
made = json.loads(text)
assert "null" not in text and "NaN" not in text and "Infinity" not in text, text
assert made["quick"] and made["machine"]["compiler"], made["machine"]
fields = {
    "name": str,
    "ours": float,
    "theirs": float,
    "ratio": float,
    "low": float,
    "high": float,
    "aa": float,
    "target": float,
}
for row in made["rows"]:
    for field, kind in fields.items():
        assert isinstance(row[field], kind | int if kind is float else kind), (field, row)
    assert (
        row["low"] <= row["ratio"] <= row["high"] and min(row["ours"], row["theirs"], row["ratio"]) > 0 <= row["aa"]
    ), row
    assert row["outcome"] in ("met", "missed", "not resolved"), row
names = [row["name"] for row in made["rows"]]
assert len(names) == len(set(names)), "a row was taken twice"
for begin in (
    "membership/",
    "list of a framework's kind/",
    "bring-up of threads/",
    "join's bookkeeping/",
    "cold show",
    "bytes that",
):
    assert any(name.startswith(begin) for name in names), f"no row begins with '{begin}'"
broken = [each for each in made["absent"] if " ended with " in each]
assert not broken, broken
