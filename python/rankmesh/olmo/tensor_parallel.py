"""OLMo-core's tensor parallel configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class TensorParallelConfig:
    """How many ranks share a tensor."""

    degree: int
    enable_async: bool = False
