"""OLMo-core's context parallel configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ContextParallelConfig:
    """How many ranks share a sequence."""

    degree: int
