"""Megatron's parallel_state of 2022: the original's functions, which ask one current ParallelState.

Where torch.distributed is initialised, its groups are torch's, which `initialize_model_parallel` makes. With `rank=`
and `world_size=` it needs no process, and they are `rankmesh.Group`s. `for_rank` gives a state of its own for any other
rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from rankmesh._core import Group
from rankmesh._dialects import megatron2022 as _native
from rankmesh._errors import UsageError
from rankmesh._originals import DialectError, original, raises
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups

Handle: TypeAlias = Any
"""A group of this rank: torch's or a rankmesh.Group."""

_KINDS = {  # in the order in which the original makes them
    "data": "get_data_parallel_group",
    "model": "get_model_parallel_group",
    "tensor": "get_tensor_model_parallel_group",
    "pipeline": "get_pipeline_model_parallel_group",
    "embedding": "get_embedding_group",
    "position_embedding": "get_position_embedding_group",
}


def _asserts(kind: type) -> type:
    """Makes the public methods of a class raise the original's exceptions for what the dialect refuses."""
    wrap = raises(AssertionError, out_of_range=IndexError, sizes=ValueError)
    for name, value in list(vars(kind).items()):
        if isinstance(value, FunctionType) and not name.startswith("_") and not hasattr(value, "__wrapped__"):
            setattr(kind, name, wrap(value))
    return kind


@_asserts
class ParallelState:
    """What parallel_state knows of one rank: every function of the module as a method."""

    def __init__(self, rank: int | None = None, world_size: int | None = None) -> None:
        self._native = _native.State()
        self._world: tuple[int, int] | None = None
        self._groups: _native.Groups | None = None
        self._live: NamedGroups | None = None
        self._pure = rank is not None or world_size is not None
        if rank is not None or world_size is not None:
            self._enter(*world_of("ParallelState", rank, world_size))

    @raises(ValueError, exists=AssertionError)
    def _enter(self, rank: int, world_size: int) -> tuple[int, int]:
        """Speaks for this rank of this world from now on."""
        if self._world != (rank, world_size):
            self._native.enter_world(rank, world_size)
            self._world = (rank, world_size)
        return rank, world_size

    def _known_world(self, rank: int | None, world_size: int | None) -> tuple[int, int]:
        """The world given, else the one entered before, else torch's."""
        if rank is None and world_size is None and self._world is not None:
            if not self._pure and (torch := of_torch()) is not None:
                return self._enter(*torch)
            return self._world
        try:
            return self._enter(*world_of("initialize_model_parallel", rank, world_size))
        except DialectError:
            raise
        except UsageError as error:
            raise original(AssertionError, str(error), "not initialised") from None

    def _handle(self, kind: str, group: Group) -> Handle:
        """What a getter gives for the group of this kind."""
        return group if self._live is None else self._live[kind]

    @property
    def rank(self) -> int | None:
        """The rank that this is the state of; None before any is known."""
        return self._world[0] if self._world else None

    @property
    def world_size(self) -> int | None:
        """The size of its world; None before any is known."""
        return self._world[1] if self._world else None

    @property
    def groups(self) -> _native.Groups:
        """Every group of the world by kind, each kind in the order in which the original makes its groups."""
        if self._groups is None:
            raise original(AssertionError, "model parallel group is not initialized", "not initialised")
        return self._groups

    # --- made, unmade

    def initialize_model_parallel(
        self,
        tensor_model_parallel_size: int = 1,
        pipeline_model_parallel_size: int = 1,
        virtual_pipeline_model_parallel_size: int | None = None,
        pipeline_model_parallel_split_rank: int | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Says who stands together; of rank `rank` of `world_size`, else of this process's in torch.distributed."""
        self._pure = self._pure or rank is not None or world_size is not None
        given = (
            tensor_model_parallel_size,
            pipeline_model_parallel_size,
            virtual_pipeline_model_parallel_size,
            pipeline_model_parallel_split_rank,
        )
        if self._pure or of_torch() is None:
            self._initialize(given, rank, world_size)
            return
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        said = "megatron2022: tensor {}, pipeline {}, virtual {}, split {}".format(*given)
        with errors_reach_peers(said):
            self._initialize(given, rank, world_size)
        try:
            self._live = NamedGroups(said, [Named(kind, group) for kind, group in self._own_groups()])
        except BaseException:
            self.destroy_model_parallel()
            raise

    def _own_groups(self) -> Iterator[tuple[str, Group]]:
        for kind, getter in _KINDS.items():
            with contextlib.suppress(DialectError):  # this rank holds no embedding
                yield kind, getattr(self._native, getter)()

    def _initialize(
        self, given: tuple[int, int, int | None, int | None], rank: int | None, world_size: int | None
    ) -> None:
        tensor_model_parallel_size, pipeline_model_parallel_size, *_ = given
        _, world = self._known_world(rank, world_size)
        sizes = _native.Sizes(*given)
        try:
            self._native.initialize_model_parallel(sizes)
        except DialectError as error:
            if error.fault != "sizes":
                raise
            zero = tensor_model_parallel_size == 0 or pipeline_model_parallel_size == 0
            raise original(ZeroDivisionError if zero else RuntimeError, str(error), error.fault, error.rule) from None
        self._groups = _native.Groups(sizes, world)

    def model_parallel_is_initialized(self) -> bool:
        """True if the groups are made."""
        return self._native.model_parallel_is_initialized()

    def destroy_model_parallel(self) -> None:
        """Forgets the groups, the virtual stages and what was set; torch's groups are ended."""
        if self._live is not None:
            self._live.destroy()
            self._live = None
        self._native.destroy_model_parallel()
        self._groups = None

    # --- groups

    def get_model_parallel_group(self) -> Handle:
        """The tensor and pipeline parallel ranks of one replica."""
        return self._handle("model", self._native.get_model_parallel_group())

    def get_tensor_model_parallel_group(self) -> Handle:
        """This rank's tensor-parallel group."""
        return self._handle("tensor", self._native.get_tensor_model_parallel_group())

    def get_pipeline_model_parallel_group(self) -> Handle:
        """This rank's pipeline."""
        return self._handle("pipeline", self._native.get_pipeline_model_parallel_group())

    def get_data_parallel_group(self) -> Handle:
        """This rank's data-parallel group."""
        return self._handle("data", self._native.get_data_parallel_group())

    def get_embedding_group(self) -> Handle:
        """The first and last rank of this rank's pipeline and that of the split, on these stages."""
        return self._handle("embedding", self._native.get_embedding_group())

    def get_position_embedding_group(self) -> Handle:
        """The first rank of this rank's pipeline and that of the split, on these stages."""
        return self._handle("position_embedding", self._native.get_position_embedding_group())

    # --- ranks and sizes

    def set_tensor_model_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_tensor_model_parallel_world_size(world_size)

    def set_pipeline_model_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_pipeline_model_parallel_world_size(world_size)

    def get_tensor_model_parallel_world_size(self) -> int:
        """The size of the tensor-parallel group, or what was set."""
        return self._native.get_tensor_model_parallel_world_size()

    def get_pipeline_model_parallel_world_size(self) -> int:
        """The number of stages, or what was set."""
        return self._native.get_pipeline_model_parallel_world_size()

    def set_tensor_model_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_tensor_model_parallel_rank(rank)

    def set_pipeline_model_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_pipeline_model_parallel_rank(rank)

    def set_pipeline_model_parallel_split_rank(self, rank: int | None) -> None:
        """Does nothing: the original writes a variable that nobody reads."""
        self._native.set_pipeline_model_parallel_split_rank(rank)

    def get_tensor_model_parallel_rank(self) -> int:
        """Where this rank stands in its tensor-parallel group, or what was set."""
        return self._native.get_tensor_model_parallel_rank()

    def get_pipeline_model_parallel_rank(self) -> int:
        """This rank's stage, or what was set."""
        return self._native.get_pipeline_model_parallel_rank()

    def get_data_parallel_world_size(self) -> int:
        """The size of the data-parallel group."""
        return self._native.get_data_parallel_world_size()

    def get_data_parallel_rank(self) -> int:
        """Where this rank stands in its data-parallel group."""
        return self._native.get_data_parallel_rank()

    def get_virtual_pipeline_model_parallel_rank(self) -> int | None:
        """The current virtual stage; None without them."""
        return self._native.get_virtual_pipeline_model_parallel_rank()

    def set_virtual_pipeline_model_parallel_rank(self, rank: int | None) -> None:
        """The current virtual stage."""
        self._native.set_virtual_pipeline_model_parallel_rank(rank)

    def get_virtual_pipeline_model_parallel_world_size(self) -> int | None:
        """How many virtual stages there are; None without them."""
        return self._native.get_virtual_pipeline_model_parallel_world_size()

    # --- stages

    def is_pipeline_first_stage(self, ignore_virtual: bool = False) -> bool:
        """True in the first stage and, unless ignored, at the first virtual stage."""
        return self._native.is_pipeline_first_stage(ignore_virtual)

    def is_pipeline_last_stage(self, ignore_virtual: bool = False) -> bool:
        """True in the last stage and, unless ignored, at the last virtual stage."""
        return self._native.is_pipeline_last_stage(ignore_virtual)

    @raises(TypeError)
    def is_rank_in_embedding_group(self, ignore_virtual: bool = False) -> bool:
        """True for a member; the first and last must, unless ignored, be at the first and last virtual stage."""
        return self._native.is_rank_in_embedding_group(ignore_virtual)

    @raises(TypeError)
    def is_rank_in_position_embedding_group(self) -> bool:
        """True for a member."""
        return self._native.is_rank_in_position_embedding_group()

    def is_pipeline_stage_before_split(self, rank: int | None = None) -> bool:
        """True where a stage, this rank's if not given, comes before the split, or there is none."""
        return self._native.is_pipeline_stage_before_split(rank)

    def is_pipeline_stage_after_split(self, rank: int | None = None) -> bool:
        """True where a stage comes not before the split, or there is none."""
        return self._native.is_pipeline_stage_after_split(rank)

    def is_pipeline_stage_at_split(self) -> bool:
        """True where this stage comes before the split and the next one after it."""
        return self._native.is_pipeline_stage_at_split()

    # --- whose first, who is next

    def get_tensor_model_parallel_src_rank(self) -> int:
        """The first rank of as many contiguous ones as the tensor model parallel size says."""
        return self._native.get_tensor_model_parallel_src_rank()

    def get_data_parallel_src_rank(self) -> int:
        """The first rank of this rank's data-parallel group."""
        return self._native.get_data_parallel_src_rank()

    def get_pipeline_model_parallel_first_rank(self) -> int:
        """The rank in the first stage of this rank's pipeline."""
        return self._native.get_pipeline_model_parallel_first_rank()

    def get_pipeline_model_parallel_last_rank(self) -> int:
        """The rank in the last stage of this rank's pipeline."""
        return self._native.get_pipeline_model_parallel_last_rank()

    def get_pipeline_model_parallel_next_rank(self) -> int:
        """The rank in the next stage, the first after the last."""
        return self._native.get_pipeline_model_parallel_next_rank()

    def get_pipeline_model_parallel_prev_rank(self) -> int:
        """The rank in the stage before, the last before the first."""
        return self._native.get_pipeline_model_parallel_prev_rank()

    def _variable(self, name: str) -> Any:
        """The original's module variable of this name, None where it has none."""
        try:
            return list(getattr(self._native, _LISTS[name])()) if name in _LISTS else getattr(self, _VARIABLES[name])()
        except DialectError as error:
            if error.rule or error.fault not in ("not initialised", "not a member"):
                raise
            return None

    def _split(self) -> int | None:
        return self._native.pipeline_model_parallel_split_rank()


_LISTS = {
    "_PIPELINE_GLOBAL_RANKS": "pipeline_global_ranks",
    "_DATA_PARALLEL_GLOBAL_RANKS": "data_parallel_global_ranks",
    "_EMBEDDING_GLOBAL_RANKS": "embedding_global_ranks",
    "_POSITION_EMBEDDING_GLOBAL_RANKS": "position_embedding_global_ranks",
}
_VARIABLES = {
    "_MODEL_PARALLEL_GROUP": "get_model_parallel_group",
    "_TENSOR_MODEL_PARALLEL_GROUP": "get_tensor_model_parallel_group",
    "_PIPELINE_MODEL_PARALLEL_GROUP": "get_pipeline_model_parallel_group",
    "_DATA_PARALLEL_GROUP": "get_data_parallel_group",
    "_EMBEDDING_GROUP": "get_embedding_group",
    "_POSITION_EMBEDDING_GROUP": "get_position_embedding_group",
    "_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK": "get_virtual_pipeline_model_parallel_rank",
    "_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE": "get_virtual_pipeline_model_parallel_world_size",
    "_PIPELINE_MODEL_PARALLEL_SPLIT_RANK": "_split",
}


def for_rank(rank: int, world_size: int, **sizes: Any) -> ParallelState:
    """The state of any rank, initialised with the arguments of `initialize_model_parallel`; the module's own stays."""
    state = ParallelState(rank, world_size)
    state.initialize_model_parallel(**sizes)
    return state


def __getattr__(name: str) -> Any:
    if name not in _LISTS and name not in _VARIABLES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return current._variable(name)


current = ParallelState()
"""What the functions of this module ask."""

initialize_model_parallel = current.initialize_model_parallel
model_parallel_is_initialized = current.model_parallel_is_initialized
destroy_model_parallel = current.destroy_model_parallel
get_model_parallel_group = current.get_model_parallel_group
get_tensor_model_parallel_group = current.get_tensor_model_parallel_group
get_pipeline_model_parallel_group = current.get_pipeline_model_parallel_group
get_data_parallel_group = current.get_data_parallel_group
get_embedding_group = current.get_embedding_group
get_position_embedding_group = current.get_position_embedding_group
set_tensor_model_parallel_world_size = current.set_tensor_model_parallel_world_size
set_pipeline_model_parallel_world_size = current.set_pipeline_model_parallel_world_size
get_tensor_model_parallel_world_size = current.get_tensor_model_parallel_world_size
get_pipeline_model_parallel_world_size = current.get_pipeline_model_parallel_world_size
set_tensor_model_parallel_rank = current.set_tensor_model_parallel_rank
set_pipeline_model_parallel_rank = current.set_pipeline_model_parallel_rank
set_pipeline_model_parallel_split_rank = current.set_pipeline_model_parallel_split_rank
get_tensor_model_parallel_rank = current.get_tensor_model_parallel_rank
get_pipeline_model_parallel_rank = current.get_pipeline_model_parallel_rank
get_data_parallel_world_size = current.get_data_parallel_world_size
get_data_parallel_rank = current.get_data_parallel_rank
get_virtual_pipeline_model_parallel_rank = current.get_virtual_pipeline_model_parallel_rank
set_virtual_pipeline_model_parallel_rank = current.set_virtual_pipeline_model_parallel_rank
get_virtual_pipeline_model_parallel_world_size = current.get_virtual_pipeline_model_parallel_world_size
is_pipeline_first_stage = current.is_pipeline_first_stage
is_pipeline_last_stage = current.is_pipeline_last_stage
is_rank_in_embedding_group = current.is_rank_in_embedding_group
is_rank_in_position_embedding_group = current.is_rank_in_position_embedding_group
is_pipeline_stage_before_split = current.is_pipeline_stage_before_split
is_pipeline_stage_after_split = current.is_pipeline_stage_after_split
is_pipeline_stage_at_split = current.is_pipeline_stage_at_split
get_tensor_model_parallel_src_rank = current.get_tensor_model_parallel_src_rank
get_data_parallel_src_rank = current.get_data_parallel_src_rank
get_pipeline_model_parallel_first_rank = current.get_pipeline_model_parallel_first_rank
get_pipeline_model_parallel_last_rank = current.get_pipeline_model_parallel_last_rank
get_pipeline_model_parallel_next_rank = current.get_pipeline_model_parallel_next_rank
get_pipeline_model_parallel_prev_rank = current.get_pipeline_model_parallel_prev_rank
