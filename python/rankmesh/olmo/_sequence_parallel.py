"""torch's style of modules on shards of a sequence, with a layout for their output. It extends a class of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor, Placement, Shard
from torch.distributed.tensor.parallel import SequenceParallel as OfTorch


class SequenceParallel(OfTorch):
    """Shards a module's input along a sequence, and lays its output out as `output_layouts` says."""

    def __init__(
        self, *, sequence_dim: int = 1, use_local_output: bool = False, output_layouts: Placement | None = None
    ) -> None:
        super().__init__(sequence_dim=sequence_dim, use_local_output=use_local_output)
        self.output_layouts = (Shard(sequence_dim) if output_layouts is None else output_layouts,)

    def _prepare_output_fn(self, local: bool, _: Any, output: DTensor, __: Any) -> torch.Tensor:  # type: ignore[override]
        if output.placements != self.output_layouts:
            output = output.redistribute(placements=self.output_layouts, async_op=True)
        return output.to_local() if local else output
