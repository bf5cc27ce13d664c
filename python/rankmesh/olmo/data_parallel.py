"""OLMo-core's data parallel configuration, a class that programs make."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from rankmesh._enums import StrEnum
from rankmesh._world import world_of
from rankmesh.olmo.exceptions import _ask


class DType(StrEnum):
    """The dtypes of parameters and of their reductions, as in olmo_core.config."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float8_e4m3fn = "float8_e4m3fn"
    float8_e5m2 = "float8_e5m2"

    def as_pt(self) -> Any:
        """torch's dtype of this name."""
        return getattr(importlib.import_module("torch"), self.value)


class DPMeshDimName(StrEnum):
    """The names of a mesh's data parallel dimensions."""

    replicate = "dp_replicate"
    shard = "dp_shard"


class DataParallelType(StrEnum):
    """fsdp and ddp give the same mesh; hsdp shards within replicas."""

    fsdp = "fsdp"
    hsdp = "hsdp"
    ddp = "ddp"


@dataclass
class DataParallelConfig:
    """Of what type data parallelism is, and how many replicas of how many shards."""

    name: DataParallelType
    param_dtype: DType | None = None
    reduce_dtype: DType = DType.float32
    num_replicas: int | None = None
    shard_degree: int | None = None

    def get_replicate_and_shard_degree(self, dp_world_size: int, *, num_nodes: int | None = None) -> tuple[int, int]:
        """The number of replicas and of shards: one replica a node if neither is given."""
        given = {"num_replicas": self.num_replicas, "shard_degree": self.shard_degree, "num_nodes": num_nodes}
        place = None
        if not any(each is not None for each in given.values()) and "NUM_NODES" not in os.environ:
            place = world_of("get_replicate_and_shard_degree without num_nodes=", None, None)
        replicas, shards = _ask("get_replicate_and_shard_degree", place, dp_world_size=dp_world_size, **given)
        return replicas, shards
