"""AReaL's names: its topologies, grid and registry, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.areal import topology
from rankmesh.areal.topology import (
    GLOBAL_PROCESS_GROUP_REGISTRY,
    DataPipeTensorParallelTopology,
    FakeGrid,
    ParallelGrid,
    PipeDataTensorParallelTopology,
    ProcessTopology,
    decompose_to_three_factors,
    destroy_all_comm_groups,
    new_or_get_group,
)

__all__ = [
    "GLOBAL_PROCESS_GROUP_REGISTRY",
    "DataPipeTensorParallelTopology",
    "FakeGrid",
    "ParallelGrid",
    "PipeDataTensorParallelTopology",
    "ProcessTopology",
    "decompose_to_three_factors",
    "destroy_all_comm_groups",
    "install",
    "new_or_get_group",
    "topology",
]

install = installer(__name__, {"realhf.base": ["topology"]})
