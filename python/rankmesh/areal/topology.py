"""AReaL's base/topology.py: one model on pipe, data and tensor, over all or some ranks of the world."""

from __future__ import annotations

import datetime
import functools
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from rankmesh._core import Group
from rankmesh._dialects import areal
from rankmesh._errors import UsageError
from rankmesh._originals import original, raises
from rankmesh._world import of_torch, world_of
from rankmesh.deepspeed import topology as deepspeed
from rankmesh.deepspeed.topology import _described
from rankmesh.deepspeed.topology import _prime_factors as _prime_factors

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process; None where the rank is in none."""

NCCL_DEFAULT_TIMEOUT = datetime.timedelta(seconds=7200)
"""The timeout of torch's groups."""

GLOBAL_PROCESS_GROUP_REGISTRY: dict[tuple[tuple[int, ...], str], Handle] = {}
"""The group of each set of ranks and backend for which one was asked; in torch.distributed those with this rank."""

_made: list[NamedGroups] = []
"""What has torch's groups of the registry."""


def _connect(said: str, wanted: Mapping[str, tuple[Group, str | None]]) -> dict[str, Handle]:
    """Torch's groups of this rank by these names: those that were made before, or made once all have said the same."""
    import torch.distributed as dist

    from rankmesh.torch._named import Named, NamedGroups

    registry = GLOBAL_PROCESS_GROUP_REGISTRY
    if all(made.ended for made in _made):  # with a torch.distributed before this one
        _made.clear()
        registry.clear()
    keys = {name: (tuple(sorted(ranks)), backend or dist.get_backend()) for name, (ranks, backend) in wanted.items()}
    lacking = {key: name for name, key in reversed(keys.items()) if key not in registry}  # each once, by its first name
    ordered = [name for name in keys if name in lacking.values()]
    made = NamedGroups(
        f"areal: {said}",
        [Named(name, Group(keys[name][0]), keys[name][1]) for name in ordered],
        timeout=NCCL_DEFAULT_TIMEOUT,
    )
    _made.append(made)
    registry.update({keys[name]: made[name] for name in ordered})
    return {name: registry[key] for name, key in keys.items()}


def new_or_get_group(ranks: Iterable[int], backend: str | None = None) -> Handle:
    """The group of these ranks, which stand in the registry from now on.

    In torch.distributed every rank calls it, and one outside gets `GroupMember.NON_GROUP_MEMBER`, as from torch.
    """
    group = Group(sorted(ranks))
    if (world := of_torch()) is None:
        return GLOBAL_PROCESS_GROUP_REGISTRY.setdefault((tuple(group), backend or "nccl"), group)
    import torch.distributed as dist

    wanted = {"new_or_get_group": (group, backend)} if world[0] in group else {}
    made = _connect(f"new_or_get_group of {group} on {backend or dist.get_backend()}", wanted)
    return made.get("new_or_get_group", dist.GroupMember.NON_GROUP_MEMBER)


def destroy_all_comm_groups() -> None:
    """Ends all groups of the registry; as in the original nothing happens without torch.distributed."""
    if of_torch() is not None:
        for made in _made:
            made.destroy()
        _made.clear()
        GLOBAL_PROCESS_GROUP_REGISTRY.clear()


@raises(TypeError)
def decompose_to_three_factors(n: int) -> list[tuple[int, int, int]]:
    """Every ordered triple of positive numbers whose product is n, each once; none for 0."""
    return areal.decompose_to_three_factors(n)


PipeDataTensorProcessCoord = namedtuple("PipeDataTensorProcessCoord", ["pipe", "data", "tensor"])  # noqa: PYI024
DataPipeTensorProcessCoord = namedtuple("DataPipeTensorProcessCoord", ["data", "pipe", "tensor"])  # noqa: PYI024
PROCESS_COORD_REGISTRY: dict[str, Any] = {
    "pipe#data#tensor": PipeDataTensorProcessCoord,
    "data#pipe#tensor": DataPipeTensorProcessCoord,
}


class ProcessTopology(deepspeed.ProcessTopology):
    """The ranks of a model on pipe, data, tensor or data, pipe, tensor, outermost first.

    >>> ProcessTopology(axes=["pipe", "data", "tensor"], dims=[2, 2, 2]).get_rank(pipe=1, data=0, tensor=1)
    5
    """

    _kind: ClassVar[type[areal.ProcessTopology]] = areal.ProcessTopology
    _topology: areal.ProcessTopology

    @raises(ValueError, missing=IndexError, unknown=KeyError)
    def __init__(self, axes: Sequence[str], dims: Sequence[int]) -> None:
        self._topology = self._kind(axes, dims)
        self.axes = axes
        self.dims = dims
        self.ProcessCoord = PROCESS_COORD_REGISTRY["#".join(axes)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessTopology) and self._topology.same_mapping(other._topology)

    __hash__ = None  # type: ignore[assignment]  # as in the original, which compares tables

    def __repr__(self) -> str:
        return repr(self._topology)


class PipeDataTensorParallelTopology(ProcessTopology):
    """What a model trains on."""

    def __init__(
        self,
        num_pp: int,
        num_tp: int,
        num_dp: int,
        sequence_parallel: bool,
        gradient_checkpointing: bool,
        gradient_accumulation_fusion: bool,
        max_prompt_len: int | None = None,
    ) -> None:
        super().__init__(axes=["pipe", "data", "tensor"], dims=[num_pp, num_dp, num_tp])
        self.sequence_parallel = sequence_parallel
        self.gradient_checkpointing = gradient_checkpointing
        self.max_prompt_len = max_prompt_len
        self.gradient_accumulation_fusion = gradient_accumulation_fusion


class DataPipeTensorParallelTopology(ProcessTopology):
    """What a model generates on."""

    def __init__(
        self,
        num_pp: int,
        num_tp: int,
        num_dp: int,
        sequence_parallel: bool,
        max_prompt_len: int | None = None,
    ) -> None:
        super().__init__(axes=["data", "pipe", "tensor"], dims=[num_dp, num_pp, num_tp])
        self.sequence_parallel = sequence_parallel
        self.max_prompt_len = max_prompt_len


def _lists(name: str, doc: str) -> functools.cached_property[list[list[int]]]:
    """All groups of the topology, made when they are asked for."""
    lists: functools.cached_property[list[list[int]]] = functools.cached_property(lambda grid: getattr(grid, name)())
    lists.__doc__ = doc
    return lists


class ParallelGrid(areal.ModelGrid):
    """A rank's place in a model, and its groups: `*_group` hold ranks of the topology, `*_proc_group` of the world.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes of the world, those outside the model included: on the default backend, and as `_gloo` on the host.
    `process_group` is then the ranks of the model, as the mapping says; None is all ranks. With them it is that rank's,
    without a process, and `process_group` is not asked.

    >>> grid = ParallelGrid(ProcessTopology(["pipe", "data", "tensor"], [2, 2, 2]), None, rank=5, world_size=8)
    >>> grid.get_pipe_parallel_group()
    Group('{1, 5}')
    """

    topo: ProcessTopology
    mp_group: list[int]
    """Always empty, as in the original."""
    _handles: dict[str, Handle] | None = None

    @raises(ValueError, sizes=AssertionError, unknown=AttributeError, missing=KeyError)
    def __init__(
        self,
        topology: ProcessTopology,
        process_group: Any,
        rank_mapping: Mapping[int, int] | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        live = rank is None and world_size is None and of_torch() is not None
        rank, world_size = world_of("ParallelGrid", rank, world_size)
        self.topo = topology
        self._mapping = rank_mapping
        self.mp_group = []
        if not live:
            super().__init__(topology._topology, rank, world_size, rank_mapping)
            return
        from rankmesh.torch._named import errors_reach_peers

        said = f"ParallelGrid over {_described(topology)}"
        if rank_mapping is not None:
            said += f" on ranks {dict(rank_mapping)}"
        with errors_reach_peers(f"areal: {said}"):
            super().__init__(topology._topology, rank, world_size, rank_mapping)
            self._check_process_group(process_group)
        pure = {name: getattr(self, name) for name in vars(areal.ModelGrid) if "_proc_group" in name}
        wanted = {
            name: (group, "gloo" if name.endswith("_gloo") else None)
            for name, group in pure.items()
            if group is not None
        }
        self._handles = _connect(said, wanted)

    def _check_process_group(self, group: Any) -> None:
        """The original takes this rank's place from the group and makes groups by the mapping, which may differ."""
        import torch.distributed as dist

        place = dist.get_rank(group)
        if place != self.global_rank:
            raise UsageError(
                f"rank {dist.get_rank()} is rank {place} of the process_group and rank {self.global_rank} of the model "
                "by the rank mapping; the group's ranks must be those that the mapping gives, in its order"
            )

    dp_groups = _lists("all_dp_groups", "All data parallel groups, a list of the topology.")
    pipe_groups = _lists("all_pipe_groups", "All pipelines, a list of the topology.")
    model_groups = _lists("all_model_groups", "All groups of tensor slices, a list of the topology.")
    p2p_groups = _lists(
        "mapped_p2p_groups", "Each rank of the world with the one at the next stage, the first after the last."
    )

    def topology(self) -> ProcessTopology:
        """The topology of the grid."""
        return self.topo

    @functools.cached_property
    def rank_mapping(self) -> Mapping[int, int]:
        """From ranks of the topology to those of the world, as it was given."""
        return self._mapping if self._mapping is not None else {rank: rank for rank in range(self.world_size)}

    @property
    def slice_group(self) -> list[int] | None:  # type: ignore[override]  # None outside the model
        """The tensor slices of this rank's stage and replica."""
        return super().slice_group or None

    @property
    def ds_model_world_size(self) -> int:
        """The number of stages and slices of one replica; an AttributeError outside the model."""
        return self.get_model_parallel_world_size()

    @raises(AttributeError)
    def get_model_parallel_world_size(self) -> int:
        """The number of stages and slices of one replica; an AttributeError outside the model."""
        return super().get_model_parallel_world_size()

    @raises(AssertionError, argument=TypeError, unknown=TypeError)
    def stage_to_global(self, stage_id: int, **kwargs: int) -> int:
        """The topology rank at another stage, with this rank's index on all other axes but those given."""
        return super().stage_to_global(stage_id, **kwargs)


class FakeGrid(areal.ModelGrid):
    """A grid of ranks and sizes, for trying a schedule without processes."""

    @raises(ValueError)
    def __init__(self, rank: int, topo: ProcessTopology) -> None:
        self.rank, self.coord = rank, topo.get_coord(rank)
        super().__init__(topo._topology, rank, topo.world_size(), None)
        self.dp_id, self.pp_id, self.mp_id = self.coord.data, self.coord.pipe, self.coord.tensor

    def get_pipe_parallel_group(self) -> NoReturn:
        """There is none: raises a RuntimeError."""
        raise original(RuntimeError, "No groups in fake grid.", "not member")

    get_data_parallel_group = get_tensor_model_parallel_group = get_pipe_parallel_group
