"""The names of other frameworks over torch's process groups, on processes over Gloo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import NewGroups, ranks  # noqa: E402


def check(group: Any, expected: Any) -> None:
    """A group of torch is of these ranks, in this order, and adds over them."""
    assert dist.get_process_group_ranks(group) == list(expected)
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=group)
    assert total.item() == sum(expected)


def picotron(rank: int, size: int) -> None:
    from rankmesh.picotron import process_group_manager as pgm

    with NewGroups() as made:
        pgm.setup_process_group_manager(2, 1, 2, 2)
    live = pgm.process_group_manager
    pure = pgm.ProcessGroupManager(2, 1, 2, 2, rank=rank, world_size=size)
    for name in ("tp", "cp", "pp", "dp", "cp_dp", "pp_dp"):
        check(getattr(live, f"{name}_group"), getattr(pure, f"{name}_group"))
    assert live.cp_dp_group is live.dp_group
    assert live.world_group is dist.group.WORLD
    assert (live.tp_rank, live.pp_next_rank, str(live)) == (pure.tp_rank, pure.pp_next_rank, str(pure))
    assert list(map(len, made)) == [2, 1, 2, 2, 4]  # the original makes 26 groups, on every rank
    with pytest.raises(rankmesh.Disagreement, match=re.escape("rank {5}: picotron: dp=1 pp=4 cp=1 tp=2")):
        pgm.ProcessGroupManager(2, 1, 4 if rank == 5 else 2, 1 if rank == 5 else 2)
    with pytest.raises(AssertionError, match=re.escape("World size (8) != TP (3)")):
        pgm.ProcessGroupManager(3, 1, 1, 1)


def test_picotrons_manager_has_torchs_groups(tmp_path: Path) -> None:
    ranks(8, picotron, tmp_path)
