"""Batches of torch: batch_isend_irecv and _coalescing_manager.

Before 2.14, torch lets a backend group the messages of a batch for its own type of process group only. Ungrouped
messages in both directions wait for each other on NCCL.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch._compat import default_group, tables
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._watched import WatchedGroup

_torchs: Callable[[list[dist.P2POp]], list[dist.Work]] = c10d.batch_isend_irecv
_torchs_coalescing: Any = c10d._coalescing_manager.__wrapped__  # type: ignore[attr-defined]


@functools.wraps(_torchs)
def _batch_isend_irecv(p2p_op_list: list[dist.P2POp]) -> list[dist.Work]:
    first = p2p_op_list[0] if isinstance(p2p_op_list, list) and p2p_op_list else None
    if not isinstance(first, dist.P2POp) or first.tensor.device.type == "cpu":
        return _torchs(p2p_op_list)
    device, group = first.tensor.device, first.group or dist.group.WORLD
    if not isinstance(group, ProcessGroup):
        return _torchs(p2p_op_list)
    inner = group.inner(device)
    moved = [dist.P2POp(op.op, op.tensor, group=inner, tag=op.tag, group_peer=op.group_peer) for op in p2p_op_list]
    works = _torchs(moved)
    if isinstance(group, WatchedGroup):
        return group.watched(works, f"batch_isend_irecv of {len(moved)} messages", device)
    return works


def _coalescing(
    group: dist.ProcessGroup | None = None, device: torch.device | None = None, async_ops: bool = False
) -> Iterator[Any]:
    """torch's generator, but what it has begun ends if something raises.

    torch's own leaves its list of calls, and later calls of the group are appended to that list and never made.
    """
    group = group or default_group()
    calls = tables.pg_coalesce_state
    is_inside = group in calls
    steps = _torchs_coalescing(group, device, async_ops)
    try:
        manager = next(steps)
        try:
            yield manager
            next(steps, None)
        except BaseException:
            if device is not None:
                with contextlib.suppress(Exception):  # torch has ended it, or the backend refuses
                    group._end_coalescing(device)
            raise
    finally:
        if not is_inside:
            calls.pop(group, None)


def install() -> None:
    """Puts the functions in the place of torch's, which they call."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    if functional is not None:  # else it finds our function; compiled functions then have its functional collective
        remaps = functional.traceable_collective_remaps
        if _torchs in remaps:
            remaps[_batch_isend_irecv] = remaps[_torchs]
    dist.batch_isend_irecv = c10d.batch_isend_irecv = _batch_isend_irecv
    for cell in c10d._coalescing_manager.__closure__ or ():  # other modules have imported the name
        if cell.cell_contents is _torchs_coalescing:
            cell.cell_contents = _coalescing
