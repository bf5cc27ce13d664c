"""AReaL's base/topology.py: one model on pipe, data and tensor, over all or some ranks of the world."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from rankmesh._core import Group
from rankmesh._dialects import areal
from rankmesh._originals import raises
from rankmesh._world import of_torch, world_of
from rankmesh.deepspeed import topology as deepspeed
from rankmesh.deepspeed.topology import _prime_factors as _prime_factors

GLOBAL_PROCESS_GROUP_REGISTRY = areal.ProcessGroupRegistry()
"""The sets of ranks for which a group was asked, each once a backend."""


def new_or_get_group(ranks: Iterable[int], backend: str | None = None) -> Group:
    """The group of these ranks, which stand in the registry from now on."""
    members = sorted(ranks)
    GLOBAL_PROCESS_GROUP_REGISTRY.new_or_get_group(members, backend)
    return Group(members)


def destroy_all_comm_groups() -> None:
    """Forgets all groups of the registry; as in the original nothing happens without torch.distributed."""
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


class ParallelGrid(areal.ModelGrid):
    """A rank's place in a model, and its groups: `*_group` hold ranks of the topology, `*_proc_group` of the world.

    `rank` and `world_size` say whose, without a process; the mapping says which rank of the model that is, so
    `process_group` is not asked.

    >>> grid = ParallelGrid(ProcessTopology(["pipe", "data", "tensor"], [2, 2, 2]), None, rank=5, world_size=8)
    >>> grid.get_pipe_parallel_group()
    Group('{1, 5}')
    """

    mp_group: list[int]
    """Always empty, as in the original."""

    @raises(ValueError, sizes=AssertionError, unknown=AttributeError, missing=KeyError)
    def __init__(
        self,
        topology: ProcessTopology,
        process_group: object,
        rank_mapping: Mapping[int, int] | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        rank, world_size = world_of("ParallelGrid", rank, world_size)
        self._topo = topology
        self._mapping = rank_mapping
        self.mp_group = []
        super().__init__(topology._topology, rank, world_size, rank_mapping)

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

    @property
    def ds_model_proc_group_gloo(self) -> Group | None:
        """The same as without gloo: on the host."""
        return self.ds_model_proc_group

    @property
    def dp_proc_group_gloo(self) -> Group | None:
        """The same as without gloo: on the host."""
        return self.dp_proc_group

    @property
    def pp_proc_group_gloo(self) -> Group | None:
        """The same as without gloo: on the host."""
        return self.pp_proc_group

    @property
    def slice_proc_group_gloo(self) -> Group | None:
        """The same as without gloo: on the host."""
        return self.slice_proc_group

    @raises(AssertionError, argument=TypeError, unknown=TypeError)
    def stage_to_global(self, stage_id: int, **kwargs: int) -> int:
        """The topology rank at another stage, with this rank's index on all other axes but those given."""
        return super().stage_to_global(stage_id, **kwargs)

    def get_pipe_parallel_group(self) -> Group | None:
        """This rank's pipeline."""
        return self.pp_proc_group

    def get_data_parallel_group(self) -> Group | None:
        """The ranks of the same stage of all pipelines."""
        return self.dp_proc_group

    def get_data_parallel_group_gloo(self) -> Group | None:
        """The same on the host."""
        return self.dp_proc_group_gloo

    def get_model_parallel_group(self) -> Group | None:
        """All stages and slices of one replica."""
        return self.ds_model_proc_group

    def get_tensor_model_parallel_group(self) -> Group | None:
        """The tensor slices of this rank's stage and replica."""
        return self.slice_proc_group

    def get_tensor_model_parallel_cpu_group(self) -> Group | None:
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
