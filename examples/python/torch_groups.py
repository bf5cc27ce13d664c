"""Data and tensor parallelism of one plan: torchrun --nproc-per-node 4 torch_groups.py"""

import rankmesh.torch
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

with rankmesh.torch.init("dp=* tp=2", over=[("dp", "tp")]) as me:
    # A layer whose columns are dealt out along tp: each rank multiplies by its own, and the outputs are gathered.
    torch.manual_seed(0)
    inputs, weight = torch.randn(4, 8), torch.randn(8, 6)
    columns = weight.chunk(2, dim=1)[me.at("tp")]
    parts = [torch.empty(4, 3) for _ in me.ranks("tp")]
    dist.all_gather(parts, inputs @ columns, group=me.group("tp"))
    assert torch.allclose(torch.cat(parts, dim=1), inputs @ weight, atol=1e-5)

    # FSDP along dp, on torch's own DeviceMesh: its groups are those above, and no others are made.
    mesh = me.device_mesh()
    assert mesh["dp"].get_group() is me.group("dp")
    assert mesh["dp", "tp"]._flatten().get_group() is me.group("dp", "tp")
    layer = fully_shard(torch.nn.Linear(8, 6), mesh=mesh["dp"])
    loss = layer(inputs).square().mean()
    loss.backward()

    dist.all_reduce(loss.detach(), op=dist.ReduceOp.SUM, group=me.group("dp", "tp"))
    if me.is_first("dp") and me.is_first("tp"):
        print(f"{me.mesh.text}: rank {me.rank} is {me.prefix}, its peers along dp are {me.ranks('dp')}")
    dist.barrier()
