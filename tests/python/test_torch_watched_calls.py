"""On rankmesh+gloo, ranks that make different calls learn which, also where Gloo itself says only that time is over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Disagreement
from torch_ranks import ranks

SIZE = 4
Call = Callable[..., Any]


def all_reduce(elements: int = 4, dtype: Any = torch.float32) -> Call:
    return lambda **options: dist.all_reduce(torch.ones(elements, dtype=dtype), **options)


def broadcast(root: int, elements: int = 4) -> Call:
    return lambda **options: dist.broadcast(torch.ones(elements), group_src=root, **options)


def reduce(root: int) -> Call:
    return lambda **options: dist.reduce(torch.ones(4), group_dst=root, **options)


def barrier(**options: Any) -> Any:
    return dist.barrier(**options)


def all_gather(**options: Any) -> Any:
    outputs = [torch.ones(1) for _ in range(dist.get_world_size(options["group"]))]
    return dist.all_gather(outputs, torch.ones(1), **options)


def send(**options: Any) -> Any:
    group, is_async = options["group"], options["async_op"]
    return (dist.isend if is_async else dist.send)(torch.ones(4), group_dst=0, group=group, tag=3)


SUM, ROOT0 = "allreduce of 4 float32 by sum", "broadcast of 4 float32 from 0"
CASES: dict[str, tuple[list[Call], list[Call], str, str]] = {  # the calls of the ranks and of rank 3, and their texts
    "another root": ([broadcast(0)], [broadcast(1)], ROOT0, "broadcast of 4 float32 from 1"),
    "another operation": ([all_reduce()], [broadcast(0)], SUM, ROOT0),
    "a barrier": ([all_reduce()], [barrier], SUM, "barrier"),
    "another result": ([all_reduce()], [all_gather], SUM, "allgather of 1 float32"),
    "skips": ([all_reduce(), broadcast(0)], [broadcast(0)], SUM, ROOT0),
    "twice": ([all_reduce(), all_gather], [all_reduce(), all_reduce()], "allgather of 1 float32", SUM),
    "a message": ([all_reduce()], [send], SUM, "send of 4 float32 to 0"),
}


def run(calls: list[Call], group: Any, is_async: bool) -> None:
    for call in calls:
        work = call(group=group, async_op=is_async)
        if isinstance(work, dist.Work):
            work.wait()


def differ(rank: int, size: int, store: str, name: str, part: str, is_async: bool) -> tuple[str, list[int]]:
    at, timeout = dist.FileStore(store, size), timedelta(seconds=2)
    dist.init_process_group("rankmesh+gloo", store=at, rank=rank, world_size=size, timeout=timeout)
    mesh = rankmesh.torch.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    group: Any = mesh.get_group("tp") if part == "tp" else dist.group.WORLD
    usual, odd, _, _ = CASES[name]
    dist.all_reduce(torch.ones(2), group=group)
    if part == "tp" and rank < 2:
        return "", []
    with pytest.raises(Disagreement) as raised:
        run(odd if rank == 3 else usual, group, is_async)
    assert isinstance(raised.value, dist.DistBackendError)
    return str(raised.value), raised.value.ranks


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("name", "part"), [(name, "tp") for name in CASES] + [(name, "world") for name in list(CASES)[1:]]
)
def test_calls_that_differ_are_named_on_every_rank(name: str, part: str, is_async: bool, tmp_path: Path) -> None:
    found = ranks(SIZE, differ, tmp_path, str(tmp_path / "own"), name, part, is_async, initialised=False)
    _, _, first, second = CASES[name]
    for text, outside in found[2:] if part == "tp" else found:
        assert "gloo" in text
        lines = text.partition(":\n")[2] or text
        assert first in lines, text
        assert second in lines, text
        assert outside == [3], text
        assert text.endswith("in mesh dp=2 tp=2 that is rank 3 [dp=1 tp=1]")


def uneven(rank: int, size: int, store: str) -> list[list[float]]:
    """Calls whose tensors differ from rank to rank, in checked mode."""
    dist.init_process_group("rankmesh+gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    own = torch.zeros(rank + 1)
    dist.reduce_scatter(own, [torch.ones(each + 1) for each in range(size)])
    rows = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(rows, torch.ones(3), [rank + 1] * size, [1, 2])
    return [own.tolist(), rows.tolist()]


def test_calls_of_uneven_parts_are_not_taken_for_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = functools.partial(with_checks, uneven)
    program.__name__ = "uneven"  # type: ignore[attr-defined]
    first, second = ranks(2, program, tmp_path, str(tmp_path / "own"), initialised=False)
    assert first == [[2.0], [1.0] * 2]
    assert second == [[2.0, 2.0], [1.0] * 4]


def with_checks(program: Callable[..., Any], *arguments: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKMESH_CHECK", "1")
        return program(*arguments)


def one_is_wrong(rank: int, size: int, store: str) -> float:
    dist.init_process_group("rankmesh+gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    x = torch.ones(1)
    if rank == 0:
        with pytest.raises(RuntimeError, match="invalid root rank"):  # at once, and without the others
            dist.group.WORLD.broadcast(x, 5)  # type: ignore[union-attr]
    dist.all_reduce(x)
    return x.item()


def test_wrong_arguments_of_one_rank_do_not_await_the_others(tmp_path: Path) -> None:
    assert ranks(2, one_is_wrong, tmp_path, str(tmp_path / "own"), initialised=False) == [2.0, 2.0]
