"""FSDP and tensor parallelism from one declaration: torchrun --nproc-per-node 4 fsdp_tp.py"""

import rankmesh.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

with rankmesh.torch.init("dp=* tp=2") as me:
    mesh, dp = me.device_mesh(), me.group("dp")  # torch's own, for this declaration
    torch.manual_seed(0)  # every rank begins with the same weights
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    for step in range(4):
        inputs = torch.randn(32, 16, generator=torch.Generator().manual_seed(step))
        inputs = inputs.chunk(dp.size())[dp.rank()]  # ranks along tp see the same samples
        loss = (model(inputs) - inputs.mean(dim=1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

        total = loss.detach() / dp.size()
        dist.all_reduce(total, group=dp)
        if me.rank == 0:
            print(f"{me.mesh.text}, step {step}: loss {total.item():.4f}", flush=True)
    dist.barrier()
