"""An mpu for DeepSpeed over the process groups of a plan. By hand: it has no original, and keeps a program's member."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from rankmesh.deepspeed._groups_class import place_in, size_of

if TYPE_CHECKING:
    from rankmesh.torch import Member

Axes: TypeAlias = "str | Iterable[str]"


class mpu:  # noqa: N801 (what DeepSpeed calls it)
    """What DeepSpeed takes as `mpu`: the groups that `rankmesh.torch.init` has made, along these axes of its plan.

    The model parallel group is along `tensor` and `pipe`, that of ZeRO with `sequence` parallelism along `sequence` and
    `data`; sets of several axes must be declared.

        me = rankmesh.torch.init("pp=2 dp=* tp=2", over=[("pp", "tp")])
        deepspeed.initialize(model=model, mpu=rankmesh.deepspeed.mpu(me, pipe="pp"), ...)

    It has the names that DeepSpeed asks for: `get_data_parallel_group()`, its `world_size` and `rank`, and the same of
    model, tensor_model, slice, pipeline_model and pipe. With sequence parallelism also of sequence and sequence_data,
    by whose names DeepSpeed recognises it.
    """

    def __init__(
        self, member: Member, *, data: Axes = "dp", tensor: Axes = "tp", pipe: Axes = (), sequence: Axes = ()
    ) -> None:
        dp, tp, pp, sp = ([it] if isinstance(it, str) else list(it) for it in (data, tensor, pipe, sequence))
        self._member, self._data, self._tensor = member, dp, tp
        kinds = {"data": dp, "model": tp + pp, "tensor_model": tp, "slice": tp}
        if sp:
            kinds |= {"sequence": sp, "sequence_data": sp + dp}
        for name, axes in (kinds | {"pipeline_model": pp, "pipe": pp}).items():
            group = partial(member.group, *axes) if axes or name in kinds else lambda: None
            group()  # what was not declared is said here, and not in the middle of a training
            setattr(self, f"get_{name}_parallel_group", group)
            setattr(self, f"get_{name}_parallel_world_size", lambda group=group: size_of(group()))
            setattr(self, f"get_{name}_parallel_rank", lambda group=group: place_in(group(), member.rank))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def get_global_rank(self) -> int:
        """This process's rank in the world."""
        return self._member.rank

    def get_data_parallel_group_ranks(self) -> list[int]:
        """The list of the ranks that read different data."""
        return list(self._member.ranks(*self._data))

    def get_tensor_model_parallel_src_rank(self) -> int:
        """The first of the ranks that share this rank's tensors."""
        return self._member.ranks(*self._tensor)[0]
