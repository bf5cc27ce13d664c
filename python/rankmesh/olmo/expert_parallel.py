"""OLMo-core's expert parallel configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ExpertParallelConfig:
    """Over how many ranks experts are sharded; a negative degree stands for as many as there are."""

    degree: int
