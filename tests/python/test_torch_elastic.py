"""rankmesh.torch: ranks are lost and gained, worlds split and merge, while processes go on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import PeerLost, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from elastic_ranks import Job, die  # noqa: E402


def check(me: rankmesh.torch.Member) -> tuple[int, int]:
    """Every group of the member sums its ranks, several times."""
    assert (dist.get_rank(), dist.get_world_size()) == (me.rank, me.size)
    for axes in me.mesh.axes:
        for step in range(3):
            total = torch.tensor([float(me.rank + step)])
            dist.all_reduce(total, group=me.group(axes))
            assert total.item() == sum(rank + step for rank in me.ranks(axes)), axes
        assert me.device_mesh().get_group(axes) is me.group(axes)
    first = torch.tensor([float(me.rank)])
    dist.broadcast(first, 0)
    assert first.item() == 0
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == me.size
    return me.rank, me.size


def wait_for_loss() -> None:
    """Returns when this rank has lost another."""
    with contextlib.suppress(PeerLost):
        while True:
            dist.all_reduce(torch.ones(1))


# --- survivors, grow, rejoin


def lose_and_gain(rank: int, lost: tuple[int, ...]) -> Any:
    me = rankmesh.torch.init("dp=* tp=1", over=[("dp", "tp")], backend="rankmesh")
    check(me)
    if rank in lost:
        die()
    wait_for_loss()
    me = me.survivors(grace=10)
    smaller = check(me)
    me = me.grow(len(lost), timeout=60)
    larger = check(me)
    me.destroy()
    assert not dist.is_initialized()
    return smaller, larger


def come_back() -> Any:
    me = rankmesh.torch.rejoin("dp=* tp=1", over=[("dp", "tp")], timeout=60)
    place = check(me)
    me.destroy()
    return place


@pytest.mark.parametrize("lost", [(2,), (0,), (1, 3)])
@pytest.mark.parametrize("store", ["folder", "tcp"])
def test_job_when_ranks_die_shrinks_and_regains_them(lost: tuple[int, ...], store: str, tmp_path: Path) -> None:
    with Job(tmp_path, 4, store) as job:
        job.start_all(lose_and_gain, lost)
        results = {}
        for rank, result in job.ended():
            if result is None:
                job.start(rank, come_back)
            else:
                results[rank] = result
    left = [rank for rank in range(4) if rank not in lost]
    places = {rank: ((place, len(left)), (rank, 4)) for place, rank in enumerate(left)}
    assert results == places | {rank: (rank, 4) for rank in lost}


# --- reconfigure: the scenarios of torchcomms' ReconfigureTest


def reconfigure(rank: int, *worlds: list[list[int]]) -> list[tuple[int, int]]:
    """In turn this rank is in the part of each list that has it. It ends with its last part."""
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    places = [check(me)]
    for parts in worlds:
        if mine := [part for part in parts if rank in part]:
            me = me.reconfigure(mine[0])
            places.append(check(me))
    me.destroy()
    return places


ALL, HALVES, ALONE = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    "worlds",
    [
        pytest.param([[[0, 1, 2]]], id="shrink"),
        pytest.param([[[0, 1, 3]]], id="exclude_middle_rank"),
        pytest.param([ALONE, ALL], id="scale_down_up"),
        pytest.param([ALL, ALL], id="identity"),
        pytest.param([[[0, 1]], ALL], id="late"),
        pytest.param([HALVES, ALL, HALVES, ALL], id="merge_split"),
        pytest.param([[[3, 1, 0]], [[1, 3], [2, 0]]], id="another_order"),
    ],
)
def test_reconfigure_when_worlds_change_sums_their_ranks(worlds: list[list[list[int]]], tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        job.start_all(reconfigure, *worlds)
        results = job.results()
    for rank, places in enumerate(results):
        parts = [part for parts in [ALL, *worlds] for part in parts if rank in part]
        assert places == [(part.index(rank), len(part)) for part in parts]


# --- standby


def work_until_larger(rank: int) -> Any:
    me = rankmesh.torch.init("dp=* tp=2", backend="rankmesh")
    standby = me.standby(2, timeout=60)
    with pytest.raises(UsageError, match="swap was called on a standby that is not connected on all ranks"):
        standby.swap()
    steps = 0
    while not standby.ready():
        check(me)
        steps += 1
    assert standby.ready()
    me = standby.swap()
    place = check(me)
    me.destroy()
    return place, steps


def enter_at_step() -> Any:
    me = rankmesh.torch.rejoin("dp=* tp=2", timeout=60)
    place = check(me)
    me.destroy()
    return place


def test_standby_when_processes_come_swaps_at_one_step(tmp_path: Path) -> None:
    with Job(tmp_path, 2) as job:
        job.start_all(work_until_larger)
        for rank in (2, 3):
            job.start(rank, enter_at_step)
        results = job.results()
    (first, steps), (second, others) = results[:2]
    assert steps == others > 0
    assert [first, second, *results[2:]] == [(rank, 4) for rank in range(4)]
