"""AReaL's base/topology.py: one model on pipe, data and tensor, over all or some ranks of the world.

By hand: a topology is asked about any coordinate, and the registry keeps torch's groups of all grids.
"""

from __future__ import annotations

import datetime
import functools
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from rankmesh._areal import Answers
from rankmesh._core import Group
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._frameworks import topology as _native
from rankmesh._originals import original, raises, refuse_if
from rankmesh._world import of_torch
from rankmesh.deepspeed import topology as deepspeed
from rankmesh.deepspeed.topology import _prime_factors as _prime_factors

if TYPE_CHECKING:
    from rankmesh.torch._named import Named, NamedGroups

__all__ = ["GLOBAL_PROCESS_GROUP_REGISTRY", "DataPipeTensorParallelTopology", "FakeGrid", "ParallelGrid"]
__all__ += ["PipeDataTensorParallelTopology", "ProcessTopology", "decompose_to_three_factors"]
__all__ += ["destroy_all_comm_groups", "new_or_get_group"]

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""

NCCL_DEFAULT_TIMEOUT = datetime.timedelta(seconds=7200)
"""The timeout of torch's groups."""

GLOBAL_PROCESS_GROUP_REGISTRY: dict[tuple[tuple[int, ...], str], Handle] = {}
"""The group of each set of ranks and backend for which one was asked; in torch.distributed those with this rank."""

_made: list[NamedGroups] = []  # what has torch's groups of the registry


def _registered(said: str, wanted: Iterable[Named]) -> dict[str, Handle]:
    """Torch's groups of this rank by name: those that were made before, or made once all have said the same."""
    import torch.distributed as dist

    from rankmesh.torch._named import Named, NamedGroups

    registry = GLOBAL_PROCESS_GROUP_REGISTRY
    if all(made.ended for made in _made):  # with a torch.distributed before this one
        _made.clear()
        registry.clear()
    keys = {each.name: (tuple(sorted(each.ranks)), each.backend or dist.get_backend()) for each in wanted}
    lacking = {key: name for name, key in reversed(keys.items()) if key not in registry}  # each once, by its first name
    named = [Named(name, Group(key[0]), key[1]) for name, key in keys.items() if lacking.get(key) == name]
    made = NamedGroups(said, named, timeout=NCCL_DEFAULT_TIMEOUT)
    _made.append(made)
    registry.update({keys[each.name]: made[each.name] for each in named})
    return {name: registry[key] for name, key in keys.items()}


class _Registered(deepspeed.GridState):
    """Groups of one rank; those of torch are the registry's."""

    def _of_torch(self, said: str, wanted: list[Named]) -> dict[str, Handle]:
        return _registered(said, wanted)


def new_or_get_group(ranks: Iterable[int], backend: str | None = None) -> Handle:
    """The group of these ranks, which stand in the registry from now on.

    In torch.distributed every rank calls it, and one outside gets `GroupMember.NON_GROUP_MEMBER`, as from torch.
    """
    group = Group(sorted(ranks))
    if (world := of_torch()) is None:
        return GLOBAL_PROCESS_GROUP_REGISTRY.setdefault((tuple(group), backend or "nccl"), group)
    import torch.distributed as dist

    from rankmesh.torch._named import Named

    wanted = [Named("new_or_get_group", group, backend)] if world[0] in group else []
    made = _registered(f"areal: new_or_get_group of {group} on {backend or dist.get_backend()}", wanted)
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
    return [(i, j, k) for i, j, k in _native.decompose_to_three_factors(n)]


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

    @raises(ValueError, missing=IndexError, unknown=KeyError)
    def __init__(self, axes: Sequence[str], dims: Sequence[int]) -> None:
        _native.ProcessTopology.__init__(self, axes, dims, of_areal=True)
        self.axes, self.dims, self.ProcessCoord = axes, dims, PROCESS_COORD_REGISTRY["#".join(axes)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessTopology) and self.same_mapping(other)

    __hash__ = None  # type: ignore[assignment]  # as in the original, which compares tables

    def __repr__(self) -> str:
        return f"ProcessTopology(axes={list(self.axes)}, dims={list(self.dims)})"


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
        self, num_pp: int, num_tp: int, num_dp: int, sequence_parallel: bool, max_prompt_len: int | None = None
    ) -> None:
        super().__init__(axes=["data", "pipe", "tensor"], dims=[num_dp, num_pp, num_tp])
        self.sequence_parallel = sequence_parallel
        self.max_prompt_len = max_prompt_len


class ParallelGrid(deepspeed._Grid, Answers):  # type: ignore[misc]  # p2p_groups is a list
    """A rank's place in a model, and its groups: `*_group` hold ranks of the topology, `*_proc_group` of the world.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes of the world, those outside the model included: on the default backend, and as `_gloo` on the host.
    `process_group` is then the ranks of the model, as the mapping says; None is all ranks. With them it is that rank's,
    without a process, and `process_group` is not asked.

    >>> grid = ParallelGrid(ProcessTopology(["pipe", "data", "tensor"], [2, 2, 2]), None, rank=5, world_size=8)
    >>> grid.get_pipe_parallel_group()
    Group('{1, 5}')
    """

    def __init__(
        self,
        topology: ProcessTopology,
        process_group: Any,
        rank_mapping: Mapping[int, int] | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.topo = self._topo = topology
        self._process_group, self._mapping = process_group, rank_mapping
        self._groups = _Registered("areal", self)
        self._groups.initialize({"rank": rank, "world_size": world_size})

    def _settings(self) -> dict[str, Any]:
        mapping: Any = self._mapping
        if mapping is None:
            return super()._settings()
        if not isinstance(mapping, Mapping):
            kind = type(mapping).__name__
            text = f"the rank mapping is {mapping!r}, which is {kind}; it must be a mapping such as {{0: 4, 1: 5}}"
            raise UsageTypeError(text)
        settings, ranks = super()._settings(), range(self._topo.world_size())
        for rank in ranks:
            refuse_if(rank not in mapping, KeyError, f"the rank mapping has no rank {rank}", "missing")
        return settings | {"rank_mapping": [mapping[rank] for rank in ranks]}

    def _placed_on(self) -> str:
        return "" if self._mapping is None else f" on ranks {self._mapping}"

    def _check_process_group(self, place: tuple[int, int]) -> None:
        """The original takes this rank's place from the group and makes groups by the mapping, which may differ."""
        import torch.distributed as dist

        own = dist.get_rank(self._process_group)
        if own != self.global_rank:
            raise UsageError(
                f"rank {place[0]} is rank {own} of the process_group and rank {self.global_rank} of the model "
                "by the rank mapping; the group's ranks must be those that the mapping gives, in its order"
            )

    @functools.cached_property
    def rank_mapping(self) -> Mapping[int, int]:
        """From ranks of the topology to those of the world, as it was given."""
        return self._mapping if self._mapping is not None else {rank: rank for rank in range(self.world_size)}


class FakeGrid(deepspeed._Grid, Answers):  # type: ignore[misc]
    """A grid of ranks and sizes, for trying a schedule without processes."""

    def __init__(self, rank: int, topo: ProcessTopology) -> None:
        self.rank, self.coord, self.topo = rank, topo.get_coord(rank), topo
        self.dp_id, self.pp_id, self.mp_id = self.coord.data, self.coord.pipe, self.coord.tensor
        self._topo, self._groups = topo, _Registered("areal", self)
        self._groups.initialize({"rank": rank, "world_size": topo.world_size()})

    def get_pipe_parallel_group(self) -> NoReturn:
        """There is none: raises a RuntimeError."""
        raise original(RuntimeError, "No groups in fake grid.", "not member")

    get_data_parallel_group = get_tensor_model_parallel_group = get_pipe_parallel_group
