"""DeepSpeed's names: its topologies, grid and groups, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.deepspeed import auto_ep_folding, groups, parallel_state_sp, topology
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
    "auto_ep_folding",
    "groups",
    "install",
    "mpu",
    "parallel_state_sp",
    "topology",
]

install = installer(
    __name__,
    {
        "deepspeed.runtime.pipe": ["topology"],
        "deepspeed.runtime.sequence_parallel": ["parallel_state_sp"],
        "deepspeed.utils": ["groups"],
    },
)
