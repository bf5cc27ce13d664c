"""The c10d backend `rankmesh`: process groups of torch.distributed whose CPU tensors rankmesh's engines move.

>>> import rankmesh.torch  # doctest: +SKIP
>>> torch.distributed.init_process_group("cpu:rankmesh,cuda:nccl")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch.distributed as dist

from rankmesh.torch.backend._create import create
from rankmesh.torch.backend._process_group import ProcessGroup

NAME = "rankmesh"


def register() -> None:
    """Registers the backend with c10d, once."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])


def locate(where: Callable[[Iterable[int]], str]) -> None:
    """Makes errors of the backend end with the coordinates of the ranks that they name, as `where` writes them."""
    default = dist.group.WORLD
    if isinstance(default, ProcessGroup):
        default.engine.where = where
