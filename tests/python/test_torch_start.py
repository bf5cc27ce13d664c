"""Gloo groups of init have the I/O thread of torch's default group, unless Gloo needs a device for each."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from pathlib import Path

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import Axes, _agree, _gloo, _groups, _plan, init  # noqa: E402
from torch_ranks import free_port, ranks  # noqa: E402


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


def end_early(rank: int, size: int, folder: str) -> int:
    """Rank 0 ends each group at once; rank 2 connects to rank 1 after that, or after a second."""
    store = dist.FileStore(f"{folder}/ended", size)
    get, ended = _gloo.Exchange.get, [""]

    def late(self: _gloo.Exchange, key: str) -> bytes:
        if key.endswith("/1"):
            with contextlib.suppress(RuntimeError):
                store.wait(ended, datetime.timedelta(seconds=1))
        return get(self, key)

    if rank == 2:
        _gloo.Exchange.get = late  # type: ignore[method-assign]
    for i in range(3):
        ended[0] = f"group {i}"
        dist.destroy_process_group(_groups.new_group(ended[0], "late", range(size), _plan.Options()))
        if rank == 0:
            store.set(ended[0], "")
    return rank


def test_group_when_a_rank_ends_it_early_connects_all(tmp_path: Path) -> None:
    (folder := tmp_path / "store").mkdir()
    assert ranks(3, end_early, tmp_path, str(folder)) == [0, 1, 2]


def fail_and_start_again(rank: int, size: int, ports: list[int]) -> str:
    """Rank 1 hears late that all fail, and then fails alone."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports[0]))
    read = _agree.read

    def late(store: dist.Store, key: str) -> str:
        time.sleep(0.2)
        return read(store, key)

    if rank == 1:
        _agree.read = late
    with pytest.raises(rankmesh.Error) as caught:
        init("dp=3")
    os.environ["MASTER_PORT"] = "" if rank == 1 else str(ports[1])
    with pytest.raises(rankmesh.Error):
        init("dp=*", timeout=0.5)
    os.environ["MASTER_PORT"] = str(ports[2])
    with init("dp=*") as me:
        total = torch.ones(1)
        dist.all_reduce(total, group=me.group("dp"))
        assert total.item() == size
    return str(caught.value)


def test_starts_that_fail_are_heard_by_all_and_leave_the_next_one_alone(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    first, second = ranks(2, fail_and_start_again, tmp_path, ports, initialised=False)
    assert first == second
    assert first.startswith("mesh dp=3 needs 3 ranks; the world has 2")
