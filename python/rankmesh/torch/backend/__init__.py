"""The c10d backend `rankmesh`: process groups of torch.distributed whose CPU tensors rankmesh's engines move.

>>> import rankmesh.torch  # doctest: +SKIP
>>> torch.distributed.init_process_group("cpu:rankmesh,cuda:nccl")  # doctest: +SKIP
"""

from __future__ import annotations

import torch.distributed as dist

from rankmesh.torch.backend._create import create

NAME = "rankmesh"


def register() -> None:
    """Registers the backend with c10d, once."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
