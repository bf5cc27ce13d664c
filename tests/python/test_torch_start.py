"""Gloo groups of init have the I/O thread of torch's default group, unless Gloo needs a device for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import Axes, init  # noqa: E402
from torch_ranks import ranks  # noqa: E402


def loops() -> int:
    """The I/O threads of Gloo in this process."""
    return [each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")].count("gloo_tcp_loop")


def count_loops(rank: int, size: int, variable: str) -> tuple[int, int]:
    if variable:
        os.environ[variable] = "1"
    before = loops()
    with init("dp=*", over=[Axes("dp", separate="x"), Axes("dp", separate="y")]) as me:
        total = torch.ones(1)
        for name in ("x", "y"):
            dist.all_reduce(total, group=me.group(name))
        assert total.item() == size**2
        return before, loops()


@pytest.mark.parametrize("variable", ["", "TORCH_GLOO_LAZY_INIT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"])
def test_groups_share_an_io_thread_unless_gloo_cannot(variable: str, tmp_path: Path) -> None:
    for before, after in ranks(2, count_loops, tmp_path, variable):
        assert (before, after) == (1, 3 if variable else 1)
