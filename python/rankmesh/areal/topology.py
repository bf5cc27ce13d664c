"""AReaL's base/topology.py: one model on pipe, data and tensor, over all or some ranks of the world."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from rankmesh._core import Group
from rankmesh._dialects import areal
from rankmesh._errors import UsageError
from rankmesh._originals import raises
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

GLOBAL_PROCESS_GROUP_REGISTRY = areal.ProcessGroupRegistry()
"""The sets of ranks for which a group was asked, each once a backend; in torch.distributed those with this rank."""

_live: dict[tuple[tuple[int, ...], str], tuple[NamedGroups, str]] = {}
"""Where torch's group of each of them is."""


def _connect(said: str, wanted: Mapping[str, tuple[Group, str | None]]) -> dict[str, Handle]:
    """Torch's groups of this rank by these names: those that were made before, or made once all have said the same."""
    import torch.distributed as dist

    from rankmesh.torch._named import Named, NamedGroups

    if any(made.ended for made, _ in _live.values()):  # with a torch.distributed before this one
        _live.clear()
        GLOBAL_PROCESS_GROUP_REGISTRY.destroy_all_comm_groups()
    keys = {name: (tuple(sorted(ranks)), backend or dist.get_backend()) for name, (ranks, backend) in wanted.items()}
    lacking = {key: name for name, key in reversed(keys.items()) if key not in _live}  # each once, by its first name
    ordered = [name for name in keys if name in lacking.values()]
    made = NamedGroups(
        f"areal: {said}",
        [Named(name, Group(keys[name][0]), keys[name][1]) for name in ordered],
        timeout=NCCL_DEFAULT_TIMEOUT,
    )
    for name in ordered:
        _live[keys[name]] = made, name
        GLOBAL_PROCESS_GROUP_REGISTRY.new_or_get_group(*keys[name])
    return {name: _live[key][0][_live[key][1]] for name, key in keys.items()}


def new_or_get_group(ranks: Iterable[int], backend: str | None = None) -> Handle:
    """The group of these ranks, which stand in the registry from now on.

    In torch.distributed every rank calls it, and one outside gets `GroupMember.NON_GROUP_MEMBER`, as from torch.
    """
    members = sorted(ranks)
    if (world := of_torch()) is None:
        GLOBAL_PROCESS_GROUP_REGISTRY.new_or_get_group(members, backend)
        return Group(members)
    import torch.distributed as dist

    group = Group(members)
    wanted = {"new_or_get_group": (group, backend)} if world[0] in group else {}
    made = _connect(f"new_or_get_group of {group} on {backend or dist.get_backend()}", wanted)
    return made.get("new_or_get_group", dist.GroupMember.NON_GROUP_MEMBER)


def destroy_all_comm_groups() -> None:
    """Ends all groups of the registry; as in the original nothing happens without torch.distributed."""
    if of_torch() is not None:
        for made in {id(made): made for made, _ in _live.values()}.values():
            made.destroy()
        _live.clear()
    GLOBAL_PROCESS_GROUP_REGISTRY.destroy_all_comm_groups(of_torch() is not None)


@raises(TypeError)
def decompose_to_three_factors(n: int) -> list[tuple[int, int, int]]:
    """Every ordered triple of positive numbers whose product is n, each once; none for 0."""
    return areal.decompose_to_three_factors(n)


class PipeDataTensorProcessCoord(NamedTuple):
    """A coordinate of what a model trains on."""

    pipe: int
    data: int
    tensor: int


class DataPipeTensorProcessCoord(NamedTuple):
    """A coordinate of what a model generates on."""

    data: int
    pipe: int
    tensor: int


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


_GROUPS = (
    "ds_model_proc_group",
    "ds_model_proc_group_gloo",
    "dp_proc_group",
    "dp_proc_group_gloo",
    "pp_proc_group",
    "pp_proc_group_gloo",
    "embedding_proc_group",
    "position_embedding_proc_group",
    "slice_proc_group",
    "slice_proc_group_gloo",
    "tp_dp_proc_group",
)


def _group(name: str, doc: str) -> property:
    def get(grid: ParallelGrid) -> Handle:
        if grid._handles is not None:
            return grid._handles.get(name)
        return getattr(super(ParallelGrid, grid), name.removesuffix("_gloo"))

    return property(get, doc=doc)


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
        self._topo = topology
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
        pure = {name: getattr(self, name) for name in _GROUPS}
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

    ds_model_proc_group = _group("ds_model_proc_group", "All stages and slices of one replica.")
    ds_model_proc_group_gloo = _group("ds_model_proc_group_gloo", "The same on the host.")
    dp_proc_group = _group("dp_proc_group", "The ranks of the same stage of all pipelines.")
    dp_proc_group_gloo = _group("dp_proc_group_gloo", "The same on the host.")
    pp_proc_group = _group("pp_proc_group", "This rank's pipeline.")
    pp_proc_group_gloo = _group("pp_proc_group_gloo", "The same on the host.")
    embedding_proc_group = _group("embedding_proc_group", "The first and last stage, on these stages.")
    position_embedding_proc_group = _group("position_embedding_proc_group", "The first stage, on this stage.")
    slice_proc_group = _group("slice_proc_group", "The tensor slices of this rank's stage and replica.")
    slice_proc_group_gloo = _group("slice_proc_group_gloo", "The same on the host.")
    tp_dp_proc_group = _group("tp_dp_proc_group", "All replicas and slices of this rank's stage.")

    def topology(self) -> ProcessTopology:
        """The topology of the grid."""
        return self._topo

    @property
    def topo(self) -> ProcessTopology:
        """The topology of the grid."""
        return self._topo

    @functools.cached_property
    def rank_mapping(self) -> Mapping[int, int]:
        """From ranks of the topology to those of the world, as it was given."""
        return self._mapping if self._mapping is not None else {rank: rank for rank in range(self.world_size)}

    @functools.cached_property
    def dp_groups(self) -> list[list[int]]:
        """All data parallel groups, a list of the topology."""
        return self.all_dp_groups()

    @functools.cached_property
    def pipe_groups(self) -> list[list[int]]:
        """All pipelines, a list of the topology."""
        return self.all_pipe_groups()

    @functools.cached_property
    def model_groups(self) -> list[list[int]]:
        """All groups of tensor slices, a list of the topology."""
        return self.all_model_groups()

    @functools.cached_property
    def p2p_groups(self) -> list[list[int]]:
        """Each rank of the world with the one at the next stage, the first after the last."""
        return self.mapped_p2p_groups()

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

    def get_pipe_parallel_group(self) -> Handle:
        """This rank's pipeline."""
        return self.pp_proc_group

    def get_data_parallel_group(self) -> Handle:
        """The ranks of the same stage of all pipelines."""
        return self.dp_proc_group

    def get_data_parallel_group_gloo(self) -> Handle:
        """The same on the host."""
        return self.dp_proc_group_gloo

    def get_model_parallel_group(self) -> Handle:
        """All stages and slices of one replica."""
        return self.ds_model_proc_group

    def get_tensor_model_parallel_group(self) -> Handle:
        """The tensor slices of this rank's stage and replica."""
        return self.slice_proc_group

    def get_tensor_model_parallel_cpu_group(self) -> Handle:
        """The same on the host."""
        return self.slice_proc_group_gloo


class FakeGrid(areal.FakeGrid):
    """A grid of ranks and sizes without groups, for trying a schedule without processes."""

    coord: Any
    """The coordinate of the rank, a namedtuple."""

    @raises(ValueError)
    def __init__(self, rank: int, topo: ProcessTopology) -> None:
        super().__init__(rank, topo._topology)
        self._topo = topo
        self.coord = topo.get_coord(rank)

    get_pipe_parallel_group = raises(RuntimeError)(areal.FakeGrid.get_pipe_parallel_group)
    get_data_parallel_group = raises(RuntimeError)(areal.FakeGrid.get_data_parallel_group)
    get_tensor_model_parallel_group = raises(RuntimeError)(areal.FakeGrid.get_tensor_model_parallel_group)
