"""DeepSpeed's runtime/pipe/topology.py: named axes over ranks, row-major, and a grid of pipe and data over them."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

from rankmesh import Group
from rankmesh._dialects import deepspeed, topology
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._originals import raises
from rankmesh.deepspeed._connected import Connected, Handle

P = ParamSpec("P")
T = TypeVar("T")

_Native: TypeAlias = topology.ProcessTopology
_NativeGrid: TypeAlias = deepspeed.PipelineGrid


def _asks(method: Callable[Concatenate[Any, P], T], **kinds: type[Exception]) -> Callable[Concatenate[Any, P], T]:
    """A method of the native topology, which raises ValueError or these types by fault."""

    @raises(ValueError, **kinds)
    @functools.wraps(method)
    def ask(self: ProcessTopology, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._topology, *args, **kwargs)

    return ask


@functools.cache
def _coord_class(axes: tuple[str, ...]) -> Any:
    return namedtuple("ProcessCoord", axes)  # noqa: PYI024 (its fields are known at run time)


class ProcessTopology:
    """The ranks of a job on named axes, outermost first; every question is answered by arithmetic.

    >>> ProcessTopology(axes=["pipe", "data"], dims=[2, 4]).get_rank(pipe=1, data=2)
    6
    """

    axes: Sequence[str]
    dims: Sequence[int]
    ProcessCoord: Any
    """The class of coordinates, a namedtuple of the axes."""
    _kind: ClassVar[type[topology.ProcessTopology]] = topology.ProcessTopology

    @raises(ValueError, missing=IndexError)
    def __init__(self, axes: Sequence[str], dims: Sequence[int]) -> None:
        self.axes = axes
        self.dims = dims
        self._topology = self._kind(axes, dims)
        self.ProcessCoord = _coord_class(tuple(axes))

    @functools.cached_property
    def mapping(self) -> dict[Any, int]:
        """The rank of each coordinate: a table of the world, made when it is asked for."""
        return {self.get_coord(rank): rank for rank in range(self.world_size())}

    world_size = _asks(_Native.world_size)
    get_dim = _asks(_Native.get_dim)
    get_rank = _asks(_Native.get_rank, out_of_range=AssertionError, unknown=TypeError)  # type: ignore[arg-type]
    get_rank_repr = _asks(_Native.get_rank_repr)
    get_axis_comm_lists = _asks(_Native.get_axis_comm_lists)
    get_axis_list = _asks(_Native.get_axis_list)
    filter_match = _asks(_Native.filter_match, unknown=AttributeError)  # type: ignore[arg-type]

    def get_axis_names(self) -> Sequence[str]:
        """The names of the axes, outermost first."""
        return self.axes

    @raises(ValueError)
    def get_coord(self, rank: int) -> Any:
        """The coordinate of a rank, whose attributes are the axes."""
        return self.ProcessCoord._make(self._topology.get_coord(rank))

    def __str__(self) -> str:
        return str(self._topology)


_prime_factors = raises(ValueError)(deepspeed.prime_factors)


class PipeDataParallelTopology(ProcessTopology):
    """Pipeline and data parallelism, data innermost."""

    def __init__(self, num_pp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data"], dims=[num_pp, num_dp])


class PipeModelDataParallelTopology(ProcessTopology):
    """Pipeline, data and tensor parallelism, tensor slicing innermost."""

    def __init__(self, num_pp: int, num_mp: int, num_dp: int) -> None:
        super().__init__(axes=["pipe", "data", "model"], dims=[num_pp, num_dp, num_mp])


def _group(name: str, doc: str) -> property:
    return property(lambda grid: grid._groups._find(name), doc=doc)


def _getter(name: str, doc: str) -> Callable[[Any], Handle]:
    """A method that gives an attribute."""

    def get(self: Any) -> Handle:
        return getattr(self, name)

    get.__doc__ = doc
    return get


def _lists(name: str, doc: str) -> functools.cached_property[list[list[int]]]:
    """What a method lists of the world, once it is asked for."""
    lists: functools.cached_property[list[list[int]]] = functools.cached_property(lambda grid: getattr(grid, name)())
    lists.__doc__ = doc
    return lists


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
        native = super()

        def make() -> list[str]:
            if self._groups._is_live():
                _check_process_group(process_group, world_size)
            self._stand(topology, rank, world_size)
            return [name for name in vars(PipelineParallelGrid) if "_proc_" in name]

        said = f"PipelineParallelGrid over {_described(topology)}"
        self._groups._connect(said, make, lambda names: {name: getattr(native, name) for name in names})

    def _stand(self, topology: ProcessTopology | None, rank: int, world_size: int) -> None:
        if topology is None:
            pipe, data = deepspeed.default_dims(world_size)
            topology = PipeDataParallelTopology(num_pp=pipe, num_dp=data)
        if not isinstance(topology, ProcessTopology):
            raise UsageTypeError(f"topology is {topology!r}; it must be a ProcessTopology of rankmesh's")
        self._topo = topology
        super().__init__(topology._topology, rank, world_size)

    ds_model_proc_group = _group("ds_model_proc_group", "All stages and slices of one replica.")
    dp_proc_group = _group("dp_proc_group", "The ranks of the same stage of all pipelines.")
    pp_proc_group = _group("pp_proc_group", "This rank's pipeline.")
    slice_proc_group = _group("slice_proc_group", "The tensor slices of this rank's stage and replica.")

    def topology(self) -> ProcessTopology:
        """The topology of the grid."""
        return self._topo

    dp_groups = _lists("all_dp_groups", "All data parallel groups, a list of the world.")
    pipe_groups = _lists("all_pipe_groups", "All pipelines, a list of the world.")
    model_groups = _lists("all_model_groups", "All groups of tensor slices, a list of the world.")
    p2p_groups = _lists("all_p2p_groups", "Each rank with the one at the next stage, the first after the last.")

    get_pipe_parallel_group = _getter("pp_proc_group", "This rank's pipeline.")
    get_data_parallel_group = _getter("dp_proc_group", "The ranks of the same stage of all pipelines.")
    get_data_parallel_group_ranks = _getter("dp_group", "The list of the ranks of the same stage of all pipelines.")
    get_model_parallel_group = _getter("ds_model_proc_group", "All stages and slices of one replica.")
    get_slice_parallel_group = _getter("slice_proc_group", "The tensor slices of this rank's stage and replica.")

    stage_to_global = raises(AssertionError, argument=TypeError, unknown=ValueError)(_NativeGrid.stage_to_global)

    def _is_grid_valid(self) -> bool:
        return self._topo.world_size() == self.world_size


def _described(topology: Any) -> str:
    """The sizes of a topology by axis, as ranks compare them."""
    if not isinstance(topology, ProcessTopology):
        return "the default topology" if topology is None else repr(topology)
    return " ".join(f"{axis}={size}" for axis, size in zip(topology.axes, topology.dims, strict=False))


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
