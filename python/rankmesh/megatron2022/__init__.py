"""Megatron-core of October 2022, vLLM's first parallel_state, over torch's groups or for any rank without a process.

>>> from rankmesh.megatron2022 import parallel_state as mpu
>>> mpu.initialize_model_parallel(2, 4, rank=5, world_size=16)
>>> mpu.get_pipeline_model_parallel_group()
Group('{1, 5, 9, 13}')
"""

from rankmesh._install import installer
from rankmesh.megatron2022 import parallel_state

__all__ = ["install", "parallel_state"]

install = installer(__name__, {"vllm.model_executor.parallel_utils": ["parallel_state"]})
