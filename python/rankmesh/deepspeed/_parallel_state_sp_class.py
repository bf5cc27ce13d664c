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

from collections.abc import Callable
from typing import Any

from rankmesh import _deepspeed_groups as _rows
from rankmesh.deepspeed._groups_class import Made

__all__: list[str] = []


def _of_row(name: str) -> Callable[[SequenceState], Any]:
    """Makes a function of a row `__NAME`, which raises other errors than groups.py's `_NAME`."""

    def ask(self: SequenceState) -> Any:
        return self._ask(f"__{name}")

    ask.__doc__ = getattr(_rows.Answers, f"_{name}").__doc__
    return ask


class SequenceState(Made):
    """What parallel_state_sp.py keeps for one rank, under its names; without `rank` and `world_size` of torch."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        super().__init__(rank=rank, world_size=world_size)
        asserted = dict.fromkeys(("exists", "not initialised"), "AssertionError")
        self._rows = self._rows | {"raises": {"": "RuntimeError", "argument": "ValueError", **asserted}}

    def initialize_sequence_parallel(self, sequence_parallel_size: int) -> None:
        """Makes the groups of ranks that share a sequence, and the group of all ranks, among which ZeRO shards."""
        self._make("initialize_sequence_parallel", sequence_parallel_size=sequence_parallel_size)

    # An mpu calls the groups that share a sequence model parallel.
    get_sequence_parallel_group = get_model_parallel_group = _of_row("get_sequence_parallel_group")
    get_sequence_parallel_world_size = get_model_parallel_world_size = _of_row("get_sequence_parallel_world_size")
    get_sequence_parallel_rank = get_model_parallel_rank = _of_row("get_sequence_parallel_rank")
    get_sequence_data_parallel_group = _of_row("get_sequence_data_parallel_group")
    get_sequence_data_parallel_world_size = _of_row("get_sequence_data_parallel_world_size")
    get_sequence_data_parallel_rank = _of_row("get_sequence_data_parallel_rank")
