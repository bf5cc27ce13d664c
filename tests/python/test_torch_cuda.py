"""NCCL in torch with rankmesh beside it, on the GPUs of this machine.

Ranks share a GPU where NCCL_MULTI_RANK_GPU_ENABLE=1 is set, which NCCL 2.30 knows; else each has its own.
"""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from rankmesh import Disagreement, PeerLost, Sharding, Timeout  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402
from torch_ranks import preload, ranks  # noqa: E402

SHARED = os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE", "0") != "0"
if torch.cuda.device_count() < (1 if SHARED else 2):
    pytest.skip("needs two GPUs, or one with NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1", allow_module_level=True)
preload("torch.distributed.fsdp", "torch.distributed.tensor.parallel")
SIZE = 2
MAKES_MESHES = hasattr(
    importlib.import_module("torch.distributed._mesh_layout"), "_FlatLayout"
)  # else PyTorch's are not ours
BACKENDS = ["nccl", "cpu:rankmesh,cuda:nccl", "rankmesh+nccl"]


def device_of(rank: int) -> torch.device:
    return torch.device("cuda", rank % torch.cuda.device_count())


def start(backend: str, rank: int, size: int, store: str, seconds: float = 60, **options: Any) -> torch.device:
    torch.cuda.set_device(device_of(rank))
    dist.init_process_group(
        backend,
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=seconds),
        **options,
    )
    return device_of(rank)


def collectives(rank: int, size: int, store: str, backend: str) -> None:
    device = start(backend, rank, size, store)
    own = torch.arange(4.0, device=device) + 10 * rank
    every = [torch.arange(4.0, device=device) + 10 * each for each in range(size)]
    total = own.clone()
    dist.all_reduce(total)
    torch.testing.assert_close(total, torch.stack(every).sum(0))
    mean = own.clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG, async_op=True).wait()
    torch.testing.assert_close(mean, torch.stack(every).mean(0))
    gathered = torch.empty(4 * size, device=device)
    dist.all_gather_into_tensor(gathered, own)
    torch.testing.assert_close(gathered, torch.cat(every))
    parts = [torch.empty(4, device=device) for _ in range(size)]
    dist.all_gather(parts, own)
    torch.testing.assert_close(torch.stack(parts), torch.stack(every))
    mine = torch.empty(4 // size, device=device)
    dist.reduce_scatter_tensor(mine, own)
    torch.testing.assert_close(mine, torch.stack(every).sum(0).chunk(size)[rank])
    turned = torch.empty_like(own)
    dist.all_to_all_single(turned, own)
    torch.testing.assert_close(turned, torch.cat([each.chunk(size)[rank] for each in every]))
    sent = own.clone()
    dist.broadcast(sent, size - 1)
    torch.testing.assert_close(sent, every[size - 1])
    reduced = own.clone()
    dist.reduce(reduced, 0, op=dist.ReduceOp.MAX)
    if rank == 0:
        torch.testing.assert_close(reduced, every[size - 1])
    got = torch.empty_like(own)
    around = [
        dist.P2POp(dist.isend, own, (rank + 1) % size),
        dist.P2POp(dist.irecv, got, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(around):
        work.wait()
    torch.testing.assert_close(got, every[(rank - 1) % size])
    if rank == 0:
        dist.send(own, 1)
    elif rank == 1:
        dist.recv(got, 0)
        torch.testing.assert_close(got, every[0])
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": each} for each in range(size)]
    dist.barrier()
    if backend.startswith("cpu:"):
        on_host = torch.ones(3)
        dist.all_reduce(on_host)
        assert on_host.tolist() == [size] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_collectives_on_gpus_equal_their_definitions(backend: str, tmp_path: Path) -> None:
    ranks(SIZE, collectives, tmp_path, str(tmp_path / "own"), backend, initialised=False)


def differs(rank: int, size: int, store: str) -> None:
    os.environ["RANKMESH_CHECK"] = "1"
    device = start("rankmesh+nccl", rank, size, store)
    values = torch.ones(4 + 3 * rank, device=device)
    with pytest.raises(Disagreement, match=r"allreduce of 7 float32 by sum"):
        dist.all_reduce(values)
    torch.cuda.synchronize()
    assert values.tolist() == [1.0] * (4 + 3 * rank)
    again = torch.ones(4, device=device)
    dist.all_reduce(again)
    assert again.tolist() == [size] * 4


def test_checked_calls_that_differ_raise_before_nccl_has_them(tmp_path: Path) -> None:
    ranks(SIZE, differs, tmp_path, str(tmp_path / "own"), initialised=False)


def reduce_for_ever(rank: int, size: int, device: torch.device, *, differs: bool) -> None:
    many, few = torch.ones(1_000_000, device=device), torch.ones(1_000_000 // size, device=device)
    while True:
        dist.all_reduce(many)
        if differs:
            dist.broadcast(many, 0) if rank == 0 else dist.reduce_scatter_tensor(few, many)
        torch.cuda.synchronize()


def not_served(rank: int, size: int, store: str, way: str) -> tuple[type[Exception], str] | None:
    """The first call after one that cannot complete: torch's own watchdog would end the process."""
    device = start("rankmesh+nccl", rank, size, store, seconds=8)
    dist.all_reduce(torch.ones(4, device=device))
    torch.cuda.synchronize()
    told = dist.distributed_c10d._get_default_group().get_group_store()
    if rank == 1 and way == "dies":
        os._exit(0)
    if rank == 1 and way == "late":
        told.wait(["told 0"], datetime.timedelta(seconds=40))
        return None
    with pytest.raises(dist.DistBackendError) as found:
        reduce_for_ever(rank, size, device, differs=way == "differs")
    told.set(f"told {rank}", "")
    return type(found.value), str(found.value)


def test_a_rank_that_does_not_come_to_nccl_is_named(tmp_path: Path) -> None:
    kind, said = ranks(SIZE, not_served, tmp_path, str(tmp_path / "own"), "late", initialised=False)[0]
    assert issubclass(kind, Timeout)
    assert said.startswith("call number 2 on nccl, allreduce of 1000000 float32 by sum, has not completed"), said
    assert "arrived rank 0, missing rank 1" in said, said


def test_a_process_that_dies_under_nccl_is_named(tmp_path: Path) -> None:
    kind, said = ranks(SIZE, not_served, tmp_path, str(tmp_path / "own"), "dies", initialised=False, dies=(1,))[0]
    assert issubclass(kind, PeerLost)
    assert "rank 1 is gone" in said, said


def test_ranks_in_different_calls_of_nccl_are_named(tmp_path: Path) -> None:
    for kind, said in ranks(SIZE, not_served, tmp_path, str(tmp_path / "own"), "differs", initialised=False):
        assert issubclass(kind, Disagreement)
        assert "call number 3 on 'world' of mesh world=2 is not the same on all its ranks" in said, said


def groups(rank: int, size: int, store: str, is_bound: bool) -> list[object]:
    device = start("nccl", rank, size, store, **({"device_id": device_of(rank)} if is_bound else {}))
    with rankmesh.torch.init("dp=2 tp=2", over=[("dp", "tp")], device=str(device)) as me:
        found: list[object] = []
        for axis in ("dp", "tp"):
            sum_ = torch.tensor([float(rank)], device=device)
            dist.all_reduce(sum_, group=me.group(axis))
            found.append(sum_.item())
            assert sum_.item() == sum(me.ranks(axis))
        if MAKES_MESHES:
            places = [Shard(0), Shard(1)]
            whole = torch.arange(16.0, device=device).view(4, 4)
            placed = distribute_tensor(whole, me.device_mesh(), places)
            assert placed.full_tensor().tolist() == whole.tolist()
        if is_bound:
            me.suspend("tp")
            me.resume("tp")
            sum_ = torch.tensor([float(rank)], device=device)
            dist.all_reduce(sum_, group=me.group("tp"))
            assert sum_.item() == sum(me.ranks("tp"))
    return found


@pytest.mark.parametrize("is_bound", [False, True])
def test_groups_of_a_declaration_work_on_gpus(is_bound: bool, tmp_path: Path) -> None:
    if not SHARED and torch.cuda.device_count() < 4:
        pytest.skip("needs four GPUs")
    found = ranks(4, groups, tmp_path, str(tmp_path / "own"), is_bound, initialised=False)
    assert found == [[2.0, 1.0], [4.0, 1.0], [2.0, 5.0], [4.0, 5.0]]


WIDTH, BATCH, STEPS = 32, 8, 4


def model(device: torch.device) -> nn.Sequential:
    torch.manual_seed(1)
    layers = [nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)]
    return nn.Sequential(*layers).to(device)


def train(module: Any, replica: int, device: torch.device) -> list[float]:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, foreach=False)
    losses = []
    for step in range(STEPS):
        seed = torch.Generator().manual_seed(100 * step + replica)
        x, y = (torch.randn(BATCH, WIDTH, generator=seed).to(device) for _ in range(2))
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp(rank: int, size: int, device: torch.device) -> list[float]:
    from torch.nn.parallel import DistributedDataParallel

    return train(DistributedDataParallel(model(device), device_ids=[device]), rank, device)


def fsdp2(rank: int, size: int, device: torch.device) -> list[float]:
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cuda", (size,), mesh_dim_names=("dp",))
    module = model(device)
    for layer in (module[0], module[2]):
        fully_shard(layer, mesh=mesh)
    return train(fully_shard(module, mesh=mesh), rank, device)


def tensor_parallel(rank: int, size: int, device: torch.device) -> list[float]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.device_mesh.init_device_mesh("cuda", (size,), mesh_dim_names=("tp",))
    module = parallelize_module(model(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(module, 0, device)


def in_turn(
    rank: int, size: int, folder: str, program: Callable[[int, int, torch.device], list[float]]
) -> list[list[float]]:
    losses = []
    for backend in BACKENDS:
        device = start(backend, rank, size, f"{folder}/{backend.replace(':', '-')}.store")
        if backend != "nccl" and MAKES_MESHES:
            rankmesh.torch.install()
        torch.manual_seed(0)
        losses.append(program(rank, size, device))
        dist.barrier()
        dist.destroy_process_group()
        if backend != "nccl" and MAKES_MESHES:
            rankmesh.torch.uninstall()
    return losses


@pytest.mark.parametrize("program", [ddp, fsdp2, tensor_parallel], ids=lambda program: program.__name__)
def test_losses_on_gpus_are_nccls_bit_by_bit(program: Any, tmp_path: Path) -> None:
    for nccl, *ours in ranks(SIZE, in_turn, tmp_path, str(tmp_path), program, initialised=False):
        assert len(set(nccl)) == STEPS
        assert ours == [nccl, nccl]


def handed_over(rank: int, size: int, store: str) -> None:
    device = start("nccl", rank, size, store)
    whole = torch.arange(48.0).view(8, 6)
    rows, columns = Sharding("dp=2", (8, 6), "0=dp"), Sharding("tp=2", (8, 6), "1=tp")
    state = {"w": whole.chunk(size)[rank].contiguous().to(device)}
    moved = rankmesh.torch.reshard(state, {"w": columns}, from_={"w": rows})
    assert moved["w"].device == device
    assert moved["w"].tolist() == whole.chunk(size, dim=1)[rank].tolist()


def test_a_state_dict_on_gpus_moves_to_another_layout(tmp_path: Path) -> None:
    ranks(SIZE, handed_over, tmp_path, str(tmp_path / "own"), initialised=False)
