"""An mpu for DeepSpeed over the process groups of a plan. By hand: it has no original, and keeps a program's member."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from rankmesh._connected import OfGroups, group_methods

if TYPE_CHECKING:
    import torch.distributed as dist

    from rankmesh.torch import Member

Axes: TypeAlias = "str | Iterable[str]"


def mpu(
    member: Member, *, data: Axes = "dp", tensor: Axes = "tp", pipe: Axes = (), sequence: Axes = ()
) -> ModelParallelUnit:
    """What DeepSpeed takes as `mpu`: the groups that `rankmesh.torch.init` has made, along these axes of its plan.

    The model parallel group is along `tensor` and `pipe`, that of ZeRO with `sequence` parallelism along `sequence` and
    `data`; sets of several axes must be declared.

        me = rankmesh.torch.init("pp=2 dp=* tp=2", over=[("pp", "tp")])
        deepspeed.initialize(model=model, mpu=rankmesh.deepspeed.mpu(me, pipe="pp"), ...)
    """
    given = {"data": data, "tensor": tensor, "pipe": pipe, "sequence": sequence}
    axes = {kind: (names,) if isinstance(names, str) else tuple(names) for kind, names in given.items()}
    return (SequenceParallelUnit if axes["sequence"] else ModelParallelUnit)(member, axes)


def _group_of(*kinds: str) -> Callable[[Any], dist.ProcessGroup]:
    return lambda unit: unit._group(*kinds)


def _pipeline(unit: Any) -> dist.ProcessGroup | None:
    return unit._group("pipe") if unit._axes["pipe"] else None


class ModelParallelUnit(OfGroups):
    """The groups of a plan under the names that DeepSpeed asks an mpu for."""

    _kinds: ClassVar[tuple[tuple[str, ...], ...]] = (("data",), ("tensor",), ("tensor", "pipe"), ("pipe",))
    """Its groups, by the axes that they are along."""

    def __init__(self, member: Member, axes: dict[str, tuple[str, ...]]) -> None:
        self._member, self._axes = member, axes
        for kinds in self._kinds:  # what was not declared is said here, and not in the middle of a training
            if kinds != ("pipe",) or axes["pipe"]:
                self._group(*kinds)

    def _along(self, *kinds: str) -> tuple[str, ...]:
        return tuple(axis for kind in kinds for axis in self._axes[kind])

    def _group(self, *kinds: str) -> dist.ProcessGroup:
        return self._member.group(*self._along(*kinds))

    def _rank(self) -> tuple[int, int]:
        return self._member.rank, self._member.mesh.size

    def get_global_rank(self) -> int:
        """This process's rank in the world."""
        return self._member.rank

    def get_data_parallel_group_ranks(self) -> list[int]:
        """The list of the ranks that read different data."""
        return list(self._member.ranks(*self._along("data")))

    def get_tensor_model_parallel_src_rank(self) -> int:
        """The first of the ranks that share this rank's tensors."""
        return self._member.ranks(*self._along("tensor"))[0]

    get_data_parallel_group, get_data_parallel_world_size, get_data_parallel_rank = group_methods(
        _group_of("data"), "The ranks that read different data."
    )
    get_model_parallel_group, get_model_parallel_world_size, get_model_parallel_rank = group_methods(
        _group_of("tensor", "pipe"), "The ranks of one replica of the model."
    )
    get_tensor_model_parallel_group, get_tensor_model_parallel_world_size, get_tensor_model_parallel_rank = (
        group_methods(_group_of("tensor"), "The ranks that share this rank's tensors.")
    )
    get_pipeline_model_parallel_group, get_pipeline_model_parallel_world_size, get_pipeline_model_parallel_rank = (
        group_methods(_pipeline, "This rank's pipeline; None without an axis of stages.")
    )
    get_pipe_parallel_group = get_pipeline_model_parallel_group
    get_pipe_parallel_world_size = get_pipeline_model_parallel_world_size
    get_pipe_parallel_rank = get_pipeline_model_parallel_rank
    get_slice_parallel_group = get_tensor_model_parallel_group
    get_slice_parallel_world_size = get_tensor_model_parallel_world_size
    get_slice_parallel_rank = get_tensor_model_parallel_rank


class SequenceParallelUnit(ModelParallelUnit):
    """The same with sequence parallelism, which DeepSpeed recognises by these names."""

    _kinds = (*ModelParallelUnit._kinds, ("sequence",), ("sequence", "data"))

    get_sequence_parallel_group, get_sequence_parallel_world_size, get_sequence_parallel_rank = group_methods(
        _group_of("sequence"), "The ranks that share this rank's sequence."
    )
    get_sequence_data_parallel_group, get_sequence_data_parallel_world_size, get_sequence_data_parallel_rank = (
        group_methods(_group_of("sequence", "data"), "The ranks among which ZeRO shards.")
    )
