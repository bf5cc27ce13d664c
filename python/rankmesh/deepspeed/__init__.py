"""DeepSpeed's names: its topologies, grid and groups, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.deepspeed import groups, topology
from rankmesh.deepspeed._mpu import mpu
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
    "mpu",
    "topology",
]

install = installer(__name__, {"deepspeed.runtime.pipe": ["topology"], "deepspeed.utils": ["groups"]})
