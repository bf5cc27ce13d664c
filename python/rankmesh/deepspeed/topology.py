"""DeepSpeed's runtime/pipe/topology.py: named axes over ranks, row-major, and a grid of pipe and data over them."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rankmesh import Group
from rankmesh._connected import Connected
from rankmesh._dialects import deepspeed
from rankmesh._dialects.topology import ProcessTopology as _Native
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._originals import raises

_NativeGrid = deepspeed.PipelineGrid


@functools.cache
def _coord_class(axes: tuple[str, ...]) -> Any:
    return namedtuple("ProcessCoord", axes)  # noqa: PYI024 (its fields are known at run time)


class ProcessTopology(_Native):
    """The ranks of a job on named axes, outermost first; every question is answered by arithmetic.

    >>> ProcessTopology(axes=["pipe", "data"], dims=[2, 4]).get_rank(pipe=1, data=2)
    6
    """

    axes: Sequence[str]
    dims: Sequence[int]
    ProcessCoord: Any
    """The class of coordinates, a namedtuple of the axes."""

    @raises(ValueError, missing=IndexError)
    def __init__(self, axes: Sequence[str], dims: Sequence[int]) -> None:
        super().__init__(axes, dims)
        self.axes, self.dims, self.ProcessCoord = axes, dims, _coord_class(tuple(axes))

    @functools.cached_property
    def mapping(self) -> dict[Any, int]:
        """The rank of each coordinate: a table of the world, made when it is asked for."""
        return {self.get_coord(rank): rank for rank in range(self.world_size())}

    get_rank = raises(ValueError, out_of_range=AssertionError, unknown=TypeError)(_Native.get_rank)
    filter_match = raises(ValueError, unknown=AttributeError)(_Native.filter_match)

    def get_axis_names(self) -> Sequence[str]:
        """The names of the axes, outermost first."""
        return self.axes

    def get_coord(self, rank: int) -> Any:
        """The coordinate of a rank, whose attributes are the axes."""
        return self.ProcessCoord._make(super().get_coord(rank))


_prime_factors = deepspeed.prime_factors


class PipeDataParallelTopology(ProcessTopology):
    """Pipeline and data parallelism, data innermost."""

    def __init__(self, num_pp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data"], dims=[num_pp, num_dp])


class PipeModelDataParallelTopology(ProcessTopology):
    """Pipeline, data and tensor parallelism, tensor slicing innermost."""

    def __init__(self, num_pp: int, num_mp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data", "model"], dims=[num_pp, num_dp, num_mp])


def _lists(name: str, doc: str) -> functools.cached_property[list[list[int]]]:
    """What a method lists, made when it is asked for."""
    listed: functools.cached_property[list[list[int]]] = functools.cached_property(lambda grid: getattr(grid, name)())
    listed.__doc__ = doc
    return listed


def _described(topology: Any) -> str:
    """The sizes of a topology by axis, as ranks compare them."""
    if not isinstance(topology, ProcessTopology):
        return "the default topology" if topology is None else repr(topology)
    return " ".join(f"{axis}={size}" for axis, size in zip(topology.axes, topology.dims, strict=False))


class PipelineParallelGrid(_NativeGrid):
    """A rank's place in a topology with axes pipe and data, and its groups, which makes it an mpu of DeepSpeed's.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes. With them it is that rank's, without a process; its groups are then those of its ranks.

    >>> PipelineParallelGrid(PipeDataParallelTopology(num_pp=2, num_dp=2), rank=3, world_size=4).pp_group
    [1, 3]
    """

    mp_group: list[int]
    """Always empty, as in the original."""

    @raises(ValueError, sizes=AssertionError, unknown=AttributeError)
    def __init__(
        self,
        topology: ProcessTopology | None = None,
        process_group: Any = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.mp_group = []
        self._groups = Connected("PipelineParallelGrid", rank=rank, world_size=world_size)
        rank, world_size = self._groups._rank()

        def stand() -> dict[str, Group]:
            if self._groups._is_live():
                _check_process_group(process_group, world_size)
            self._topo = PipeDataParallelTopology(*deepspeed.default_dims(world_size)) if topology is None else topology
            if not isinstance(self._topo, ProcessTopology):
                raise UsageTypeError(f"topology is {topology!r}; it must be a ProcessTopology of rankmesh's")
            _NativeGrid.__init__(self, self._topo, rank, world_size)
            return self.handles()

        self._groups._connect(f"PipelineParallelGrid over {_described(topology)}", stand)

    def topology(self) -> ProcessTopology:
        """The topology of the grid."""
        return self._topo

    dp_groups = _lists("all_dp_groups", "All data parallel groups, a list of the world.")
    pipe_groups = _lists("all_pipe_groups", "All pipelines, a list of the world.")
    model_groups = _lists("all_model_groups", "All groups of tensor slices, a list of the world.")
    p2p_groups = _lists("all_p2p_groups", "Each rank with the one at the next stage, the first after the last.")

    @raises(AssertionError, argument=TypeError, unknown=ValueError)
    def stage_to_global(self, stage_id: int, **kwargs: int) -> int:
        """The rank at another stage, with this rank's index on all other axes but those given."""
        return super().stage_to_global(stage_id, **kwargs)

    def get_data_parallel_group_ranks(self) -> list[int]:
        """The list of the ranks of the same stage of all pipelines."""
        return self.dp_group

    def _is_grid_valid(self) -> bool:
        return self._topo.world_size() == self.world_size


def _check_process_group(group: Any, world_size: int) -> None:
    """The original takes no notice of the group, which is right for one of all ranks only."""
    if group is not None:
        import torch.distributed as dist

        if dist.get_world_size(group) != world_size:
            ranks = "without this rank"
            if dist.get_rank(group) >= 0:
                ranks = f"of ranks {Group(sorted(dist.get_process_group_ranks(group)))}"
            raise UsageError(
                f"a PipelineParallelGrid is over all {world_size} ranks, whatever process_group is, and was given one "
                f"{ranks}; leave it out"
            )
