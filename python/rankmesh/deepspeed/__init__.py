"""DeepSpeed's names: its topologies, grid and groups, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.deepspeed import groups as groups
from rankmesh.deepspeed import parallel_state_sp as parallel_state_sp
from rankmesh.deepspeed import topology as topology
from rankmesh.deepspeed._mpu import mpu as mpu
from rankmesh.deepspeed.topology import PipeDataParallelTopology as PipeDataParallelTopology
from rankmesh.deepspeed.topology import PipelineParallelGrid as PipelineParallelGrid
from rankmesh.deepspeed.topology import PipeModelDataParallelTopology as PipeModelDataParallelTopology
from rankmesh.deepspeed.topology import ProcessTopology as ProcessTopology

install = installer(
    __name__,
    {
        "deepspeed.runtime.pipe": ["topology"],
        "deepspeed.runtime.sequence_parallel": ["parallel_state_sp"],
        "deepspeed.utils": ["groups"],
    },
)
