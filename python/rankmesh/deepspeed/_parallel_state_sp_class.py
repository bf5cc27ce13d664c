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

from rankmesh._originals import original
from rankmesh.deepspeed._groups_class import Handle, Made, place_in, size_of

__all__: list[str] = []


class _Sequences(Made):
    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        super().__init__(rank=rank, world_size=world_size)
        self._rows = self._rows | {"raises": {"": "RuntimeError", "argument": "ValueError", "exists": "AssertionError"}}

    def _kept(self, kind: str, what: str) -> Handle:
        if (group := self._find(kind)) is None:
            raise original(AssertionError, f"{what} is not initialized", "not initialised")
        return group


class SequenceState(_Sequences):
    """What parallel_state_sp.py keeps for one rank, under its names; without `rank` and `world_size` of torch."""

    def initialize_sequence_parallel(self, sequence_parallel_size: int) -> None:
        """Makes the groups of ranks that share a sequence, and the group of all ranks, among which ZeRO shards."""
        self._make("initialize_sequence_parallel", sequence_parallel_size=sequence_parallel_size)

    def get_sequence_parallel_group(self) -> Handle:
        """The ranks that share this rank's sequence."""
        return self._kept("sequence_parallel", "sequence parallel group")

    def get_sequence_parallel_world_size(self) -> int:
        """The number of these ranks."""
        return size_of(self.get_sequence_parallel_group())

    def get_sequence_parallel_rank(self) -> int:
        """This rank's place among them."""
        return place_in(self.get_sequence_parallel_group(), self._rank()[0])

    def get_sequence_data_parallel_group(self) -> Handle:
        """The ranks among which ZeRO shards: all."""
        return self._kept("sequence_and_data", "sequence data parallel group")

    def get_sequence_data_parallel_world_size(self) -> int:
        """The number of these ranks."""
        return size_of(self.get_sequence_data_parallel_group())

    def get_sequence_data_parallel_rank(self) -> int:
        """This rank's place among them."""
        return place_in(self.get_sequence_data_parallel_group(), self._rank()[0])

    # An mpu calls these groups model parallel.
    get_model_parallel_group = get_sequence_parallel_group
    get_model_parallel_world_size = get_sequence_parallel_world_size
    get_model_parallel_rank = get_sequence_parallel_rank
