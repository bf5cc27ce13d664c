"""DeepSpeed's runtime/pipe/topology.py: named axes over ranks, row-major, and a grid of pipe and data over them.

By hand: programs extend ProcessTopology, and a grid keeps the topology that a program made.
"""

from __future__ import annotations

import builtins
import functools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from rankmesh import Group
from rankmesh._connected import Connected
from rankmesh._deepspeed import Answers
from rankmesh._dialects import rows as _rows
from rankmesh._dialects import topology as _native
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._originals import raises
from rankmesh._rows import _accessors_of


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


def _described(topology: Any) -> str:
    """The sizes of a topology by axis, as ranks compare them."""
    if not isinstance(topology, ProcessTopology):
        return "the default topology" if topology is None else repr(topology)
    return " ".join(f"{axis}={size}" for axis, size in zip(topology.axes, topology.dims, strict=False))


def _checked(topology: Any) -> ProcessTopology:
    if not isinstance(topology, ProcessTopology):
        raise UsageTypeError(f"topology is {topology!r}; it must be a ProcessTopology of rankmesh's")
    return topology


def _handle(kind: str) -> str:
    """What the original calls the group of a kind, and torch's group is called: `pp_proc_group`."""
    stem, host, _ = kind.partition("_gloo")
    return f"{stem}_proc_group{host}"


class _Grid:
    """What the grids of DeepSpeed and AReaL do beside their accessors."""

    _topo: Any
    _slice = "tensor"  # the axis of tensor slices
    _unexpected: type[Exception] = TypeError  # of an unknown axis
    mp_group: list[int]
    """Always empty, as in the original."""
    _groups: Connected

    def _stand(
        self, framework: str, topology: ProcessTopology, rank: int, world_size: int, **settings: Any
    ) -> dict[str, Group]:
        """Makes the answers of a rank, and returns its groups by kind."""
        self._topo = _checked(topology)
        given = {"axes": list(topology.axes), "dims": list(topology.dims), **settings}
        self._state = _rows.State(_rows.Groups(framework, given, world_size), rank)
        self._accessors = _accessors_of(framework)
        groups = self._state.groups
        found = {_handle(kind): groups.of(kind, rank) for kind in groups.kinds()}
        return {name: group for name, group in found.items() if group is not None}

    def _ask(self, accessor: str, **options: Any) -> Any:
        row = self._accessors[accessor]
        if row["quantity"] == "group":
            return self._groups._find(_handle(row["kind"]))
        kind = getattr(builtins, row["raises"] or "ValueError")
        return raises(kind)(self._state.ask)(accessor, options)

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
        rank: int = -1 if own == -1 else ask(own, stage_id, **kwargs)
        return rank


class PipelineParallelGrid(_Grid, Answers):  # type: ignore[misc]  # p2p_groups is a list
    """A rank's place in a topology with axes pipe and data, and its groups, which makes it an mpu of DeepSpeed's.

    Without `rank` and `world_size` it is this process's in torch.distributed, and makes its groups of torch with those
    of all processes. With them it is that rank's, without a process; its groups are then those of its ranks.

    >>> PipelineParallelGrid(PipeDataParallelTopology(num_pp=2, num_dp=2), rank=3, world_size=4).pp_group
    [1, 3]
    """

    _slice = "model"
    _unexpected = ValueError

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
            self._topo = PipeDataParallelTopology(*_native.default_dims(world_size)) if topology is None else topology
            return self._stand("deepspeed", self._topo, rank, world_size)

        self._groups._connect(f"PipelineParallelGrid over {_described(topology)}", stand)

    def _is_grid_valid(self) -> bool:
        valid: bool = self._topo.world_size() == self.world_size
        return valid


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
