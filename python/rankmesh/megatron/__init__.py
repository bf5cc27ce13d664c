"""Megatron-core of August 2026 under its own names, over torch's groups or for any rank without a process.

>>> from rankmesh.megatron import parallel_state as mpu
>>> mpu.initialize_model_parallel(tensor_model_parallel_size=8, rank=67, world_size=65536)
>>> mpu.get_tensor_model_parallel_rank()
3
"""

from rankmesh._install import installer
from rankmesh.megatron import hyper_comm_grid, parallel_state
from rankmesh.megatron.hyper_comm_grid import HyperCommGrid
from rankmesh.megatron.parallel_state import RankGenerator

__all__ = ["HyperCommGrid", "RankGenerator", "hyper_comm_grid", "install", "parallel_state"]

install = installer(
    __name__, {"megatron.core": ["parallel_state", "hyper_comm_grid"]}, aliases={"megatron.core.mpu": "parallel_state"}
)
