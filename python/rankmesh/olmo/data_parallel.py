"""OLMo-core's data parallel configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from rankmesh._dialects import olmo
from rankmesh._enums import StrEnum
from rankmesh._errors import UsageError
from rankmesh._originals import raises
from rankmesh._world import world_of
from rankmesh.olmo.exceptions import kind


class DPMeshDimName(StrEnum):
    """The names of a mesh's data parallel dimensions."""

    replicate = "dp_replicate"
    shard = "dp_shard"


class DataParallelType(StrEnum):
    """fsdp and ddp give the same mesh; hsdp shards within replicas."""

    fsdp = "fsdp"
    hsdp = "hsdp"
    ddp = "ddp"


def _number(name: str) -> int | None:
    given = os.environ.get(name)
    try:
        return None if given is None else int(given)
    except ValueError:
        raise UsageError(f"{name} is {given!r}, which is no number") from None


def machines() -> tuple[int | None, int | None]:
    """NUM_NODES and LOCAL_WORLD_SIZE of the environment, None where they are not set."""
    return _number("NUM_NODES"), _number("LOCAL_WORLD_SIZE")


@dataclass
class DataParallelConfig:
    """Of what type data parallelism is, and how many replicas of how many shards."""

    name: DataParallelType
    param_dtype: Any = None
    reduce_dtype: Any = "float32"
    num_replicas: int | None = None
    shard_degree: int | None = None

    @raises(kind)
    def get_replicate_and_shard_degree(self, dp_world_size: int, *, num_nodes: int | None = None) -> tuple[int, int]:
        """The number of replicas and of shards: one replica a node if neither is given."""
        if self.num_replicas is None and self.shard_degree is None and num_nodes is None:
            nodes, local = machines()
            asked = "get_replicate_and_shard_degree without num_nodes="
            num_nodes = nodes if nodes is not None else olmo.get_num_nodes(None, local, world_of(asked, None, None)[1])
        return olmo.get_replicate_and_shard_degree(self, dp_world_size, 1 if num_nodes is None else num_nodes)
