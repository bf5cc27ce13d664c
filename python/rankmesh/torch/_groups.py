"""One process group of torch, made by its members only, under a name that they all know."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._errors import UsageError

_naming = threading.Lock()


@contextlib.contextmanager
def _named(name: str, default: dist.ProcessGroup) -> Iterator[None]:
    """While it lasts, torch calls a new group by this name, and makes it without the ranks that are not in it.

    Torch's own name for a group that only its members make counts the groups that this rank has. Members that differ in
    that count would wait for each other under different names, and a name comes again after a group was destroyed.
    A default group that is bound to a device has new groups split from it, for which NCCL needs all of its ranks.
    """
    with _naming:
        of_torch, device = c10d._process_group_name, default.bound_device_id
        setattr(c10d, "_process_group_name", lambda *args, **options: name)  # noqa: B010 (mypy: it is a function)
        if device is not None:
            default.bound_device_id = None
        try:
            yield
        finally:
            setattr(c10d, "_process_group_name", of_torch)  # noqa: B010
            if device is not None:
                default.bound_device_id = device


def new_group(
    name: str,
    description: str,
    ranks: Sequence[int],
    *,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
) -> dist.ProcessGroup:
    """The group of these ranks in this order; each of them calls it, and no other rank does."""
    order: dict[str, Any] = {}
    if list(ranks) != sorted(ranks):
        if "sort_ranks" not in inspect.signature(dist.new_group).parameters:
            raise UsageError(
                f"the ranks {list(ranks)} of '{description}' do not ascend, and new_group of PyTorch "
                f"{torch.__version__} sorts them; a newer one has sort_ranks"
            )
        order["sort_ranks"] = False
    with _named(name, c10d._get_default_group()):
        group = dist.new_group(
            list(ranks),
            timeout=timeout,
            backend=backend,
            pg_options=pg_options,
            use_local_synchronization=True,
            group_desc=description,
            **order,
        )
    assert isinstance(group, dist.ProcessGroup)
    return group


def is_made_with(group: dist.ProcessGroup, timeout: datetime.timedelta | None, backend: str | None) -> bool:
    """True if a new group with this timeout and backend, where they are given, would be as this one."""
    if backend not in (None, dist.get_backend(group)):
        return False
    if timeout is None:
        return True
    options = (group._get_backend(each).options for each in group._device_types)  # the fake backend has none
    return all(getattr(each, "_timeout", None) == timeout for each in options)


def is_on_host(group: dist.ProcessGroup) -> bool:
    """True if a group takes tensors in the memory of the host."""
    return any(device.type == "cpu" for device in group._device_types)
