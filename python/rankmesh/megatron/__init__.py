"""Megatron-core of August 2026 under its own names, over torch's groups or for any rank without a process.

>>> from rankmesh.megatron import parallel_state as mpu
>>> mpu.initialize_model_parallel(tensor_model_parallel_size=8, rank=67, world_size=65536)
>>> mpu.get_tensor_model_parallel_rank()
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankmesh._install import installer
from rankmesh.megatron import hyper_comm_grid, parallel_state
from rankmesh.megatron.hyper_comm_grid import HyperCommGrid
from rankmesh.megatron.parallel_state import RankGenerator

if TYPE_CHECKING:
    from rankmesh.megatron import process_groups_config
    from rankmesh.megatron.process_groups_config import ProcessGroupCollection

__all__ = [
    "HyperCommGrid",
    "ProcessGroupCollection",
    "RankGenerator",
    "hyper_comm_grid",
    "install",
    "parallel_state",
    "process_groups_config",
]


def __getattr__(name: str) -> Any:  # dataclasses take longer to import than all the rest
    if name in ("ProcessGroupCollection", "process_groups_config"):
        import importlib

        module = importlib.import_module("rankmesh.megatron.process_groups_config")
        return module if name == "process_groups_config" else module.ProcessGroupCollection
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


install = installer(
    __name__,
    {"megatron.core": ["parallel_state", "hyper_comm_grid", "process_groups_config"]},
    aliases={"megatron.core.mpu": "parallel_state"},
)
