"""Megatron-core's parallel_state: the original's functions, which ask one current ParallelState.

Where torch.distributed is initialised, its groups are torch's, which `initialize_model_parallel` makes. With
`rank=67, world_size=65536` it needs no process, and they are `rankmesh.Group`s. `for_rank` gives a state of its
own for any other rank.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from rankmesh._core import Group
from rankmesh._dialects import megatron as _native
from rankmesh._errors import NotBuilt, UsageError
from rankmesh._originals import DialectError, original, raises
from rankmesh._world import of_torch, world_of
from rankmesh.megatron.rank_generator import RankGenerator as RankGenerator
from rankmesh.megatron.rank_generator import _inject_gtp_remat_axis as _inject_gtp_remat_axis
from rankmesh.megatron.rank_generator import default_embedding_ranks as default_embedding_ranks
from rankmesh.megatron.rank_generator import default_position_embedding_ranks as default_position_embedding_ranks
from rankmesh.megatron.rank_generator import (
    generate_masked_orthogonal_rank_groups as generate_masked_orthogonal_rank_groups,
)

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups

Handle: TypeAlias = Any
"""A group of this rank: torch's or a rankmesh.Group; None where `check_initialized` is false and there is none."""

PickRanks: TypeAlias = Callable[[list[int]], Sequence[int]]
"""From the ranks of a pipeline to those of them that hold an embedding."""

_ABSENT = ("not initialised", "not a member")


def _kind_of_sizes(error: DialectError) -> type[Exception]:
    """What initialize_model_parallel raises for sizes that do not fit: it asserts most of them."""
    text = str(error)
    if error.fault == "missing":  # gtp_remat in the order hides from the original that tp is missing
        return AssertionError if text.startswith("The size of (tp)") else RuntimeError
    return RuntimeError if text.startswith(("world_size (", "pipeline-model-parallel size should")) else AssertionError


def _asserts(kind: type) -> type:
    """Makes the public methods of a class raise the original's exceptions for what the dialect refuses."""
    wrap = raises(AssertionError, unknown=KeyError, out_of_range=IndexError, sizes=ZeroDivisionError)
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
        self._live: NamedGroups | None = None
        self._memory_buffer: Any = None
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

    def _handle(self, desc: str, group: Group) -> Handle:
        """What a getter gives for the group of this description."""
        return group if self._live is None else self._live[desc]

    @contextlib.contextmanager
    def _connected(self, given: dict[str, Any]) -> Iterator[None]:
        """Makes torch's groups of what was initialised within, after all ranks have said how."""
        if self._pure or of_torch() is None:
            yield
            return
        import datetime
        import inspect

        from rankmesh.megatron import _nccl
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        defaults = inspect.signature(self.initialize_model_parallel).parameters
        path = given.pop("nccl_communicator_config_path")  # its contents are compared, not its name
        words = [f"{key}={value}" for key, value in given.items() if value != defaults[key].default]
        said = "megatron: " + (", ".join(words) or "no parallelism but dp")
        timeout = datetime.timedelta(minutes=given["distributed_timeout_minutes"])
        compared = not given["rank_offset"] and given["local_world_size"] is None
        sharp = (given["sharp_enabled_group"] or "dp") if given["use_sharp"] else None
        with errors_reach_peers(said, timeout, compared=compared):
            configs = _nccl.read_configs(path, given["high_priority_stream_groups"])
            options = _nccl.options_of(configs)
            if sharp is not None:
                _nccl.check_sharp()
            yield
        if configs:
            said += f", with options for NCCL: {configs}"
        made, rank = self._native.process_groups, self._world[0] if self._world else 0
        wanted = [
            Named(desc, group, "gloo" if "_GLOO" in desc else None, apart=desc.endswith("_AG"))
            for desc in made.descriptions()
            if (group := made.group(desc, rank)) is not None
        ]
        try:
            named = _nccl.with_options(wanted, options, given["pipeline_model_parallel_comm_backend"], sharp)
            self._live = NamedGroups(said, named, timeout=timeout, compared=compared)
        except BaseException:
            self._native.destroy_model_parallel()
            raise

    def _get(self, check_initialized: bool, getter: Callable[..., tuple[str, Group]], *which: bool | int) -> Handle:
        try:
            return self._handle(*getter(*which))
        except DialectError as error:
            if check_initialized or error.fault not in _ABSENT:
                raise
            return None

    @property
    def rank(self) -> int | None:
        """The rank that this is the state of; None before any is known."""
        return self._world[0] if self._world else None

    @property
    def world_size(self) -> int | None:
        """The size of its world; None before any is known."""
        return self._world[1] if self._world else None

    @property
    def process_groups(self) -> _native.ProcessGroups:
        """All process groups of the world, by the `group_desc` under which the original creates them."""
        return self._process_groups()

    @raises(AssertionError)
    def _process_groups(self) -> _native.ProcessGroups:
        return self._native.process_groups

    # --- made, unmade

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
        """Says who stands together; of rank `rank` of `world_size`, else of this process's in torch.distributed."""
        given = {key: value for key, value in locals().items() if key not in ("self", "rank", "world_size")}
        given["get_embedding_ranks"] = given["get_position_embedding_ranks"] = None  # their stages, once they are known
        self._pure = self._pure or rank is not None or world_size is not None
        with self._connected(given):
            _check_sharp(use_sharp, sharp_enabled_group, num_distributed_optimizer_instances)
            _check_backend(pipeline_model_parallel_comm_backend)
            own_rank, world = self._known_world(rank, world_size)
            # Ranks and sizes only: timeouts belong to the process groups themselves.
            sizes = functools.partial(
                _native.Sizes,
                tensor_model_parallel_size=tensor_model_parallel_size,
                pipeline_model_parallel_size=pipeline_model_parallel_size,
                virtual_pipeline_model_parallel_size=virtual_pipeline_model_parallel_size,
                context_parallel_size=context_parallel_size,
                hierarchical_context_parallel_sizes=hierarchical_context_parallel_sizes,
                hybrid_context_parallel=bool(hybrid_context_parallel),
                expert_model_parallel_size=expert_model_parallel_size,
                gtp_remat_size=gtp_remat_size,
                expert_gtp_remat_size=expert_gtp_remat_size,
                num_distributed_optimizer_instances=num_distributed_optimizer_instances,
                expert_tensor_parallel_size=expert_tensor_parallel_size,
                order=order,
                create_gloo_process_groups=bool(create_gloo_process_groups),
                rank_offset=rank_offset,
                local_world_size=local_world_size,
                create_all_gather_group=bool(create_all_gather_group),
            )
            stages: list[list[int] | None] = [None, None]
            if get_embedding_ranks or get_position_embedding_ranks:
                groups = _native.ProcessGroups(sizes(embedding_stages=None, position_embedding_stages=None), world)
                desc = "PIPELINE_MODEL_PARALLEL_GROUP"
                pipeline = groups.group(desc, own_rank) or Group(groups.groups(desc)[0])
                stages = [_stages(pick, pipeline) for pick in (get_embedding_ranks, get_position_embedding_ranks)]
            given["get_embedding_ranks"], given["get_position_embedding_ranks"] = stages
            self._native.initialize_model_parallel(
                sizes(embedding_stages=stages[0], position_embedding_stages=stages[1])
            )

    def destroy_model_parallel(self) -> None:
        """Everything but the rank and its world is as before; torch's groups are ended."""
        if self._live is not None:
            self._live.destroy()
            self._live = None
        self._memory_buffer = None
        self._native.destroy_model_parallel()

    def is_initialized(self) -> bool:
        """True if this rank has a data-parallel group."""
        return self._native.is_initialized()

    def is_unitialized(self) -> bool:
        """The opposite of is_initialized, which the original no longer has."""
        _deprecated("is_unitialized is deprecated, use is_initialized instead")
        return not self.is_initialized()

    def model_parallel_is_initialized(self) -> bool:
        """True if this rank has tensor-, pipeline- and data-parallel groups."""
        return self._native.model_parallel_is_initialized()

    def has_separate_all_gather_group(self) -> bool:
        """True if `create_all_gather_group` made this rank a group to gather in."""
        return self._native.has_separate_all_gather_group()

    # --- groups

    def get_model_parallel_group(self, check_initialized: bool = True) -> Handle:
        """The tensor and pipeline parallel ranks of one replica, those of weight re-materialisation with them."""
        return self._get(check_initialized, self._native.get_model_parallel_group)

    def get_tensor_model_parallel_group(self, check_initialized: bool = True) -> Handle:
        """This rank's tensor-parallel group."""
        return self._get(check_initialized, self._native.get_tensor_model_parallel_group)

    def get_pipeline_model_parallel_group(self, check_initialized: bool = True) -> Handle:
        """This rank's pipeline."""
        return self._get(check_initialized, self._native.get_pipeline_model_parallel_group)

    def get_data_parallel_group(
        self,
        with_context_parallel: bool = False,
        with_gtp_remat: bool = True,
        partial_data_parallel: bool = False,
        *,
        independent_all_gather: bool = False,
    ) -> Handle:
        """Those who hold other samples: also along cp, along gtp_remat, or of one optimizer instance only.

        With context parallelism `independent_all_gather` is the second group of `create_all_gather_group`.
        """
        which = with_context_parallel, with_gtp_remat, partial_data_parallel, independent_all_gather
        return self._get(True, self._native.get_data_parallel_group, *which)

    def get_data_parallel_group_gloo(
        self, with_context_parallel: bool = False, partial_data_parallel: bool = False
    ) -> Handle:
        """The same on the host."""
        return self._get(True, self._native.get_data_parallel_group_gloo, with_context_parallel, partial_data_parallel)

    def get_context_parallel_group(self, check_initialized: bool = True) -> Handle:
        """This rank's context-parallel group."""
        return self._get(check_initialized, self._native.get_context_parallel_group)

    def get_context_parallel_global_ranks(self, check_initialized: bool = True) -> list[int] | None:
        """The ranks of this rank's context-parallel group."""
        return self._ranks(check_initialized, self._native.get_context_parallel_group)

    def get_hierarchical_context_parallel_groups(self, check_initialized: bool = True) -> Handle:
        """A list of one group a level, innermost first."""
        try:
            return [self._handle(*level) for level in self._native.get_hierarchical_context_parallel_groups()]
        except DialectError as error:
            if check_initialized or error.fault not in _ABSENT:
                raise
            return None

    def get_hybrid_data_context_parallel_groups(
        self, check_initialized: bool = True, group_size: int | None = None
    ) -> Handle:
        """The group of `group_size` consecutive data and context parallel ranks."""
        if group_size is None:
            raise original(KeyError, "give the group_size of a hybrid group", "missing")
        return self._get(check_initialized, self._native.get_hybrid_data_context_parallel_groups, group_size)

    def get_embedding_group(self, check_initialized: bool = True) -> Handle:
        """The ranks of this rank's pipeline that hold word embeddings, on these stages."""
        return self._get(check_initialized, self._native.get_embedding_group)

    def get_position_embedding_group(self, check_initialized: bool = True) -> Handle:
        """The ranks of this rank's pipeline that hold position embeddings, on these stages."""
        return self._get(check_initialized, self._native.get_position_embedding_group)

    def get_amax_reduction_group(self, with_context_parallel: bool = False, tp_only_amax_red: bool = False) -> Handle:
        """Those who agree on a largest value: tensor with data or context parallel ranks."""
        return self._get(True, self._native.get_amax_reduction_group, with_context_parallel, tp_only_amax_red)

    def get_tensor_and_data_parallel_group(
        self, check_initialized: bool = True, with_context_parallel: bool = False
    ) -> Handle:
        """The tensor and data parallel ranks of one stage."""
        return self._get(check_initialized, self._native.get_tensor_and_data_parallel_group, with_context_parallel)

    def get_tensor_and_context_parallel_group(self, check_initialized: bool = True) -> Handle:
        """The tensor and context parallel ranks of one replica's stage."""
        return self._get(check_initialized, self._native.get_tensor_and_context_parallel_group)

    def get_gtp_weight_remat_group(self, check_initialized: bool = True) -> Handle:
        """Those who share the pieces of a weight that is gathered before use."""
        return self._get(check_initialized, self._native.get_gtp_weight_remat_group)

    def get_gtp_weight_remat_global_ranks(self, check_initialized: bool = True) -> list[int] | None:
        """The ranks of that group."""
        return self._ranks(check_initialized, self._native.get_gtp_weight_remat_group)

    def get_expert_gtp_weight_remat_group(self, check_initialized: bool = True) -> Handle:
        """Those who share the pieces of an expert's weight."""
        return self._get(check_initialized, self._native.get_expert_gtp_weight_remat_group)

    def get_expert_gtp_weight_remat_global_ranks(self, check_initialized: bool = True) -> list[int] | None:
        """The ranks of that group."""
        return self._ranks(check_initialized, self._native.get_expert_gtp_weight_remat_group)

    def get_expert_model_parallel_group(self, check_initialized: bool = True) -> Handle:
        """Those who hold other experts."""
        return self._get(check_initialized, self._native.get_expert_model_parallel_group)

    def get_expert_tensor_parallel_group(self, check_initialized: bool = True) -> Handle:
        """Those who hold the other pieces of an expert."""
        return self._get(check_initialized, self._native.get_expert_tensor_parallel_group)

    def get_expert_tensor_and_model_parallel_group(self, check_initialized: bool = True) -> Handle:
        """All who hold one set of experts on a stage."""
        return self._get(check_initialized, self._native.get_expert_tensor_and_model_parallel_group)

    def get_expert_tensor_model_pipeline_parallel_group(
        self, check_initialized: bool = True, with_egtp_remat: bool = False
    ) -> Handle:
        """All who hold one set of experts on any stage."""
        getter = self._native.get_expert_tensor_model_pipeline_parallel_group
        return self._get(check_initialized, getter, with_egtp_remat)

    def get_expert_data_parallel_group(
        self,
        check_initialized: bool = True,
        with_gtp_remat: bool = True,
        partial_expert_data_parallel: bool = False,
    ) -> Handle:
        """Those who hold the same experts: also along gtp_remat, or of one optimizer instance only."""
        which = with_gtp_remat, partial_expert_data_parallel
        return self._get(check_initialized, self._native.get_expert_data_parallel_group, *which)

    def get_expert_data_parallel_group_gloo(self, partial_expert_data_parallel: bool = False) -> Handle:
        """The same on the host."""
        return self._get(True, self._native.get_expert_data_parallel_group_gloo, partial_expert_data_parallel)

    def get_data_modulo_expert_parallel_group(self, partial_expert_data_parallel: bool = False) -> Handle:
        """The same as get_expert_data_parallel_group, which the original no longer has."""
        _deprecated(
            "get_data_modulo_expert_parallel_group is deprecated, please use get_expert_data_parallel_group instead."
        )
        return self.get_expert_data_parallel_group(partial_expert_data_parallel=partial_expert_data_parallel)

    def get_intra_distributed_optimizer_instance_group(self, check_initialized: bool = True) -> Handle:
        """All ranks of one optimizer instance."""
        return self._get(check_initialized, self._native.get_intra_distributed_optimizer_instance_group)

    def get_inter_distributed_optimizer_instance_group(self, check_initialized: bool = True) -> Handle:
        """This rank's counterparts in the other optimizer instances."""
        return self._get(check_initialized, self._native.get_inter_distributed_optimizer_instance_group)

    def create_all_gather_groups(
        self,
        for_expert_parallelism: bool = False,
        timeout: Any = None,
        nccl_comm_cfgs: dict[str, Any] | None = None,
    ) -> tuple[Handle, Handle]:
        """Second groups of the dp-cp ranks and of the experts' dp ranks, for gathering beside the first ones.

        As in the original they are those of the default order without an offset.
        """
        if self._world is None or not self.is_initialized():
            text = (
                "create_all_gather_groups() requires parallel state to be initialized. "
                "Call initialize_model_parallel() first."
            )
            raise original(RuntimeError, text, "not initialised")
        pp = self.get_pipeline_model_parallel_world_size()
        ep = self.get_expert_model_parallel_world_size()
        dense = RankGenerator(
            tp=self.get_tensor_model_parallel_world_size(),
            ep=1,
            dp=self.get_data_parallel_world_size(),
            pp=pp,
            cp=self.get_context_parallel_world_size(),
            order=_inject_gtp_remat_axis("tp-cp-ep-dp-pp", after="tp"),
            gtp_remat=self.get_gtp_weight_remat_world_size() or 1,
        )
        made = [self._second(dense, "dp-cp", "DATA_PARALLEL_GROUP_WITH_CP_AG"), None]
        if for_expert_parallelism and ep > 1:
            expert = RankGenerator(
                tp=self.get_expert_tensor_parallel_world_size() or 1,
                ep=ep,
                dp=self.get_expert_data_parallel_world_size(),
                pp=pp,
                cp=1,
                order=_inject_gtp_remat_axis("tp-cp-ep-dp-pp", after="ep"),
                gtp_remat=self.get_expert_gtp_weight_remat_world_size() or 1,
            )
            made[1] = self._second(expert, "dp", "EXPERT_DATA_PARALLEL_GROUP_AG")
        return made[0], made[1]

    def _second(self, generator: RankGenerator, token: str, desc: str) -> Handle:
        group = generator.group(token, self._world[0]) if self._world else None
        if group is None or self._live is None:
            return group
        from rankmesh.torch._named import Named

        return self._live.add(Named(desc, group, apart=True))

    def _ranks(self, check_initialized: bool, getter: Callable[[], tuple[str, Group]]) -> list[int] | None:
        try:
            return list(getter()[1])
        except DialectError as error:
            if check_initialized or error.fault not in _ABSENT:
                raise
            return None

    # --- ranks and sizes

    def get_tensor_model_parallel_world_size(self) -> int:
        """The size of the tensor-parallel group, or what was set."""
        return self._native.get_tensor_model_parallel_world_size()

    def get_tensor_model_parallel_rank(self) -> int:
        """Where this rank stands in its tensor-parallel group, or what was set."""
        return self._native.get_tensor_model_parallel_rank()

    def get_pipeline_model_parallel_world_size(self) -> int:
        """The number of stages, or what was set."""
        return self._native.get_pipeline_model_parallel_world_size()

    def get_pipeline_model_parallel_rank(self) -> int:
        """This rank's stage, or what was set."""
        return self._native.get_pipeline_model_parallel_rank()

    def get_data_parallel_world_size(
        self, with_context_parallel: bool = False, with_gtp_remat: bool = True, partial_data_parallel: bool = False
    ) -> int:
        """The size of the data-parallel group; 0 where no world is known."""
        return self._native.get_data_parallel_world_size(with_context_parallel, with_gtp_remat, partial_data_parallel)

    def get_data_parallel_rank(
        self, with_context_parallel: bool = False, with_gtp_remat: bool = True, partial_data_parallel: bool = False
    ) -> int:
        """Where this rank stands in its data-parallel group, or what was set; 0 where no world is known."""
        return self._native.get_data_parallel_rank(with_context_parallel, with_gtp_remat, partial_data_parallel)

    def get_context_parallel_world_size(self) -> int:
        """The size of the context-parallel group; 0 where no world is known."""
        return self._native.get_context_parallel_world_size()

    def get_context_parallel_rank(self) -> int:
        """Where this rank stands in its context-parallel group; 0 where no world is known."""
        return self._native.get_context_parallel_rank()

    def get_tensor_and_context_parallel_world_size(self) -> int:
        """The size of the tensor and context parallel group; 0 where no world is known."""
        return self._native.get_tensor_and_context_parallel_world_size()

    def get_tensor_and_context_parallel_rank(self) -> int:
        """Where this rank stands in it; 0 where no world is known."""
        return self._native.get_tensor_and_context_parallel_rank()

    def get_gtp_weight_remat_world_size(self) -> int:
        """How many share the pieces of a weight; 0 where there is no group."""
        return self._native.get_gtp_weight_remat_world_size()

    def get_gtp_weight_remat_rank(self) -> int:
        """Which piece of a weight this rank has; 0 where there is no group."""
        return self._native.get_gtp_weight_remat_rank()

    def get_expert_gtp_weight_remat_world_size(self) -> int:
        """How many share the pieces of an expert's weight; 0 where there is no group."""
        return self._native.get_expert_gtp_weight_remat_world_size()

    def get_expert_gtp_weight_remat_rank(self) -> int:
        """Which piece of an expert's weight this rank has; 0 where there is no group."""
        return self._native.get_expert_gtp_weight_remat_rank()

    def get_expert_model_parallel_world_size(self) -> int:
        """The size of the expert-parallel group, or what was set; 0 where no world is known."""
        return self._native.get_expert_model_parallel_world_size()

    def get_expert_model_parallel_rank(self) -> int:
        """Where this rank stands in its expert-parallel group, or what was set; 0 where no world is known."""
        return self._native.get_expert_model_parallel_rank()

    def get_expert_tensor_parallel_world_size(self) -> int | None:
        """The size of the experts' tensor-parallel group, or what was set for it, else for tensor parallelism."""
        return self._native.get_expert_tensor_parallel_world_size()

    def get_expert_tensor_parallel_rank(self) -> int | None:
        """Where this rank stands in it, or what was set for it, else for tensor parallelism."""
        return self._native.get_expert_tensor_parallel_rank()

    def get_expert_tensor_and_model_parallel_world_size(self) -> int:
        """The number of ranks that hold one set of experts on a stage; 0 where no world is known."""
        return self._native.get_expert_tensor_and_model_parallel_world_size()

    def get_expert_tensor_and_model_parallel_rank(self) -> int:
        """Where this rank stands among them; 0 where no world is known."""
        return self._native.get_expert_tensor_and_model_parallel_rank()

    def get_expert_data_parallel_world_size(
        self, with_gtp_remat: bool = True, partial_expert_data_parallel: bool = False
    ) -> int:
        """The size of the experts' data-parallel group; 0 where no world is known."""
        return self._native.get_expert_data_parallel_world_size(with_gtp_remat, partial_expert_data_parallel)

    def get_expert_data_parallel_rank(
        self, with_gtp_remat: bool = True, partial_expert_data_parallel: bool = False
    ) -> int:
        """Where this rank stands in the experts' data-parallel group; 0 where no world is known."""
        return self._native.get_expert_data_parallel_rank(with_gtp_remat, partial_expert_data_parallel)

    def get_virtual_pipeline_model_parallel_world_size(self) -> int | None:
        """How many virtual stages there are; None without them."""
        return self._native.get_virtual_pipeline_model_parallel_world_size()

    def get_virtual_pipeline_model_parallel_rank(self) -> int | None:
        """The current virtual stage; None without them."""
        return self._native.get_virtual_pipeline_model_parallel_rank()

    def get_all_ranks(self) -> str:
        """`tp_gtp_dp_cp_pp_ep` of this rank: `0_0_2_1_0_0`."""
        return self._native.get_all_ranks()

    # --- set on the fly

    def set_tensor_model_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_tensor_model_parallel_world_size(world_size)

    def set_tensor_model_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_tensor_model_parallel_rank(rank)

    def set_pipeline_model_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_pipeline_model_parallel_world_size(world_size)

    def set_pipeline_model_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_pipeline_model_parallel_rank(rank)

    def set_data_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_data_parallel_rank(rank)

    def set_expert_model_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_expert_model_parallel_world_size(world_size)

    def set_expert_model_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_expert_model_parallel_rank(rank)

    def set_expert_tensor_parallel_world_size(self, world_size: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_expert_tensor_parallel_world_size(world_size)

    def set_expert_tensor_parallel_rank(self, rank: int | None) -> None:
        """What the getter answers from now on; None: the group's own again."""
        self._native.set_expert_tensor_parallel_rank(rank)

    def set_virtual_pipeline_model_parallel_world_size(self, world_size: int | None) -> None:
        """How many virtual stages there are; None: no virtual stages."""
        self._native.set_virtual_pipeline_model_parallel_world_size(world_size)

    def set_virtual_pipeline_model_parallel_rank(self, rank: int | None) -> None:
        """The current virtual stage; deprecated in the original, which passes `vp_stage` instead."""
        _deprecated(
            "set_virtual_pipeline_model_parallel_rank in global scope is deprecated. "
            "Pass vp_stage explicitly to is_pipeline_first_stage, is_pipeline_last_stage, etc."
        )
        self._native.set_virtual_pipeline_model_parallel_rank(rank)

    # --- stages

    def is_pipeline_first_stage(self, ignore_virtual: bool = True, vp_stage: int | None = None) -> bool:
        """True in the first stage, and there in virtual stage 0 unless that is ignored."""
        return self._native.is_pipeline_first_stage(ignore_virtual, vp_stage)

    def is_pipeline_last_stage(self, ignore_virtual: bool = True, vp_stage: int | None = None) -> bool:
        """True in the last stage, and there in the last virtual stage unless that is ignored."""
        return self._native.is_pipeline_last_stage(ignore_virtual, vp_stage)

    def is_rank_in_embedding_group(self, ignore_virtual: bool = True, vp_stage: int | None = None) -> bool:
        """True if this rank's stage holds word embeddings, in the virtual stage asked for."""
        return self._native.is_rank_in_embedding_group(ignore_virtual, vp_stage)

    def is_rank_in_position_embedding_group(self) -> bool:
        """True if this rank's stage holds position embeddings."""
        return self._native.is_rank_in_position_embedding_group()

    # --- whose first, who is next

    def get_tensor_model_parallel_src_rank(self) -> int:
        """The first rank of this rank's tensor-parallel group."""
        return self._native.get_tensor_model_parallel_src_rank()

    def get_model_parallel_src_rank(self) -> int:
        """The first rank of this rank's replica."""
        return self._native.get_model_parallel_src_rank()

    def get_expert_model_parallel_src_rank(self) -> int:
        """The first rank of this rank's expert-parallel group."""
        return self._native.get_expert_model_parallel_src_rank()

    def get_data_parallel_src_rank(self, with_context_parallel: bool = False) -> int:
        """The first rank of this rank's data-parallel group without weight re-materialisation."""
        return self._native.get_data_parallel_src_rank(with_context_parallel)

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


def _deprecated(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=4)


def _check_sharp(use_sharp: bool, group: str | None, instances: int) -> None:
    text = ""
    if not use_sharp and group is not None:
        text = "sharp_enabled_group is only valid when use_sharp is True"
    elif use_sharp and group not in (None, "dp", "dp_replica"):
        text = "Invalid sharp_enabled_group"
    elif group == "dp_replica" and instances <= 1:
        text = "dp_replica group requires num_distributed_optimizer_instances > 1"
    if text:
        raise original(AssertionError, text, "argument")


def _check_backend(backend: str | None) -> None:
    if backend not in (None, "nccl", "ucc"):
        text = f'"{backend}" backend for PP communication is currently not supported'
        raise original(AssertionError, text, "argument")


def _stages(pick: PickRanks | None, pipeline: Group) -> list[int] | None:
    """Where in a pipeline the ranks stand that hold an embedding."""
    if pick is None:
        return None
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


current = ParallelState()
"""What the functions of this module ask."""

initialize_model_parallel = current.initialize_model_parallel
destroy_model_parallel = current.destroy_model_parallel
is_initialized = current.is_initialized
model_parallel_is_initialized = current.model_parallel_is_initialized
get_model_parallel_group = current.get_model_parallel_group
get_tensor_model_parallel_group = current.get_tensor_model_parallel_group
get_pipeline_model_parallel_group = current.get_pipeline_model_parallel_group
get_data_parallel_group = current.get_data_parallel_group
get_data_parallel_group_gloo = current.get_data_parallel_group_gloo
get_context_parallel_group = current.get_context_parallel_group
get_context_parallel_global_ranks = current.get_context_parallel_global_ranks
get_hierarchical_context_parallel_groups = current.get_hierarchical_context_parallel_groups
get_hybrid_data_context_parallel_groups = current.get_hybrid_data_context_parallel_groups
get_embedding_group = current.get_embedding_group
get_position_embedding_group = current.get_position_embedding_group
get_amax_reduction_group = current.get_amax_reduction_group
get_tensor_and_data_parallel_group = current.get_tensor_and_data_parallel_group
get_tensor_and_context_parallel_group = current.get_tensor_and_context_parallel_group
get_gtp_weight_remat_group = current.get_gtp_weight_remat_group
get_gtp_weight_remat_global_ranks = current.get_gtp_weight_remat_global_ranks
get_expert_gtp_weight_remat_group = current.get_expert_gtp_weight_remat_group
get_expert_gtp_weight_remat_global_ranks = current.get_expert_gtp_weight_remat_global_ranks
get_expert_model_parallel_group = current.get_expert_model_parallel_group
get_expert_tensor_parallel_group = current.get_expert_tensor_parallel_group
get_expert_tensor_and_model_parallel_group = current.get_expert_tensor_and_model_parallel_group
get_expert_tensor_model_pipeline_parallel_group = current.get_expert_tensor_model_pipeline_parallel_group
get_expert_data_parallel_group = current.get_expert_data_parallel_group
get_expert_data_parallel_group_gloo = current.get_expert_data_parallel_group_gloo
get_intra_distributed_optimizer_instance_group = current.get_intra_distributed_optimizer_instance_group
get_inter_distributed_optimizer_instance_group = current.get_inter_distributed_optimizer_instance_group
create_all_gather_groups = current.create_all_gather_groups
has_separate_all_gather_group = current.has_separate_all_gather_group
is_unitialized = current.is_unitialized
get_data_modulo_expert_parallel_group = current.get_data_modulo_expert_parallel_group
get_tensor_model_parallel_world_size = current.get_tensor_model_parallel_world_size
get_tensor_model_parallel_rank = current.get_tensor_model_parallel_rank
get_pipeline_model_parallel_world_size = current.get_pipeline_model_parallel_world_size
get_pipeline_model_parallel_rank = current.get_pipeline_model_parallel_rank
get_data_parallel_world_size = current.get_data_parallel_world_size
get_data_parallel_rank = current.get_data_parallel_rank
get_context_parallel_world_size = current.get_context_parallel_world_size
get_context_parallel_rank = current.get_context_parallel_rank
get_tensor_and_context_parallel_world_size = current.get_tensor_and_context_parallel_world_size
get_tensor_and_context_parallel_rank = current.get_tensor_and_context_parallel_rank
get_gtp_weight_remat_world_size = current.get_gtp_weight_remat_world_size
get_gtp_weight_remat_rank = current.get_gtp_weight_remat_rank
get_expert_gtp_weight_remat_world_size = current.get_expert_gtp_weight_remat_world_size
get_expert_gtp_weight_remat_rank = current.get_expert_gtp_weight_remat_rank
get_expert_model_parallel_world_size = current.get_expert_model_parallel_world_size
get_expert_model_parallel_rank = current.get_expert_model_parallel_rank
get_expert_tensor_parallel_world_size = current.get_expert_tensor_parallel_world_size
get_expert_tensor_parallel_rank = current.get_expert_tensor_parallel_rank
get_expert_tensor_and_model_parallel_world_size = current.get_expert_tensor_and_model_parallel_world_size
get_expert_tensor_and_model_parallel_rank = current.get_expert_tensor_and_model_parallel_rank
get_expert_data_parallel_world_size = current.get_expert_data_parallel_world_size
get_expert_data_parallel_rank = current.get_expert_data_parallel_rank
get_virtual_pipeline_model_parallel_world_size = current.get_virtual_pipeline_model_parallel_world_size
get_virtual_pipeline_model_parallel_rank = current.get_virtual_pipeline_model_parallel_rank
get_all_ranks = current.get_all_ranks
set_tensor_model_parallel_world_size = current.set_tensor_model_parallel_world_size
set_tensor_model_parallel_rank = current.set_tensor_model_parallel_rank
set_pipeline_model_parallel_world_size = current.set_pipeline_model_parallel_world_size
set_pipeline_model_parallel_rank = current.set_pipeline_model_parallel_rank
set_data_parallel_rank = current.set_data_parallel_rank
set_expert_model_parallel_world_size = current.set_expert_model_parallel_world_size
set_expert_model_parallel_rank = current.set_expert_model_parallel_rank
set_expert_tensor_parallel_world_size = current.set_expert_tensor_parallel_world_size
set_expert_tensor_parallel_rank = current.set_expert_tensor_parallel_rank
set_virtual_pipeline_model_parallel_world_size = current.set_virtual_pipeline_model_parallel_world_size
set_virtual_pipeline_model_parallel_rank = current.set_virtual_pipeline_model_parallel_rank
is_pipeline_first_stage = current.is_pipeline_first_stage
is_pipeline_last_stage = current.is_pipeline_last_stage
is_rank_in_embedding_group = current.is_rank_in_embedding_group
is_rank_in_position_embedding_group = current.is_rank_in_position_embedding_group
get_tensor_model_parallel_src_rank = current.get_tensor_model_parallel_src_rank
get_model_parallel_src_rank = current.get_model_parallel_src_rank
get_expert_model_parallel_src_rank = current.get_expert_model_parallel_src_rank
get_data_parallel_src_rank = current.get_data_parallel_src_rank
get_pipeline_model_parallel_first_rank = current.get_pipeline_model_parallel_first_rank
get_pipeline_model_parallel_last_rank = current.get_pipeline_model_parallel_last_rank
get_pipeline_model_parallel_next_rank = current.get_pipeline_model_parallel_next_rank
get_pipeline_model_parallel_prev_rank = current.get_pipeline_model_parallel_prev_rank


def get_global_memory_buffer() -> Any:
    """Megatron-core's own GlobalMemoryBuffer, one from initialize_model_parallel to destroy_model_parallel."""
    if not is_initialized():
        raise original(AssertionError, "global memory buffer is not initialized", "not initialised")
    if current._memory_buffer is None:
        from importlib import import_module

        try:
            current._memory_buffer = import_module("megatron.core.utils").GlobalMemoryBuffer()
        except ImportError as error:
            text = "get_global_memory_buffer gives what megatron.core.utils has, which could not be imported"
            raise NotBuilt(f"{text}: {error}") from None
    return current._memory_buffer


def destroy_global_memory_buffer() -> None:
    """Forgets it; the next one that is asked for is new."""
    current._memory_buffer = None


_created: list[Any] = []


def create_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> Any:
    """torch's new_group, whose group `update_pg_timeout` knows."""
    import torch.distributed as dist

    group = dist.new_group(
        ranks if ranks is None else list(ranks),
        timeout=timeout,
        backend=backend,
        pg_options=pg_options,
        use_local_synchronization=use_local_synchronization,
        group_desc=group_desc,
    )
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        _created.append(group)
    return group


def update_pg_timeout(timeout: Any, pg: Any = None) -> None:
    """Sets the timeout of a group, or of the default group and all made here, after a barrier of its ranks."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    dist.barrier(pg)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    live = [] if current._live is None else current._live.groups
    for group in [pg] if pg is not None else [None, *_created, *live]:
        c10d._set_pg_timeout(timeout, group)


# The original's module variables: what a getter gives, None where it raises.
_GROUPS: dict[str, Callable[[], Handle]] = {
    "_TENSOR_MODEL_PARALLEL_GROUP": get_tensor_model_parallel_group,
    "_GTP_WEIGHT_REMAT_GROUP": get_gtp_weight_remat_group,
    "_PIPELINE_MODEL_PARALLEL_GROUP": get_pipeline_model_parallel_group,
    "_MODEL_PARALLEL_GROUP": get_model_parallel_group,
    "_EMBEDDING_GROUP": get_embedding_group,
    "_POSITION_EMBEDDING_GROUP": get_position_embedding_group,
    "_DATA_PARALLEL_GROUP": functools.partial(get_data_parallel_group, with_gtp_remat=False),
    "_DATA_PARALLEL_GROUP_GLOO": get_data_parallel_group_gloo,
    "_DATA_PARALLEL_GROUP_WITH_CP": functools.partial(get_data_parallel_group, True, with_gtp_remat=False),
    "_DATA_PARALLEL_GROUP_WITH_CP_GLOO": functools.partial(get_data_parallel_group_gloo, True),
    "_CONTEXT_PARALLEL_GROUP": get_context_parallel_group,
    "_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS": get_hierarchical_context_parallel_groups,
    "_TENSOR_AND_DATA_PARALLEL_GROUP": get_tensor_and_data_parallel_group,
    "_TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP": functools.partial(
        get_tensor_and_data_parallel_group, with_context_parallel=True
    ),
    "_TENSOR_AND_CONTEXT_PARALLEL_GROUP": get_tensor_and_context_parallel_group,
    "_EXPERT_GTP_WEIGHT_REMAT_GROUP": get_expert_gtp_weight_remat_group,
    "_EXPERT_MODEL_PARALLEL_GROUP": get_expert_model_parallel_group,
    "_EXPERT_TENSOR_PARALLEL_GROUP": get_expert_tensor_parallel_group,
    "_EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": get_expert_tensor_and_model_parallel_group,
    "_EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP": get_expert_tensor_model_pipeline_parallel_group,
    "_EXPERT_DATA_PARALLEL_GROUP": functools.partial(get_expert_data_parallel_group, with_gtp_remat=False),
    "_EXPERT_DATA_PARALLEL_GROUP_GLOO": get_expert_data_parallel_group_gloo,
    "_INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP": get_intra_distributed_optimizer_instance_group,
}


def __getattr__(name: str) -> Handle:
    if name not in _GROUPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _GROUPS[name]()
    except DialectError as error:
        if error.fault not in _ABSENT:
            raise
        return None
