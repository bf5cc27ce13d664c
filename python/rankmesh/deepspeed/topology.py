"""DeepSpeed's runtime/pipe/topology.py: named axes over ranks, row-major, and a grid of pipe and data over them.

By hand: programs extend ProcessTopology, and a grid keeps the topology that a program made.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rankmesh import Group
from rankmesh._deepspeed import Answers
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._frameworks import topology as _native
from rankmesh._originals import raises
from rankmesh._rows import Current


@functools.cache
def _coord_class(axes: tuple[str, ...]) -> Any:
    return namedtuple("ProcessCoord", axes)  # noqa: PYI024 (its fields are known at run time)


class ProcessTopology(_native.ProcessTopology):
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

    get_rank = raises(ValueError, out_of_range=AssertionError, unknown=TypeError)(_native.ProcessTopology.get_rank)
    filter_match = raises(ValueError, unknown=AttributeError)(_native.ProcessTopology.filter_match)

    def get_axis_names(self) -> Sequence[str]:
        """The names of the axes, outermost first."""
        return self.axes

    def get_coord(self, rank: int) -> Any:
        """The coordinate of a rank, whose attributes are the axes."""
        return self.ProcessCoord._make(super().get_coord(rank))


_prime_factors = _native.prime_factors


class PipeDataParallelTopology(ProcessTopology):
    """Pipeline and data parallelism, data innermost."""

    def __init__(self, num_pp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data"], dims=[num_pp, num_dp])


class PipeModelDataParallelTopology(ProcessTopology):
    """Pipeline, data and tensor parallelism, tensor slicing innermost."""

    def __init__(self, num_pp: int, num_mp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data", "model"], dims=[num_pp, num_dp, num_mp])


class GridState(Current):
    """The groups of a grid on one rank, made by the topology that the grid keeps."""

    def __init__(self, framework: str, grid: _Grid) -> None:
        super().__init__(framework)
        self._grid = grid

    def _said(self, settings: dict[str, Any], backend: str | None) -> str:
        grid, said = self._grid, "the default topology"
        if isinstance(topology := grid._topo, ProcessTopology):
            said = " ".join(f"{axis}={size}" for axis, size in zip(topology.axes, topology.dims, strict=False))
        elif topology is not None:
            said = repr(topology)
        return f"{self._rows['name']}: {type(grid).__name__} over {said}{grid._placed_on()}"

    def _begin(self, settings: dict[str, Any], place: tuple[int, int], live: bool) -> None:
        super()._begin(self._grid._settings(), place, live)
        if live:
            self._grid._check_process_group(place)


class _Grid:
    """What the grids of DeepSpeed and AReaL do beside their accessors."""

    _topo: Any
    _slice = "tensor"  # the axis of tensor slices
    _unexpected: type[Exception] = TypeError  # of an unknown axis
    _process_group: Any = None
    _groups: GridState

    @functools.cached_property
    def mp_group(self) -> list[int]:
        """Always empty, as in the original."""
        return []

    def _settings(self) -> dict[str, Any]:
        """The settings of the grid's topology."""
        if not isinstance(self._topo, ProcessTopology):
            raise UsageTypeError(f"topology is {self._topo!r}; it must be a ProcessTopology of rankmesh's")
        return {"axes": list(self._topo.axes), "dims": list(self._topo.dims)}

    def _check_process_group(self, place: tuple[int, int]) -> None:
        """Raises UsageError if the process group that was given has other ranks than the grid."""

    def _placed_on(self) -> str:
        """On which ranks of the world the topology is, for the comparison of ranks."""
        return ""

    def _ask(self, accessor: str, **options: Any) -> Any:
        return self._groups.ask(accessor, **options)

    def topology(self) -> Any:
        """The topology of the grid."""
        return self._topo

    def _all(self, axis: str) -> list[list[int]]:
        return list(self._topo.get_axis_comm_lists(axis)) or [[rank] for rank in range(self._topo.world_size())]

    @functools.cached_property
    def dp_groups(self) -> list[list[int]]:
        """All data parallel groups, a list of the topology."""
        return self._all("data")

    @functools.cached_property
    def pipe_groups(self) -> list[list[int]]:
        """All pipelines, a list of the topology."""
        return self._all("pipe")

    @functools.cached_property
    def model_groups(self) -> list[list[int]]:
        """All groups of tensor slices, a list of the topology."""
        return self._all(self._slice)

    @functools.cached_property
    def p2p_groups(self) -> list[list[int]]:
        """The world rank of each rank, and of the one at the next stage; the first stage follows the last."""
        return [self._ask("p2p_groups", rank=rank) for rank in range(self._topo.world_size())]

    def stage_to_global(self, stage_id: int, **kwargs: int) -> int:
        """The topology rank at another stage, with this rank's index on all other axes but those given."""
        own = self._ask("global_rank")
        ask = raises(AssertionError, argument=TypeError, unknown=self._unexpected)(self._topo._stage_to_global)
        return -1 if own == -1 else int(ask(own, stage_id, **kwargs))


class PipelineParallelGrid(_Grid, Answers):  # type: ignore[misc]  # p2p_groups is a list
    """A rank's place in a topology with axes pipe and data, and its groups, which makes it an mpu of DeepSpeed's.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes. With them it is that rank's, without a process; its groups are then those of its ranks.

    >>> PipelineParallelGrid(PipeDataParallelTopology(num_pp=2, num_dp=2), rank=3, world_size=4).pp_group
    [1, 3]
    """

    _slice = "model"
    _unexpected = ValueError

    def __init__(
        self,
        topology: ProcessTopology | None = None,
        process_group: Any = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self._topo, self._process_group = topology, process_group
        self._groups = GridState("deepspeed", self)
        self._groups.initialize({"rank": rank, "world_size": world_size})
        if topology is None:
            self._topo = PipeDataParallelTopology(*self._groups.groups.mesh.shape)

    def _settings(self) -> dict[str, Any]:
        return {} if self._topo is None else super()._settings()

    def _check_process_group(self, place: tuple[int, int]) -> None:
        """The original takes no notice of the group, which is right for one of all ranks only."""
        if (group := self._process_group) is None:
            return
        import torch.distributed as dist

        if dist.get_world_size(group) != place[1]:
            ranks = "without this rank"
            if dist.get_rank(group) >= 0:
                ranks = f"of ranks {Group(sorted(dist.get_process_group_ranks(group)))}"
            raise UsageError(
                f"a PipelineParallelGrid is over all {place[1]} ranks, whatever process_group is, and was given one "
                f"{ranks}; leave it out"
            )

    def _is_grid_valid(self) -> bool:
        return bool(self._topo.world_size() == self.world_size)
