"""rankmesh.torch: ranks are lost and gained, worlds split and merge, while processes go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import PeerLost

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from elastic_ranks import Job, die  # noqa: E402

PLAN = ("dp=* tp=2",)


def check(me: rankmesh.torch.Member) -> tuple[int, int]:
    """Every group of the member sums its ranks."""
    assert (dist.get_rank(), dist.get_world_size()) == (me.rank, me.size)
    for axes in [*((axis,) for axis in me.mesh.axes)]:
        total = torch.tensor([float(me.rank)])
        dist.all_reduce(total, group=me.group(*axes))
        assert total.item() == sum(me.ranks(*axes)), axes
        assert me.device_mesh().get_group(*axes) is me.group(*axes)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == me.size
    return me.rank, me.size


def lose_and_gain(rank: int, size: int, lost: tuple[int, ...]) -> Any:
    me = rankmesh.torch.init("dp=* tp=1", over=[("dp", "tp")], backend="rankmesh")
    check(me)
    if rank in lost:
        die()
    try:
        while True:
            dist.all_reduce(torch.ones(1))
    except PeerLost:
        me = me.survivors(grace=10)
    smaller = check(me)
    me = me.grow(len(lost), timeout=60)
    larger = check(me)
    me.destroy()
    return smaller, larger


def come_back() -> Any:
    me = rankmesh.torch.rejoin("dp=* tp=1", over=[("dp", "tp")], timeout=60)
    place = check(me)
    me.destroy()
    return place


@pytest.mark.parametrize("lost", [(2,), (0,), (1, 3)])
def test_job_when_ranks_die_shrinks_and_regains_them(lost: tuple[int, ...], tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        for rank in range(4):
            job.start(rank, lose_and_gain, rank, 4, lost)
        results = {}
        for rank, result in job.ended():
            if result is None:
                job.start(rank, come_back)
            else:
                results[rank] = result
    left = [rank for rank in range(4) if rank not in lost]
    assert {rank: results[rank] for rank in left} == {
        rank: ((place, len(left)), (rank, 4)) for place, rank in enumerate(left)
    }
    assert {rank: results[rank] for rank in lost} == {rank: (rank, 4) for rank in lost}
