"""AReaL's names: its topologies, grid and registry, over torch's groups or for any rank without a process."""

from rankmesh._install import installer
from rankmesh.areal import topology as topology
from rankmesh.areal.topology import GLOBAL_PROCESS_GROUP_REGISTRY as GLOBAL_PROCESS_GROUP_REGISTRY
from rankmesh.areal.topology import DataPipeTensorParallelTopology as DataPipeTensorParallelTopology
from rankmesh.areal.topology import FakeGrid as FakeGrid
from rankmesh.areal.topology import ParallelGrid as ParallelGrid
from rankmesh.areal.topology import PipeDataTensorParallelTopology as PipeDataTensorParallelTopology
from rankmesh.areal.topology import ProcessTopology as ProcessTopology
from rankmesh.areal.topology import decompose_to_three_factors as decompose_to_three_factors
from rankmesh.areal.topology import destroy_all_comm_groups as destroy_all_comm_groups
from rankmesh.areal.topology import new_or_get_group as new_or_get_group

install = installer(__name__, {"realhf.base": ["topology"]})
