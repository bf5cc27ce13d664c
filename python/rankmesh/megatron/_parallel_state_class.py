"""Megatron-core's parallel_state: the original's functions, which ask one current ParallelState.

Where torch.distributed is initialised, its groups are torch's, which `initialize_model_parallel` makes. With
`rank=67, world_size=65536` it needs no process, and they are `rankmesh.Group`s. `for_rank` gives a state of its
own for any other rank.

The answers are written from rows. By hand is what keeps things of the program: callables that pick ranks, options of
NCCL, timeouts, groups that it creates later, a memory buffer.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from rankmesh._core import Group
from rankmesh._errors import NotBuilt
from rankmesh._frameworks import rows as _native
from rankmesh._megatron import Answers
from rankmesh._originals import FrameworkError, original, raises, refuse_if
from rankmesh._rows import Current
from rankmesh._world import of_torch
from rankmesh.megatron._rank_generator import (
    RankGenerator,
    _inject_gtp_remat_axis,
    generate_masked_orthogonal_rank_groups,
)
from rankmesh.megatron._rank_generator import default_embedding_ranks as default_embedding_ranks
from rankmesh.megatron._rank_generator import default_position_embedding_ranks as default_position_embedding_ranks

__all__ = [
    "Handle",
    "PickRanks",
    "RankGenerator",
    "_inject_gtp_remat_axis",
    "default_embedding_ranks",
    "default_position_embedding_ranks",
    "for_rank",
    "generate_masked_orthogonal_rank_groups",
    "overwrite_nccl_comm_cfgs",
]

Handle: TypeAlias = Any
"""A group of this rank: torch's or a rankmesh.Group; None where `check_initialized` is false and there is none."""

PickRanks: TypeAlias = Callable[[list[int]], Sequence[int]]
"""From the ranks of a pipeline to those of them that hold an embedding."""


def _kind_of_sizes(error: FrameworkError) -> type[Exception]:
    """What initialize_model_parallel raises for sizes that do not fit: it asserts most of them."""
    asserted = not str(error).startswith(("world_size (", "pipeline-model-parallel size should"))
    return RuntimeError if error.fault == "missing" or not asserted else AssertionError


class _Made(Answers, Current):
    """How the groups of a state are made, and how it is asked."""

    def __init__(self, rank: int | None = None, world_size: int | None = None) -> None:
        self._created: list[Any] = []
        self._memory_buffer: Any = None
        Current.__init__(self, "megatron", rank, world_size)

    _ask = Current.ask

    @contextlib.contextmanager
    def _connected(self, given: dict[str, Any], live: bool) -> Iterator[None]:
        """If `live`, makes torch's groups of what was initialised within, after all ranks have said how."""
        if not live:
            yield
            return
        import datetime
        import inspect

        from rankmesh.megatron import _nccl
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        defaults = inspect.signature(ParallelState.initialize_model_parallel).parameters
        path = given.pop("nccl_communicator_config_path")  # its contents are compared, not its name

        def said() -> str:
            words = [f"{key}={value}" for key, value in given.items() if value != defaults[key].default]
            return "megatron: " + (", ".join(words) or "no parallelism but dp")

        timeout = datetime.timedelta(minutes=given["distributed_timeout_minutes"])
        compared = not given["rank_offset"] and given["local_world_size"] is None
        sharp = (given["sharp_enabled_group"] or "dp") if given["use_sharp"] else None
        with errors_reach_peers(said(), timeout, compared=compared):
            configs = _nccl.read_configs(path, given["high_priority_stream_groups"])
            options = _nccl.options_of(configs)
            if sharp is not None:
                _nccl.check_sharp()
            yield
        agreed = said() + (f", with options for NCCL: {configs}" if configs else "")  # with the stages of embeddings
        made, rank = self.groups, self._state.rank
        wanted = [
            Named(kind, group, "gloo" if "_GLOO" in kind else None, apart=made.is_apart(kind))
            for kind in made.kinds()
            if (group := made.of(kind, rank)) is not None
        ]
        try:
            named = _nccl.with_options(wanted, options, given["pipeline_model_parallel_comm_backend"], sharp)
            self._live = NamedGroups(agreed, named, timeout=timeout, compared=compared)
        except BaseException:
            self._state.destroy()
            raise

    def _second(self, kind: str) -> Handle:
        """Another group of the ranks of this rank's group of a kind, with a channel of its own."""
        group = self.groups.of(kind, self._state.rank)
        if group is None or self._live is None:
            return group
        from rankmesh.torch._named import Named

        return self._live.add(Named(f"{kind}_AG", group, apart=True))


class ParallelState(_Made):
    """What parallel_state knows of one rank: every function of the module as a method."""

    @raises(_kind_of_sizes, unknown=KeyError, out_of_range=ValueError, argument=ValueError)
    def initialize_model_parallel(
        self,
        tensor_model_parallel_size: int = 1,
        pipeline_model_parallel_size: int = 1,
        virtual_pipeline_model_parallel_size: int | None = None,
        pipeline_model_parallel_comm_backend: str | None = None,
        use_sharp: bool = False,
        context_parallel_size: int = 1,
        hierarchical_context_parallel_sizes: Sequence[int] | None = None,
        hybrid_context_parallel: bool = False,
        expert_model_parallel_size: int = 1,
        gtp_remat_size: int = 1,
        expert_gtp_remat_size: int = 1,
        num_distributed_optimizer_instances: int = 1,
        expert_tensor_parallel_size: int | None = None,
        nccl_communicator_config_path: str | None = None,
        distributed_timeout_minutes: int = 30,
        order: str = "tp-cp-ep-dp-pp",
        get_embedding_ranks: PickRanks | None = None,
        get_position_embedding_ranks: PickRanks | None = None,
        create_gloo_process_groups: bool = True,
        high_priority_stream_groups: list[str] | None = None,
        sharp_enabled_group: str | None = None,
        rank_offset: int = 0,
        local_world_size: int | None = None,
        *,
        create_all_gather_group: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Creates the groups of rank `rank` of `world_size`, else of this process in torch.distributed."""
        given = {key: value for key, value in locals().items() if key not in ("self", "rank", "world_size")}
        given["get_embedding_ranks"] = given["get_position_embedding_ranks"] = None  # their stages, once they are known
        with self._connected(given, not self._is_given(rank, world_size) and of_torch() is not None):
            backend = pipeline_model_parallel_comm_backend
            _check_backends(use_sharp, sharp_enabled_group, num_distributed_optimizer_instances, backend)
            own_rank, world = self._known_world("initialize_model_parallel", AssertionError, rank, world_size)
            settings = {name: given[name] for name in _SETTINGS if name in given}
            picks = {"embedding": get_embedding_ranks, "position_embedding": get_position_embedding_ranks}
            if any(picks.values()):
                groups, kind = _native.Groups("megatron", settings, world), "PIPELINE_MODEL_PARALLEL_GROUP"
                pipeline = groups.of(kind, own_rank) or Group(groups.partition(kind)[0])
                for name, pick in picks.items():
                    if pick is not None:
                        given[f"get_{name}_ranks"] = settings[f"{name}_stages"] = _stages(pick, pipeline)
            self._state.initialize(settings)

    def destroy_model_parallel(self) -> None:
        """Forgets all groups and ends torch's. Without a process, the rank and the world stay for the next call."""
        self._memory_buffer = None
        self.destroy()

    def model_parallel_is_initialized(self) -> bool:
        """True if this rank has tensor-, pipeline- and data-parallel groups."""
        return self.is_initialized()

    def is_unitialized(self) -> bool:
        """The opposite of is_initialized, which the original no longer has."""
        _deprecated("is_unitialized is deprecated, use is_initialized instead")
        return not self.is_initialized()

    def get_data_modulo_expert_parallel_group(self, partial_expert_data_parallel: bool = False) -> Handle:
        """The same as get_expert_data_parallel_group, which the original no longer has."""
        _deprecated(
            "get_data_modulo_expert_parallel_group is deprecated, please use get_expert_data_parallel_group instead."
        )
        return self.get_expert_data_parallel_group(partial_expert_data_parallel=partial_expert_data_parallel)

    def create_all_gather_groups(
        self, for_expert_parallelism: bool = False, timeout: Any = None, nccl_comm_cfgs: dict[str, Any] | None = None
    ) -> tuple[Handle, Handle]:
        """Second groups of the dp-cp ranks and of the experts' dp ranks, for gathering beside the first ones."""
        text = (
            "create_all_gather_groups() requires parallel state to be initialized. "
            "Call initialize_model_parallel() first."
        )
        refuse_if(self._world is None or not self.is_initialized(), RuntimeError, text, "not initialised")
        dense = self._second("DATA_PARALLEL_GROUP_WITH_CP")
        has_experts = for_expert_parallelism and self.get_expert_model_parallel_world_size() > 1
        return dense, self._second("EXPERT_DATA_PARALLEL_GROUP") if has_experts else None

    def set_virtual_pipeline_model_parallel_rank(self, rank: int | None) -> None:
        """The current virtual stage; deprecated in the original, which passes `vp_stage` instead."""
        _deprecated(
            "set_virtual_pipeline_model_parallel_rank in global scope is deprecated. "
            "Pass vp_stage explicitly to is_pipeline_first_stage, is_pipeline_last_stage, etc."
        )
        super().set_virtual_pipeline_model_parallel_rank(rank)

    # --- what the original has beside groups

    def get_global_memory_buffer(self) -> Any:
        """Megatron-core's own GlobalMemoryBuffer, one from initialize_model_parallel to destroy_model_parallel.

        Needs Megatron-core installed."""
        refuse_if(
            not self.is_initialized(), AssertionError, "global memory buffer is not initialized", "not initialised"
        )
        if self._memory_buffer is None:
            from importlib import import_module

            try:
                self._memory_buffer = import_module("megatron.core.utils").GlobalMemoryBuffer()
            except ImportError as error:
                text = "get_global_memory_buffer gives what megatron.core.utils has, which could not be imported"
                raise NotBuilt(f"{text}: {error}") from None
        return self._memory_buffer

    def destroy_global_memory_buffer(self) -> None:
        """Forgets it; the next one that is asked for is new."""
        self._memory_buffer = None

    def create_group(
        self,
        ranks: Sequence[int] | None = None,
        timeout: Any = None,
        backend: str | None = None,
        pg_options: Any = None,
        use_local_synchronization: bool = False,
        group_desc: str | None = None,
    ) -> Any:
        """torch's new_group, whose group `update_pg_timeout` knows."""
        given = {key: value for key, value in locals().items() if key != "self"}
        import torch.distributed as dist

        group = dist.new_group(**{**given, "ranks": ranks if ranks is None else list(ranks)})
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            self._created.append(group)
        return group

    def update_pg_timeout(self, timeout: Any, pg: Any = None) -> None:
        """Sets the timeout of a group, or of the default group and all made here, after a barrier of its ranks."""
        import torch
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        dist.barrier(pg)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        live = [] if self._live is None else self._live.groups
        set_timeout = getattr(dist, "set_timeout", None) or c10d._set_pg_timeout  # its name before 2.14
        for group in [pg] if pg is not None else [None, *self._created, *live]:
            set_timeout(timeout, group)

    def __getattr__(self, name: str) -> Handle:
        """The original's module variables: the groups by their descriptions, None where there is none."""
        if name == "_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS":
            return self.get_hierarchical_context_parallel_groups(check_initialized=False)
        if not name[1:2].isupper() or name[1:] not in self._missing:
            raise AttributeError(f"module 'rankmesh.megatron.parallel_state' has no attribute {name!r}")
        return self.variable(name[1:])


_ALIKE = {
    "initialize_model_parallel": 9,
    "get_data_parallel_group": 1,
    "get_data_parallel_rank": 1,
    "get_data_parallel_world_size": 1,
    "get_expert_data_parallel_group": 1,
    "get_expert_data_parallel_rank": 0,
    "get_expert_data_parallel_world_size": 0,
}
"""How many arguments have one place in Megatron-core 0.16.1 and in August 2026, of functions where not all have."""


def _named_from(alike: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without arguments by position whose meaning the version of the original decides."""

    @functools.wraps(function)
    def call(self: ParallelState, *args: Any, **options: Any) -> Any:
        if len(args) > alike:
            text = (
                f"{function.__name__} has {len(args)} arguments by position, and argument {alike + 1} is another one "
                "in Megatron-core 0.16.1 than in August 2026; give it and what follows by name"
            )
            raise original(TypeError, text, "argument")
        return function(self, *args, **options)

    return call


for _name, _alike in _ALIKE.items():
    setattr(ParallelState, _name, _named_from(_alike, getattr(ParallelState, _name)))

_SETTINGS = [each["name"] for each in _native.rows("megatron")["settings"]]


def _deprecated(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def _check_backends(use_sharp: bool, group: str | None, instances: int, backend: str | None) -> None:
    for wrong, text in (
        (not use_sharp and group is not None, "sharp_enabled_group is only valid when use_sharp is True"),
        (use_sharp and group not in (None, "dp", "dp_replica"), "Invalid sharp_enabled_group"),
        (group == "dp_replica" and instances <= 1, "dp_replica group requires num_distributed_optimizer_instances > 1"),
        (backend not in (None, "nccl", "ucc"), f'"{backend}" backend for PP communication is currently not supported'),
    ):
        refuse_if(wrong, AssertionError, text, "argument")


def _stages(pick: PickRanks, pipeline: Group) -> list[int]:
    """Where in a pipeline the ranks stand that hold an embedding."""
    stages = []
    for rank in pick(list(pipeline)):
        stage = pipeline.group_rank(rank)
        if stage is None:
            text = f"an embedding is put on rank {rank}, which is not in the pipeline {pipeline}"
            raise original(ValueError, text, "out of range")
        stages.append(stage)
    return stages


def for_rank(rank: int, world_size: int, **sizes: Any) -> ParallelState:
    """The state of any rank, initialised with the arguments of `initialize_model_parallel`; the module's own stays."""
    state = ParallelState(rank, world_size)
    state.initialize_model_parallel(**sizes)
    return state


def overwrite_nccl_comm_cfgs(
    nccl_comm_cfgs: dict[str, dict[str, Any]], pg_name: str, key_value_pair: tuple[str, Any]
) -> None:
    """Sets one entry of the configuration of one group's communicator."""
    nccl_comm_cfgs.setdefault(pg_name, {})[key_value_pair[0]] = key_value_pair[1]
