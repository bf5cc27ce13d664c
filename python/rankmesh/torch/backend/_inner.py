"""Process groups of torch that carry out the calls of a process group of rankmesh."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch._gloo import wait_until_connected

CALLS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "broadcast",
    "allgather",
    "allgather_coalesced",
    "all_gather_single",
    "all_gather_single_coalesced",
    "gather",
    "gather_single",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "all_to_all_single",
    "alltoall",
    "barrier",
    "send",
    "recv",
    "recv_anysource",
    "_allgather_base",
    "allgather_into_tensor_coalesced",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "alltoall_base",
)
"""What a process group is called for."""


class Coalescing:
    """Process groups whose coalesced calls on a device are those of an inner group.

    PyTorch 2.14 also aborts groups in such a region, and ends it after them.
    """

    _coalesced: dist.ProcessGroup

    def inner(self, device: torch.device) -> dist.ProcessGroup:
        """Returns the process group that moves the tensors of a device."""
        raise NotImplementedError

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = self.inner(device)
        self._coalesced._start_coalescing(device)

    def _end_coalescing(self, device: torch.device) -> Work:
        return self._coalesced._end_coalescing(device)


def inner_group(options: Any, backend: str) -> dist.ProcessGroup:
    """Makes torch's process group of the same ranks on another backend, such as `cuda:nccl`. All its ranks call it."""
    made, _ = c10d._new_process_group_helper(
        options.group_size,
        options.group_rank,
        options.global_ranks_in_group,
        backend,
        options.store,
        c10d.GroupName(f"{options.group_id}/{backend}"),
        timeout=options.timeout,
        group_desc=f"{backend} beneath rankmesh",
    )
    assert isinstance(made, dist.ProcessGroup)
    ranks = options.global_ranks_in_group or range(options.group_size)
    c10d._world.pg_group_ranks[made] = {rank: i for i, rank in enumerate(ranks)}
    wait_until_connected(made)
    return made


def destroy(group: dist.ProcessGroup) -> None:
    """Destroys an inner group, unless torch has done so."""
    if group in c10d._world.pg_map:
        dist.destroy_process_group(group)
