"""OLMo-core's data parallel configuration."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from rankmesh._dialects import olmo
from rankmesh._enums import StrEnum
from rankmesh._originals import raises
from rankmesh._world import world_of
from rankmesh.olmo.exceptions import kind


class DType(StrEnum):
    """The dtypes of parameters and of their reductions, as in olmo_core.config."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float8_e4m3fn = "float8_e4m3fn"
    float8_e5m2 = "float8_e5m2"

    def as_pt(self) -> Any:
        """torch's dtype of this name.

        >>> DType.bfloat16.as_pt()  # doctest: +SKIP
        torch.bfloat16
        """
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

    @raises(kind)
    def get_replicate_and_shard_degree(self, dp_world_size: int, *, num_nodes: int | None = None) -> tuple[int, int]:
        """The number of replicas and of shards: one replica a node if neither is given."""
        if self.num_replicas is None and self.shard_degree is None and num_nodes is None:
            num_nodes = olmo.num_nodes()
            if num_nodes is None:
                asked = "get_replicate_and_shard_degree without num_nodes="
                num_nodes = olmo.get_num_nodes(world_of(asked, None, None)[1])
        return olmo.get_replicate_and_shard_degree(self, dp_world_size, 1 if num_nodes is None else num_nodes)
