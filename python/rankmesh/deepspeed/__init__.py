"""DeepSpeed's names, pure: its topologies, its grid, its groups, for any rank without a process."""

from rankmesh._install import installer
from rankmesh.deepspeed import groups, topology
from rankmesh.deepspeed.topology import (
    PipeDataParallelTopology,
    PipelineParallelGrid,
    PipeModelDataParallelTopology,
    ProcessTopology,
)

__all__ = [
    "PipeDataParallelTopology",
    "PipeModelDataParallelTopology",
    "PipelineParallelGrid",
    "ProcessTopology",
    "groups",
    "install",
    "topology",
]

install = installer(__name__, {"deepspeed.runtime.pipe": ["topology"], "deepspeed.utils": ["groups"]})
