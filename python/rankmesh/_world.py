"""The rank and the size of the world."""

from __future__ import annotations

import sys

from rankmesh._errors import UsageError


def of_torch() -> tuple[int, int] | None:
    """Returns rank and size of torch.distributed's world if it is initialised. Never imports torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def world_of(what: str, rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Returns the given rank and size of the world, else those of torch.distributed if it is initialised."""
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise UsageError(f"{what} was given {given} alone; give {missing} as well")
    if (torch := of_torch()) is not None:
        return torch
    raise no_rank(what, "rank= and world_size=")


def no_rank(what: str, arguments: str) -> UsageError:
    """Returns the error of a call that needs a rank, where neither arguments nor torch.distributed give one."""
    return UsageError(
        f"{what} does not know which rank asks: give {arguments}, which needs no process, "
        "or call torch.distributed.init_process_group first"
    )
