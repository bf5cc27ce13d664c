"""Experts over the ranks of the dense layers: torchrun --nproc-per-node 4 moe.py"""

import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Declaration

with rankmesh.torch.init(Declaration("dp=* tp=2", name="dense"), Declaration("edp=* ep=2", name="expert")) as me:
    dense, expert = me["dense"], me["expert"]
    tokens = 10.0 * me.rank + torch.arange(2)  # token i is for expert i
    routed = torch.empty(2)
    dist.all_to_all_single(routed, tokens, group=expert.group("ep"))
    routed += 0.5 * expert.at("ep")  # the expert's work
    dist.all_to_all_single(tokens, routed, group=expert.group("ep"))

    gradient = torch.ones(1)
    dist.all_reduce(gradient, group=expert.group("edp"))  # of an expert; those of dense layers: dense.group("dp")
    if me.rank == 3:
        print(f"rank 3 is {dense.prefix} and {expert.prefix}, its tokens {tokens.tolist()}")
    dist.barrier()
