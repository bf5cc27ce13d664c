"""OLMo-core's tensor parallel configuration, and its style of modules whose output is laid out again.

By hand, because programs make and extend these classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class TensorParallelConfig:
    """How many ranks share a tensor."""

    degree: int
    enable_async: bool = False

    def maybe_enable_async_tp(self, tp_mesh: Any) -> None:
        """Has torch's compiler overlap the group's communication with products of matrices, where that is enabled."""
        if not self.enable_async:
            return
        import torch._inductor.config
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group

        torch._inductor.config._micro_pipeline_tp = True
        enable_symm_mem_for_group(tp_mesh.get_group().group_name)


def __getattr__(name: str) -> Any:
    if name == "SequenceParallel":  # a class of torch's, which this module does without until then
        from rankmesh.olmo._sequence_parallel import SequenceParallel

        return SequenceParallel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
