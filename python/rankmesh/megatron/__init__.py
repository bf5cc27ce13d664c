"""Megatron-core of August 2026 under its own names, over torch's groups or for any rank without a process.

>>> from rankmesh.megatron import parallel_state as mpu
>>> mpu.initialize_model_parallel(tensor_model_parallel_size=8, rank=67, world_size=65536)
>>> mpu.get_tensor_model_parallel_rank()
3
"""

from rankmesh._install import installer
from rankmesh.megatron import parallel_state
from rankmesh.megatron.parallel_state import RankGenerator

__all__ = ["RankGenerator", "install", "parallel_state"]

install = installer(__name__, {"megatron.core": ["parallel_state"]}, aliases={"megatron.core.mpu": "parallel_state"})
