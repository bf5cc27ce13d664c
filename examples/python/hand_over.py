"""Weights from two trainers with FSDP to two rollout ranks: torchrun --nproc-per-node 4 hand_over.py"""

from collections import OrderedDict

import rankmesh.torch
import torch
from rankmesh import Declaration, Sharding
from rankmesh.torch import Fused, reshard
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
layers = {"qkv": torch.nn.Linear(8, 16, bias=False), "out": torch.nn.Linear(8, 8, bias=False)}
model = torch.nn.Sequential(OrderedDict(layers))  # qkv: 8 rows of queries, 4 of keys, 4 of values
whole = {name: layer.weight.detach().clone() for name, layer in layers.items()}

trainer = Declaration("dp=2", name="trainer", partial=True)
rollout = Declaration("tp=2 @2", name="rollout", partial=True)
with rankmesh.torch.init(trainer, rollout) as me:
    trains = me["trainer"].inside
    state = fully_shard(model, mesh=me["trainer"].device_mesh()).state_dict() if trains else {}

    # The trainers' tensor has all queries, then all keys and values. FSDP cuts it anywhere.
    from_ = {"qkv.weight": Fused({"q": 8, "k": 4, "v": 4})} if trains else {}
    # A rollout rank has its own queries, keys and values, and its own columns of the output.
    qkv = {part: Sharding("tp=2 @2", (rows, 8), "0=tp") for part, rows in (("q", 8), ("k", 4), ("v", 4))}
    to = {"qkv_proj": Fused(qkv), "out.weight": Sharding("tp=2 @2", (8, 8), "1=tp")}
    weights = reshard(state, to, from_=from_)

    if not trains:
        at = me["rollout"].at("tp")
        parts = [part.chunk(2)[at] for part in whole["qkv"].split([8, 4, 4])]
        assert torch.equal(weights["qkv_proj"], torch.cat(parts))
        assert torch.equal(weights["out.weight"], whole["out"].chunk(2, dim=1)[at])
        print(f"rank {me.rank} has", {name: list(weight.shape) for name, weight in weights.items()})
