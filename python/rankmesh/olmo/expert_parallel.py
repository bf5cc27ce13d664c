"""OLMo-core's expert parallel configuration, a class that programs make."""

from dataclasses import dataclass


@dataclass
class ExpertParallelConfig:
    """Over how many ranks experts are sharded; a negative degree stands for as many as there are."""

    degree: int
