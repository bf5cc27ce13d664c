"""What torch's collectives raise on the backends of rankmesh: who is missing, who differs, who has died, and where."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Disagreement, PeerLost, Timeout, UsageError
from rankmesh.torch import _groups
from torch._C._distributed_c10d import _make_nccl_premul_sum
from torch.distributed import distributed_c10d as c10d
from torch_ranks import ranks

OWN, AROUND = "cpu:rankmesh", "rankmesh+gloo"
SHORT = timedelta(seconds=2)
SIZE = 4


@contextlib.contextmanager
def started(backend: str, rank: int, store: str, timeout: timedelta, checked: bool) -> Iterator[rankmesh.torch.Member]:
    os.environ["RANKMESH_CHECK"] = str(int(checked))
    dist.init_process_group(backend, store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE, timeout=timeout)
    yield rankmesh.torch.init("dp=2 tp=2")


Error = tuple[str, str, list[int]]


def raised(call: Callable[[], Any]) -> Error:
    """The type, the text and the ranks of what a call raises."""
    error: Disagreement | PeerLost | Timeout | None = None
    try:
        call()
    except (Disagreement, PeerLost, Timeout) as caught:
        error = caught
    if error is None:
        return "", "", []
    assert isinstance(error, dist.DistBackendError)  # a RuntimeError, which programs catch around torch's collectives
    assert type(pickle.loads(pickle.dumps(error))) is type(error)
    return type(error).__name__, str(error), error.missing if isinstance(error, Timeout) else error.ranks


def absent(rank: int, size: int, store: str, backend: str, asynchronous: bool) -> Error | None:
    with started(backend, rank, store, SHORT, False) as me:
        dist.barrier()
        if rank == 3:  # it comes when the others have given up
            dist.group.WORLD.get_group_store().wait(["all have raised"], timedelta(seconds=50))  # type: ignore[union-attr]
            return None
        found = raised(lambda: _all_reduce(torch.ones(3), asynchronous))
        assert me.at("dp") == rank // 2
        shared = dist.group.WORLD.get_group_store()  # type: ignore[union-attr]
        if shared.add("raised", 1) == 3:
            shared.set("all have raised", "")
        return found


def _all_reduce(tensor: torch.Tensor, asynchronous: bool) -> None:
    work = dist.all_reduce(tensor, async_op=asynchronous)
    if work is not None:
        work.wait()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("backend", [OWN, AROUND])
def test_a_rank_that_does_not_come_is_named(tmp_path: Path, backend: str, asynchronous: bool) -> None:
    found = ranks(SIZE, absent, tmp_path, str(tmp_path / "own"), backend, asynchronous, initialised=False)
    for kind, text, missing in found[:3]:
        assert (kind, missing) == ("Timeout", [3])
        assert "arrived ranks {0..2}, missing rank 3" in text
        # Beside another backend only calls of rankmesh are known; the barrier that finds the rank is not the program's.
        assert ("rank 3 is outside any call for" in text) == (backend == OWN)
        assert "monitored_barrier" not in text
        assert text.endswith("in mesh dp=2 tp=2 that is rank 3 [dp=1 tp=1]")


def differing(rank: int, size: int, store: str, backend: str, checked: bool) -> tuple[Error, Error, list[list[float]]]:
    with started(backend, rank, store, timedelta(seconds=30), checked) as me:
        first, second = torch.ones(7 if rank == 1 else 4), torch.ones(4)
        lengths = raised(lambda: dist.all_reduce(first, group=me.group("tp")))
        operation = dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM
        operations = raised(lambda: dist.all_reduce(second, op=operation))
        after = [first[:4].tolist(), second.tolist()]
        if checked:
            dist.all_reduce(second)
            after.append(second.tolist())
        return lengths, operations, after


@pytest.mark.parametrize(("backend", "checked"), [(OWN, False), (OWN, True), (AROUND, True)])
def test_calls_that_differ_raise_on_every_rank(tmp_path: Path, backend: str, checked: bool) -> None:
    found = ranks(SIZE, differing, tmp_path, str(tmp_path / "own"), backend, checked, initialised=False)
    for rank, (lengths, operations, after) in enumerate(found):
        kind, text, others = lengths
        assert kind == ("Disagreement" if rank < 2 else "")
        if rank < 2:
            assert others == [1]
            assert "7 f" in text
            assert text.endswith("in mesh dp=2 tp=2 that is rank 1 [dp=0 tp=1]")
        kind, text, others = operations
        assert (kind, others) == ("Disagreement", [0])
        assert "all_reduce of 4 f32 by max" in text or "allreduce of 4 float32 by max" in text
        first, second, *third = after
        assert first == [1.0 if rank < 2 else 2.0] * 4  # ranks 2 and 3 made equal calls
        assert second == [1.0] * 4  # no data has moved
        assert third == ([[4.0] * 4] if checked else [])  # a checked group works on


def killed(rank: int, size: int, store: str, backend: str) -> tuple[Error, float]:
    with started(backend, rank, store, timedelta(seconds=40), False):
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        return raised(lambda: dist.all_reduce(torch.ones(3))), time.monotonic() - begin


@pytest.mark.parametrize("backend", [OWN, AROUND])
def test_a_rank_that_dies_is_noticed_before_the_timeout(tmp_path: Path, backend: str) -> None:
    found = ranks(SIZE, killed, tmp_path, str(tmp_path / "own"), backend, initialised=False, dies=[1])
    for (kind, text, lost), seconds in found:
        assert (kind, lost) == ("PeerLost", [1])
        assert "its process has ended or cannot be reached" in text
        assert text.endswith("in mesh dp=2 tp=2 that is rank 1 [dp=0 tp=1]")
        assert seconds < 20  # of 40


def killed_before_a_group(rank: int, size: int, store: str) -> tuple[Error, float]:
    with started(OWN, rank, store, timedelta(seconds=40), False):
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        return raised(lambda: dist.new_group(timeout=timedelta(seconds=40))), time.monotonic() - begin


def test_a_rank_that_dies_is_noticed_while_a_group_is_made(tmp_path: Path) -> None:
    for (kind, text, lost), seconds in ranks(
        SIZE, killed_before_a_group, tmp_path, str(tmp_path / "own"), initialised=False, dies=[1]
    ):
        assert (kind, lost) == ("PeerLost", [1])
        assert "rank 1 has ended; the start of a world of ranks {0..3} cannot be completed" in text
        assert seconds < 20  # of 40


DOCUMENT = Path(__file__).resolve().parents[2] / "docs/python-torch-backend.md"


def without_numbers(text: str) -> str:
    """An error text without what differs from run to run: seconds, the rank that noticed, the number of the call."""
    text = re.sub(r"for \d+(\.\d+)? (ms|s)\b", "for a while", text)
    return re.sub(r"expired on rank \d|call number \d", "...", text)


def block_with_a_wrong_call(rank: int, size: int, store: str) -> Error:
    def train() -> None:
        at = dist.FileStore(store, SIZE)
        numbers = {"store": at, "rank": rank, "world_size": SIZE}
        with rankmesh.torch.init("dp=2 tp=2", backend=OWN, timeout=20, **numbers) as me:  # type: ignore[arg-type]
            dist.all_reduce(torch.ones(4 if rank == 1 else 3), group=me.group("dp"))
            dist.all_reduce(torch.ones(1), group=me.group("tp"))

    return raised(train)


def test_the_cause_that_ended_a_peers_block_is_named(tmp_path: Path) -> None:
    found = ranks(SIZE, block_with_a_wrong_call, tmp_path, str(tmp_path / "own"), initialised=False)
    for rank, (_, text, _) in enumerate(found):  # ranks 1 and 3 differ on dp; ranks 0 and 2 wait for them on tp
        assert re.search("4 f32 .* 3 f32|3 f32 .* 4 f32", text, re.DOTALL), (rank, text)


def differing_on_a_mesh(rank: int, size: int, store: str) -> Error:
    dist.init_process_group(OWN, store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE, timeout=SHORT)
    mesh = rankmesh.torch.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    return raised(lambda: dist.all_reduce(torch.ones(3 + rank), group=mesh.get_group("tensor")))


def test_groups_of_a_mesh_have_the_names_of_its_dimensions(tmp_path: Path) -> None:
    for _, text, _ in ranks(SIZE, differing_on_a_mesh, tmp_path, str(tmp_path / "own"), initialised=False):
        assert "on 'tensor'" in text, text


def timeouts_of_a_mesh(rank: int, size: int, store: str, backend: str) -> set[timedelta]:
    dist.init_process_group(backend, store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE, timeout=3 * SHORT)
    mesh = rankmesh.torch.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return {timeout for group in mesh.get_all_groups() for timeout in [_groups.timeout_of(group)] if timeout}


def test_groups_of_a_mesh_have_the_timeout_of_our_default_group(tmp_path: Path) -> None:
    for backend, timeout in ((OWN, 3 * SHORT), ("gloo", c10d.default_pg_timeout)):
        found = ranks(SIZE, timeouts_of_a_mesh, tmp_path, str(tmp_path / backend), backend, initialised=False)
        assert found == [{timeout}] * SIZE


def on_a_broken_group(rank: int, size: int, store: str) -> list[Error]:
    with started(OWN, rank, store, timedelta(seconds=30), False):
        operation = dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM
        sparse = torch.ones(2).to_sparse()
        calls: list[Callable[[], Any]] = [
            lambda: dist.all_reduce(torch.ones(3), op=operation),
            lambda: dist.all_reduce(torch.ones(3), async_op=True),
            lambda: dist.all_reduce(sparse),
            lambda: dist.isend(torch.ones(3), (rank + 1) % size),
        ]
        return [raised(call) for call in calls]


def test_every_call_on_a_broken_group_says_where(tmp_path: Path) -> None:
    for found in ranks(SIZE, on_a_broken_group, tmp_path, str(tmp_path / "own"), initialised=False):
        for kind, text, others in found:
            assert (kind, others) == ("Disagreement", [0])
            assert text.endswith("in mesh dp=2 tp=2 that is rank 0 [dp=0 tp=0]")


def test_the_document_shows_what_calls_raise(tmp_path: Path) -> None:
    shown = [without_numbers(line.strip()) for line in re.findall(r"^    (.*)$", DOCUMENT.read_text(), re.MULTILINE)]
    first, second, third = (tmp_path / each for each in "abc")
    for folder in (first, second, third):
        folder.mkdir()
    found = [
        ranks(SIZE, absent, first, str(first / "own"), OWN, False, initialised=False)[0][1],
        ranks(SIZE, differing, second, str(second / "own"), OWN, False, initialised=False)[0][0][1],
        ranks(SIZE, killed, third, str(third / "own"), OWN, initialised=False, dies=[1])[0][0][1],
    ]
    assert [without_numbers(text) for text in found] == shown


def recorded(rank: int, size: int, store: str, folder: str) -> str:
    os.environ["RANKMESH_RECORD"] = folder
    with started(OWN, rank, store, timedelta(seconds=20), False):
        dist.all_reduce(torch.ones(5))
        return raised(lambda: dist.all_reduce(torch.ones(4 + rank // 3)))[0]


def test_flight_records_are_written_where_calls_fail(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    found = ranks(SIZE, recorded, tmp_path, str(tmp_path / "own"), str(records), initialised=False)
    assert set(found) == {"Disagreement"}
    files = sorted(records.iterdir())
    assert len(files) == SIZE
    text = files[0].read_text(encoding="utf-8")
    assert json.loads(text)["rank"] in range(SIZE)
    assert "all_reduce" in text


def refused(rank: int, size: int) -> list[str]:
    texts = []
    tensor = torch.ones(2)
    for call in (
        lambda: dist.all_reduce(tensor, op=_make_nccl_premul_sum(2.0)),
        lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)),
    ):
        with pytest.raises(UsageError) as error:
            call()
        texts.append(str(error.value))
    return texts


def own(rank: int, size: int, store: str) -> list[str]:
    with started(OWN, rank, store, SHORT, False):
        return refused(rank, size)


def test_calls_that_the_engines_lack_are_refused_in_words(tmp_path: Path) -> None:
    texts = ranks(SIZE, own, tmp_path, str(tmp_path / "own"), initialised=False)[0]
    assert texts[0].startswith("the backend 'rankmesh' was asked to reduce by")
    assert texts[1] == "all_to_all_single was given 3 rows for 4 ranks; pass the split sizes"


def is_warned(rank: int, size: int, folder: str, backend: str) -> list[str]:
    os.environ["RANKMESH_RECORD"] = folder
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        rankmesh.torch.init(
            "dp=2", backend=backend, rank=rank, world_size=size, init_method=f"file://{folder}"
        ).destroy()
    return [str(warning.message) for warning in warned if "RANKMESH_RECORD" in str(warning.message)]


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo", "rankmesh+gloo", "rankmesh", "cpu:rankmesh"])
def test_one_rank_warns_of_records_that_no_group_writes(backend: str, tmp_path: Path) -> None:
    first, second = ranks(2, is_warned, tmp_path, str(tmp_path / "store"), backend, initialised=False)
    assert second == []
    if "rankmesh" in backend.split(":"):
        assert first == []
    else:
        (text,) = first
        assert text == (
            f"RANKMESH_RECORD has no effect on groups of the backend '{backend}'; initialise with 'cpu:rankmesh' for "
            "CPU tensors"
        )
