"""DeepSpeed's runtime/sequence_parallel/parallel_state_sp.py: the sequence-parallel groups of ALST.

The functions ask `current`, whose groups are torch's where torch.distributed is initialised, and this module is an
`mpu` for `deepspeed.initialize`. A SequenceState of its own answers for any rank, without a process:

>>> of_rank = SequenceState(rank=5, world_size=8)
>>> of_rank.initialize_sequence_parallel(4)
>>> of_rank.get_sequence_parallel_group()
Group('{4..7}')
"""

# By hand: the module itself is an mpu, and its groups are those that Made keeps.
from __future__ import annotations

from rankmesh._connected import group_methods
from rankmesh._originals import raises
from rankmesh.deepspeed._groups_class import Made

__all__: list[str] = []


class SequenceState(Made):
    """What parallel_state_sp.py keeps for one rank, under its names; without `rank` and `world_size` of torch."""

    @raises(RuntimeError, argument=ValueError, exists=AssertionError)
    def initialize_sequence_parallel(self, sequence_parallel_size: int) -> None:
        """Makes the groups of ranks that share a sequence, and the group of all ranks, among which ZeRO shards."""
        self._make("initialize_sequence_parallel", sequence_parallel_size=sequence_parallel_size)

    get_sequence_parallel_group, get_sequence_parallel_world_size, get_sequence_parallel_rank = group_methods(
        lambda self: self._group("sequence_parallel", "sequence parallel group"),
        "The ranks that share this rank's sequence.",
    )
    get_sequence_data_parallel_group, get_sequence_data_parallel_world_size, get_sequence_data_parallel_rank = (
        group_methods(
            lambda self: self._group("sequence_and_data", "sequence data parallel group"),
            "The ranks among which ZeRO shards: all.",
        )
    )

    # An mpu calls these groups model parallel.
    get_model_parallel_group = get_sequence_parallel_group
    get_model_parallel_world_size = get_sequence_parallel_world_size
    get_model_parallel_rank = get_sequence_parallel_rank
