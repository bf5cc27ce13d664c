"""cpu:rankmesh beside another backend for tensors of a device: each call goes to the backend of its tensors."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import rankmesh.torch.backend
import torch
import torch.distributed as dist
from rankmesh import Disagreement
from torch._C._distributed_c10d import _make_nccl_premul_sum
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed import fake_pg  # registers the backend 'fake'
from torch_ranks import ranks

SIZE = 2


def mixed(rank: int, size: int, store: str) -> list[object]:
    dist.init_process_group(
        "cpu:rankmesh,cuda:fake",
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=30),
    )
    world = dist.group.WORLD
    assert world is not None
    found: list[object] = [str(world._device_types)]
    with pytest.raises(RuntimeError, match="No backend type associated with device type xpu"):
        world._get_backend(torch.device("xpu"))
    for group in (world, rankmesh.torch.init("dp=1 tp=2").group("tp"), dist.new_group([0, 1])):
        assert isinstance(group, dist.ProcessGroup)
        on_host = torch.ones(2)
        dist.all_reduce(on_host, group=group)
        with FakeTensorMode():
            on_device = torch.empty(2, device="cuda")
            group.allreduce([on_device], dist.AllreduceOptions())
        found += [on_host.tolist(), type(group._get_backend(torch.device("cuda"))).__name__]
    dist.barrier()
    return found


def timed(rank: int, size: int, store: str, backend: str) -> list[object]:
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size)
    group, device = dist.group.WORLD, torch.device("cuda")
    assert group is not None
    found: list[object] = []
    for seconds in (7, 8):  # before the first call of the device, and after it
        group.set_timeout(timedelta(seconds=seconds))
        found += [group._get_backend(device).options._timeout.seconds, group.options._timeout.seconds]
    if hasattr(dist, "get_backend_impl"):  # PyTorch 2.14
        assert dist.get_backend_impl(group, device) is group._get_backend(device)
    return found


@pytest.mark.parametrize("backend", ["cpu:rankmesh,cuda:gloo", "rankmesh+gloo"])
def test_a_timeout_reaches_the_backend_of_every_device(backend: str, tmp_path: Path) -> None:
    assert ranks(SIZE, timed, tmp_path, str(tmp_path / "own"), backend, initialised=False) == [[7, 7, 8, 8]] * SIZE


def coalesced(rank: int, size: int, store: str, backend: str) -> None:
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size)
    group, device = dist.group.WORLD, torch.device("cuda")
    assert group is not None
    said: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_start_coalescing", "_end_coalescing"):
            patch.setattr(dist.ProcessGroup, name, lambda self, on, name=name: said.append((name, id(self), on)))
        inner = id(group.inner(device))  # type: ignore[attr-defined]
        with c10d._coalescing_manager(group, device):
            group.abort()  # as PyTorch 2.14 aborts groups
    assert said == [("_start_coalescing", inner, device), ("_end_coalescing", inner, device)]


@pytest.mark.parametrize("backend", ["cpu:rankmesh,cuda:fake", "rankmesh+fake"])
def test_coalesced_calls_are_those_of_the_inner_group(backend: str, tmp_path: Path) -> None:
    ranks(1, coalesced, tmp_path, str(tmp_path / "own"), backend, initialised=False)


def batched(rank: int, size: int, store: str, backend: str) -> list[object]:
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size)
    given: list[object] = []

    def torchs(batch: list[dist.P2POp]) -> list[dist.Work]:
        given.extend((type(op.group) is dist.ProcessGroup, op.op.__name__, op.group_peer, op.tag) for op in batch)
        return []

    with pytest.MonkeyPatch.context() as patch, FakeTensorMode():
        patch.setattr(rankmesh.torch.backend, "_batch_of_torch", torchs)
        out, into = torch.empty(2, device="cuda"), torch.empty(2, device="cuda")
        batch = [dist.P2POp(dist.isend, out, 1 - rank, tag=3), dist.P2POp(dist.irecv, into, 1 - rank)]
        assert dist.batch_isend_irecv(batch) == []
    return given


@pytest.mark.parametrize("backend", ["cpu:rankmesh,cuda:fake", "rankmesh+fake"])
def test_a_batch_of_messages_is_given_to_the_inner_group(backend: str, tmp_path: Path) -> None:
    found = ranks(SIZE, batched, tmp_path, str(tmp_path / "own"), backend, initialised=False)
    assert found == [[(True, "isend", 1 - rank, 3), (True, "irecv", 1 - rank, 0)] for rank in range(SIZE)]


def watched(rank: int, size: int, store: str) -> None:
    dist.init_process_group(
        "rankmesh+fake", store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timedelta(seconds=30)
    )
    dist.all_reduce(torch.ones(2), op=_make_nccl_premul_sum(2.0))  # which rankmesh's engines lack
    os.environ["RANKMESH_CHECK"] = "1"
    checked = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(2), op=_make_nccl_premul_sum(2.0), group=checked)
    with pytest.raises(Disagreement, match=r"allreduce of \d float32 by premul_sum"):
        dist.all_reduce(torch.ones(2 + rank), op=_make_nccl_premul_sum(2.0), group=checked)


def test_a_watched_backend_keeps_its_own_reductions(tmp_path: Path) -> None:
    ranks(SIZE, watched, tmp_path, str(tmp_path / "own"), initialised=False)


def test_calls_go_to_the_backend_of_their_tensors(tmp_path: Path) -> None:
    assert fake_pg.FakeStore is not None
    found = ranks(SIZE, mixed, tmp_path, str(tmp_path / "own"), initialised=False)
    devices = "[device(type='cpu'), device(type='cuda')]"
    assert found == [[devices, *[[2.0, 2.0], "FakeProcessGroup"] * 3]] * SIZE
