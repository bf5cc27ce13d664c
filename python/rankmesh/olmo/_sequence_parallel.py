"""torch's style of modules that work on shards of a sequence, with a layout of its own for their output."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Shard, distribute_module
from torch.distributed.tensor.parallel import SequenceParallel as OfTorch


class SequenceParallel(OfTorch):
    """Shards a module's input along a sequence, and lays its output out as `output_layouts` says."""

    def __init__(
        self, *, sequence_dim: int = 1, use_local_output: bool = False, output_layouts: Placement | None = None
    ) -> None:
        super().__init__(sequence_dim=sequence_dim, use_local_output=use_local_output)
        self.output_layouts = (Shard(sequence_dim) if output_layouts is None else output_layouts,)

    @staticmethod
    def _lay_out(layouts: tuple[Placement, ...], local: bool, _: Any, output: DTensor, __: DeviceMesh) -> torch.Tensor:
        if output.placements != layouts:
            output = output.redistribute(placements=layouts, async_op=True)
        return output.to_local() if local else output

    def _apply(self, module: torch.nn.Module, device_mesh: DeviceMesh) -> torch.nn.Module:
        return distribute_module(
            module,
            device_mesh,
            self._replicate_module_fn,
            functools.partial(self._prepare_input_fn, self.sequence_sharding),
            functools.partial(self._lay_out, self.output_layouts, self.use_local_output),  # type: ignore[arg-type]
        )
