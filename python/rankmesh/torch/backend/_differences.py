"""The calls of the ranks of a watched group in words, and what differs between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch.distributed as dist

from rankmesh._engine import Communicator
from rankmesh._errors import PeerLost, Timeout
from rankmesh.torch._agree import classes_of, disagreement
from rankmesh.torch._errors import Disagreement
from rankmesh.torch.backend._forms import tensors_of

FROM_INPUT = ("all_gather", "allgather", "gather_single")  # calls whose output may have another size on a rank
OF_PARTS = ("reduce_scatter", "_reduce_scatter_base")  # calls whose inputs have one size in all on each rank
UNEVEN = ("alltoall", "all_to_all")  # calls whose tensors may have another size on a rank
MESSAGES = ("send", "recv", "recv_anysource")


class Made(NamedTuple):
    """A call that a rank has made. Messages have the number 0, because ranks send different ones."""

    number: int
    text: str

    def said(self, backend: str, waited: float) -> str:
        """Returns that the call has not completed, as the begin of an error."""
        what = f"call number {self.number} on {backend}, {self.text}," if self.number else f"{self.text} on {backend}"
        return f"{what} has not completed in {waited:.1f} s"

    def __str__(self) -> str:
        return f"call number {self.number}, {self.text}" if self.number else self.text


def text_of(name: str, arguments: tuple[Any, ...], on: Communicator) -> str:
    """A call as ranks must agree on it: `allreduce of 4 float32 by sum`, `broadcast of 4 float32 from 0`."""
    if name.startswith(OF_PARTS):
        tensors = tensors_of(arguments[1:2])
    else:
        tensors = tensors_of(arguments[-2:] if name.startswith(FROM_INPUT) else arguments)
    text = name
    if tensors:
        count = sum(each.numel() for each in (tensors if name.startswith(OF_PARTS) else tensors[:1]))
        size = "" if name.startswith(UNEVEN) else f"{count} "
        text += f" of {size}{str(tensors[0].dtype).removeprefix('torch.')}"
    options: Any = arguments[-1] if arguments else None
    if hasattr(options, "reduceOp"):
        text += f" by {dist.ReduceOp.RedOpType(options.reduceOp.op).name.lower()}"
    root = getattr(options, "rootRank", None)
    if name in ("send", "recv") and len(arguments) > 1:
        root = arguments[1]
    if root is not None:
        text += f" {'to' if name in ('send', 'reduce', 'gather', 'gather_single') else 'from'} {root}"
        if 0 <= root < on.size and on.world_ranks[root] != root:
            text += f" (world rank {on.world_ranks[root]})"
    return text + (f" with tag {options}" if name in MESSAGES and options else "")


def who(found: PeerLost | Timeout) -> str:
    """Returns who is lost or missing, without the barrier that has found it, and without what the missing do: only
    their calls of rankmesh are known."""
    _, is_timeout, tail = str(found).partition(": arrived ")
    if not is_timeout:
        return str(found)
    return re.sub(r"; rank \d+( \[[^]]*\])? is outside any call[^;]*", "", f"arrived {tail}")


def differing(on: Communicator, what: str, calls: Sequence[str]) -> Disagreement:
    """Returns the error that names each call with its ranks."""
    return disagreement(what, classes_of(zip(on.world_ranks, calls, strict=True)))


def difference(on: Communicator, said: str, made: Sequence[tuple[Made, list[Made]]]) -> Disagreement | None:
    """Returns the error of ranks whose calls differ; None if all are in the same call, and were so before.

    `made` has the call that each rank waits for, and its last calls.
    """
    known = [dict(last) for _, last in made]
    for number in sorted(set[int].intersection(*map(set, known))):
        if len({each[number] for each in known}) > 1:
            what = f"{said}: call number {number} on {on.label} is not the same on all its ranks"
            return differing(on, what, [each[number] for each in known])
    if len({call for call, _ in made}) == 1:
        return None
    what = f"{said}: the ranks of {on.label} wait in different calls"
    return differing(on, what, [str(call) for call, _ in made])
