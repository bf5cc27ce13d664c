"""The document has the counts of bench/python/torch_bring_up.py, and processes over Gloo do what was counted."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist
from torch_ranks import ranks

ROOT = Path(__file__).resolve().parents[2]


def load_bench() -> Any:
    if (folder := str(ROOT / "bench/python")) not in sys.path:
        sys.path.append(folder)  # where it finds the modules beside it
    spec = importlib.util.spec_from_file_location("torch_bring_up", ROOT / "bench/python/torch_bring_up.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("size", [8, 64])
def test_the_document_has_the_counts(size: int) -> None:
    bench = load_bench()
    text = (ROOT / "docs/python-torch-measured.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {size} ranks \|(.*)\|$", text, re.MULTILINE)
    calls, their_calls, _, connections, their_connections, _, requests, their_requests, _ = map(int, row.split("|"))
    ours, theirs = bench.counts(bench.by_rankmesh, size), bench.counts(bench.by_device_mesh, size)
    assert (calls, connections, requests) == (ours.calls, ours.connections, ours.requests)
    assert (their_calls, their_connections, their_requests) == (theirs.calls, theirs.connections, theirs.requests)


def requests_of(rank: int, size: int, store: str) -> Any:
    bench = load_bench()
    return bench.live_requests(rank, size, dist.FileStore(store, size), [bench.by_rankmesh, bench.by_device_mesh], None)


def test_processes_over_gloo_ask_as_often_as_was_counted(tmp_path: Path) -> None:
    bench, size = load_bench(), 8
    found = ranks(size, requests_of, tmp_path, str(tmp_path / "store of 8"), initialised=False)
    counted, theirs = bench.counts(bench.by_rankmesh, size).requests, bench.counts(bench.by_device_mesh, size).requests
    assert {ours for ours, _ in found} == {counted}
    assert {other for _, other in found} == {theirs}
