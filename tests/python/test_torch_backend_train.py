"""Models train on the backend rankmesh with the losses of Gloo: DDP, FSDP2, TP, pipelines, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rankmesh.torch  # noqa: E402, F401
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402
from torch import nn  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

torch_ranks.preload("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.checkpoint")
STEPS, WIDTH, BATCH = 6, 16, 4


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH))


def batch(step: int, rank: int) -> tuple[Any, Any]:
    seed = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, WIDTH, generator=seed), torch.randn(BATCH, WIDTH, generator=seed)


def train(module: Any, rank: int, steps: range = range(STEPS), optimizer: Any = None) -> list[float]:
    optimizer = optimizer or torch.optim.AdamW(module.parameters(), lr=1e-2)
    losses = []
    for step in steps:
        x, y = batch(step, rank)
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def mesh(size: int) -> Any:
    return dist.device_mesh.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))


def ddp(rank: int, size: int, folder: Path) -> list[float]:
    from torch.nn.parallel import DistributedDataParallel

    return train(DistributedDataParallel(model(), bucket_cap_mb=0.001), rank)


def ddp_with_unused_parameters(rank: int, size: int, folder: Path) -> list[float]:
    from torch.nn.parallel import DistributedDataParallel

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.steps = model(), model(), 0

        def forward(self, x: Any) -> Any:
            self.steps += 1
            return (self.one if (self.steps + rank) % 3 else self.other)(x)

    return train(DistributedDataParallel(Half(), find_unused_parameters=True), rank)


def ddp_with_a_compressing_hook(rank: int, size: int, folder: Path) -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel

    module = DistributedDataParallel(model())
    module.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
    return train(module, rank)


def fsdp2(rank: int, size: int, folder: Path) -> list[float]:
    from torch.distributed.fsdp import fully_shard

    module = model()
    for layer in (module[0], module[2]):
        fully_shard(layer, mesh=mesh(size))
    return train(fully_shard(module, mesh=mesh(size)), rank)


def tensor_parallel(rank: int, size: int, folder: Path) -> list[float]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = parallelize_module(model(), mesh(size), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(module, 0)


def pipeline(rank: int, size: int, folder: Path) -> list[float]:
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2 * size)]
    mine = [PipelineStage(layers[at], at, 2 * size, torch.device("cpu")) for at in (rank, size + rank)]
    schedule = ScheduleInterleaved1F1B(mine, 4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD([p for stage in mine for p in stage.submod.parameters()], lr=0.1)
    losses: list[float] = []
    for step in range(STEPS):
        x, y = batch(step, 0)
        parts: list[Any] = []
        schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": parts} if rank == size - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()
        losses += [part.item() for part in parts]
    return losses


def checkpoint(rank: int, size: int, folder: Path) -> list[float]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    def started() -> tuple[Any, Any]:
        module = fully_shard(model(), mesh=mesh(size))
        return module, torch.optim.SGD(module.parameters(), lr=0.1)

    module, optimizer = started()
    losses = train(module, rank, range(3), optimizer)
    dcp.save({"model": module.state_dict()}, checkpoint_id=folder / dist.get_backend())
    module, optimizer = started()
    state = {"model": module.state_dict()}
    dcp.load(state, checkpoint_id=folder / dist.get_backend())
    module.load_state_dict(state["model"])
    return losses + train(module, rank, range(3, STEPS), optimizer)


def both(rank: int, size: int, folder: str, program: Callable[..., list[float]]) -> list[list[float]]:
    losses = []
    for backend in ("gloo", "rankmesh"):
        store = dist.FileStore(f"{folder}/{backend}.store", size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        torch.manual_seed(0)
        losses.append(program(rank, size, Path(folder)))
        dist.barrier()
        dist.destroy_process_group()
    return losses


PROGRAMS = [ddp, ddp_with_unused_parameters, ddp_with_a_compressing_hook, fsdp2, tensor_parallel, pipeline, checkpoint]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_losses_on_two_ranks_are_gloos_bit_by_bit(program: Any, tmp_path: Path) -> None:
    for gloo, ours in torch_ranks.ranks(2, both, tmp_path, str(tmp_path), program, initialised=False):
        assert ours == gloo


@pytest.mark.parametrize("program", [ddp, fsdp2], ids=lambda program: program.__name__)
def test_losses_on_three_ranks_are_gloos_but_for_rounding(program: Any, tmp_path: Path) -> None:
    every = torch_ranks.ranks(3, both, tmp_path, str(tmp_path), program, initialised=False)
    for gloo, ours in every:
        assert ours == pytest.approx(gloo, rel=1e-5)  # a sum of three is rounded in the order of each engine
