"""batch_isend_irecv for groups of the backend, whose tensors of a device another backend moves.

Before 2.14, torch lets a backend group the messages of a batch for its own type of process group only. Ungrouped
messages in both directions wait for each other on NCCL.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch.backend._mixed import MixedGroup
from rankmesh.torch.backend._watched import WatchedGroup

_torchs = c10d.batch_isend_irecv


@functools.wraps(_torchs)
def _batch_isend_irecv(p2p_op_list: list[dist.P2POp]) -> list[dist.Work]:
    first = p2p_op_list[0] if p2p_op_list else None
    group: Any = getattr(first, "group", None) or dist.group.WORLD
    if first is None or first.tensor.device.type == "cpu" or not isinstance(group, MixedGroup | WatchedGroup):
        return _torchs(p2p_op_list)
    device = first.tensor.device
    inner = group.inner(device)
    moved = [dist.P2POp(op.op, op.tensor, group=inner, tag=op.tag, group_peer=op.group_peer) for op in p2p_op_list]
    works = _torchs(moved)
    if isinstance(group, WatchedGroup):
        return group.watched(works, f"batch_isend_irecv of {len(moved)} messages", device)
    return works


def install() -> None:
    """Puts the function in the place of torch's, which it calls for all other groups."""
    dist.batch_isend_irecv = c10d.batch_isend_irecv = _batch_isend_irecv
