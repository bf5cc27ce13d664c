"""What rankmesh.torch writes while a job runs whose groups are torch's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from rankmesh import UsageError  # noqa: E402
from rankmesh.torch import _record, _variables  # noqa: E402

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
LIMIT = 600.0
PROGRAM = """
import sys, time
from pathlib import Path
import rankmesh.torch
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

backend, rank, store, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
rankmesh.torch.install()
dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
for call in range(70):
    for axis in ("tp", "dp"):
        dist.all_reduce(torch.ones(4), group=mesh[axis].get_group())
while rank == 2 and not (folder / "go on").exists():
    time.sleep(0.01)
dist.all_reduce(torch.ones(4), group=mesh["dp"].get_group())
"""


@contextmanager
def job(backend: str, folder: Path) -> Iterator[Path]:
    """Four ranks. Rank 2 waits for a file before its last call."""
    records = folder / "records"
    environment = {**os.environ, "RANKMESH_RECORD": str(records), "RANKMESH_RECORD_EVERY": "1s"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, backend, str(rank), str(folder / "store"), str(folder)], env=environment
        )
        for rank in range(4)
    ]
    try:
        yield records
        (folder / "go on").touch()
        assert [rank.wait(LIMIT) for rank in ranks] == [0] * 4
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def calls_of(records: Path, rank: int, group: str) -> list[int]:
    path = records / f"rank-{rank}.gloo.json"
    entries = json.loads(path.read_text())["entries"] if path.exists() else []
    return [entry["collective_seq_id"] for entry in entries if group in entry["process_group"]]


def first_stop(records: Path) -> tuple[subprocess.Popen[str], Any]:
    """A watch beside the job, and its first event. A busy job may write too late: then another watch begins."""
    while True:
        watch = subprocess.Popen([COMMAND, "watch", str(records), "--json"], stdout=subprocess.PIPE, text=True)
        assert watch.stdout
        said = json.loads(watch.stdout.readline())
        if said["event"] != "ended":
            return watch, said
        watch.wait(LIMIT)


@pytest.mark.skipif(not COMMAND, reason="there is no command: RANKMESH_COMMAND names it")
@pytest.mark.parametrize("backend", ["gloo", "rankmesh+gloo"])
def test_ranks_of_torchs_own_groups_are_watched_and_their_times_compared(backend: str, tmp_path: Path) -> None:
    name = "mesh_dp" if backend == "gloo" else "gloo beneath rankmesh"
    with job(backend, tmp_path) as records:
        deadline = time.monotonic() + LIMIT
        while any(71 not in calls_of(records, rank, name) for rank in (0, 1, 3)):
            assert time.monotonic() < deadline, list(records.iterdir())
            time.sleep(0.05)
        watch, stopped = first_stop(records)
        (tmp_path / "go on").touch()
        rest = watch.communicate(timeout=LIMIT)[0]
        assert (stopped["event"], stopped["ranks"]) == ("stopped", [2]), rest
        assert stopped["coordinates"] == ["dp=1 tp=0"]
    assert backend == "rankmesh+gloo" or len(calls_of(records, 0, name)) == _record.MOST_CALLS
    run = subprocess.run([COMMAND, "explain", "--slow", "--json", str(records)], capture_output=True, text=True)
    said = json.loads(run.stdout)  # whom it calls slow depends on the machine; simulated jobs test that
    assert said["slow"] is not None
    assert sorted(each["rank"] for each in said["times"]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("every", "folder", "error"),
    [
        ("soon", "/tmp", "RANKMESH_RECORD_EVERY='soon' is not a whole number of seconds, 1 or more, such as 10s"),
        ("10s", "", "RANKMESH_RECORD_EVERY=10s has no folder to write to; set RANKMESH_RECORD too"),
    ],
)
def test_a_wrong_variable_is_refused_as_the_engine_does(
    every: str, folder: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_RECORD_EVERY", every)
    monkeypatch.setenv("RANKMESH_RECORD", folder)
    with pytest.raises(UsageError) as caught:
        _variables.record_every()
    assert str(caught.value) == error
