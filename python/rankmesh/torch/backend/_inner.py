"""Process groups of torch's own class, which carry out calls of a process group of rankmesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch._compat import tables
from rankmesh.torch._gloo import wait_until_connected

_OLDER = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""Names before PyTorch 2.13."""


def method(group: dist.ProcessGroup, name: str) -> Callable[..., Any]:
    """Returns a method of torch's group."""
    return getattr(group, name if hasattr(group, name) else _OLDER.get(name, name))  # type: ignore[no-any-return]


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
    tables.pg_group_ranks[made] = {rank: i for i, rank in enumerate(ranks)}
    wait_until_connected(made)
    return made


def destroy(group: dist.ProcessGroup) -> None:
    """Destroys an inner group, unless torch has done so."""
    if group in tables.pg_map:
        dist.destroy_process_group(group)
