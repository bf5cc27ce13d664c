"""OLMo-core's pipeline configuration and schedules: classes that programs make, and that keep their stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh, native_of
from rankmesh._enums import StrEnum
from rankmesh._errors import UsageError
from rankmesh._originals import original
from rankmesh.olmo.exceptions import _ask, configuration_error


class PipelineSplitStyle(StrEnum):
    """How stages lie over ranks: round and round, or forth and back."""

    loop = "loop"
    v = "v"


class PipelineScheduleType(StrEnum):
    """The schedules, by torch's names, and OLMo-core's own."""

    single_1F1B = "1F1B"  # noqa: N815 (the original's name)
    interleaved_1F1B = "Interleaved1F1B"  # noqa: N815
    gpipe = "GPipe"
    looped_bfs = "LoopedBFS"
    interleaved_zero_bubble = "InterleavedZeroBubble"
    zbv_zero_bubble = "ZBVZeroBubble"
    custom_1F1B = "Custom1F1B"  # noqa: N815
    custom_interleaved_1F1B = "CustomInterleaved1F1B"  # noqa: N815
    custom_1F1B_V = "Custom1F1BV"  # noqa: N815

    @property
    def is_single_stage(self) -> bool:
        """True for those that run one stage a rank."""
        single: bool = _ask("is_single_stage", schedule=self)
        return single

    @property
    def is_multi_stage(self) -> bool:
        """True for all others."""
        return not self.is_single_stage

    @property
    def default_style(self) -> PipelineSplitStyle:
        """The style that the schedule is made for."""
        return PipelineSplitStyle(_ask("infer_style", schedule=self))


class PipelineP2PBackend(StrEnum):
    """What carries activations and gradients between stages."""

    nccl = "nccl"
    nccl_rma = "nccl_rma"
    nccl_rma_ack = "nccl_rma_ack"
    nccl_device = "nccl_device"


@dataclass
class PipelineParallelConfig:
    """How many ranks a pipeline has, and in which order they run its stages."""

    degree: int
    schedule: PipelineScheduleType = PipelineScheduleType.interleaved_1F1B
    style: PipelineSplitStyle | None = None
    p2p_use_separate_group: bool = False
    p2p_backend: PipelineP2PBackend = PipelineP2PBackend.nccl
    p2p_nccl_min_ctas: int | None = None
    p2p_nccl_max_ctas: int | None = None
    forward_pull_ahead_extra_activations: list[int] | None = None

    def uses_separate_p2p_group(self) -> bool:
        """True where activations and gradients have a group of their own."""
        return self.p2p_use_separate_group

    def build_p2p_process_group(self, device_mesh: Any) -> Any:
        """The group, or without a process the ranks, between whose stages activations and gradients go.

        None unless `p2p_use_separate_group` is true.
        """
        names = ("p2p_use_separate_group", "p2p_backend", "p2p_nccl_min_ctas", "p2p_nccl_max_ctas")
        given = {"device_mesh": native_of(device_mesh)} | {name: getattr(self, name) for name in names}
        if isinstance(device_mesh, DeviceMesh) or not self.p2p_use_separate_group:
            ranks = _ask("build_p2p_process_group", **given)
            return None if ranks is None else Group(ranks)
        from rankmesh.torch._named import Named, NamedGroups, errors_reach_peers

        settings = (str(self.p2p_backend), self.p2p_nccl_min_ctas, self.p2p_nccl_max_ctas)
        said = f"olmo: P2P group of {device_mesh.mesh_dim_names} of {tuple(device_mesh.shape)} by {settings}"
        with errors_reach_peers(said):
            _ask("build_p2p_process_group", **given)
            options = self._p2p_nccl_options()
        ranks, backend = Group(device_mesh["pp"].mesh.tolist()), None if options is None else "nccl"
        group = Named("pipeline_p2p", ranks, backend, apart=True, pg_options=options)
        return NamedGroups(said, [group])[group.name]

    def _p2p_nccl_options(self) -> Any:
        """torch's options of NCCL with the CTAs that are given; None where none are."""
        if self.p2p_nccl_min_ctas is None and self.p2p_nccl_max_ctas is None:
            return None
        import torch.distributed as dist

        nccl: Any = getattr(dist, "ProcessGroupNCCL", None)
        options = nccl and nccl.Options()
        if not hasattr(options, "config"):
            text = "P2P NCCL CTA caps require a PyTorch with ProcessGroupNCCL.Options.config"
            raise original(configuration_error(), text, "missing")
        for name, ctas in (("min_ctas", self.p2p_nccl_min_ctas), ("max_ctas", self.p2p_nccl_max_ctas)):
            if ctas is not None:
                setattr(options.config, name, ctas)
        return options

    def _pipeline(self, accessor: str, **options: Any) -> Any:
        return _ask(accessor, degree=self.degree, schedule=self.schedule, style=self.style, **options)

    def infer_style(self) -> PipelineSplitStyle:
        """The style given, else the schedule's own; OLMo-core's own schedules have one style each."""
        return PipelineSplitStyle(_ask("infer_style", schedule=self.schedule, style=self.style))

    def final_stage_rank(self) -> int:
        """The rank of the pipeline that has the last stage."""
        rank: int = self._pipeline("final_stage_rank")
        return rank

    def rank_completion_order(self) -> Iterable[int]:
        """The ranks of the pipeline in the order in which they complete a batch."""
        ranks: list[int] = self._pipeline("rank_completion_order")
        return ranks

    def stage_ids_this_rank(self, pp_rank: int, num_stages: int) -> tuple[int, ...]:
        """The stages of one rank of the pipeline: every degree-th, or two from both ends."""
        return tuple(self._pipeline("stage_ids_this_rank", pp_rank=pp_rank, num_stages=num_stages))


OWN_SCHEDULES = {
    PipelineScheduleType.custom_interleaved_1F1B: "CustomScheduleInterleaved1F1B",
    PipelineScheduleType.custom_1F1B_V: "CustomSchedule1F1BV",
}
"""OLMo-core's classes of its own schedules, which rankmesh does not replace."""


def _own_schedule(name: PipelineScheduleType) -> Any:
    """The installed OLMo-core's class of a schedule of its own."""
    module = "olmo_core.train.train_module.transformer.pipeline.pipeline_schedule"
    try:
        return getattr(import_module(module), OWN_SCHEDULES[name])
    except ModuleNotFoundError as error:
        text = f"schedule {name} is OLMo-core's own, and there is no module {error.name}: install OLMo-core 3.0"
        raise UsageError(f"{text}, or use a schedule of torch") from None


class PipelineSchedule:
    """Which stages this rank runs under which schedule, and in how many microbatches.

    On a pp_mesh of torch, `step` runs torch's schedule (`base_schedule`) or OLMo-core's own (`schedule_impl`).
    """

    base_schedule: Any = None
    schedule_impl: Any = None

    def __init__(
        self,
        *,
        model_parts: Sequence[Any],
        stages: Sequence[Any],
        pp_mesh: Any,
        schedule_name: PipelineScheduleType,
        loss_fn: Callable[[Any, Any], Any] | None = None,
        num_microbatches: int | None = None,
        forward_pull_ahead_extra_activations: list[int] | None = None,
        save_plot: bool = False,
        plot_dir: str | None = None,
    ) -> None:
        if save_plot:
            raise UsageError(f"rankmesh.olmo does not plot schedules, not into {plot_dir}; set save_plot to False")
        self.model_parts = model_parts
        self.stages = stages
        self.pp_mesh = pp_mesh
        self.schedule_name = schedule_name
        self.loss_fn = loss_fn
        given = {"schedule": schedule_name, "num_microbatches": num_microbatches}
        self.num_microbatches = _ask("num_microbatches", stages=len(stages), pp_size=pp_mesh.size(), **given)
        if not isinstance(pp_mesh, DeviceMesh):
            if schedule_name in OWN_SCHEDULES:
                self.schedule_impl = _own_schedule(schedule_name)(
                    stages,
                    n_microbatches=self.num_microbatches,
                    forward_pull_ahead_extra_activations=forward_pull_ahead_extra_activations or 0,
                )
                return
            from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

            schedule: Any = get_schedule_class(str(schedule_name))
            run = stages[0] if issubclass(schedule, PipelineScheduleSingle) else stages
            self.base_schedule = schedule(run, n_microbatches=self.num_microbatches, loss_fn=loss_fn)

    @cached_property
    def has_first_stage(self) -> bool:
        """True if one of the stages starts the model."""
        return any(stage.is_first for stage in self.stages)

    @cached_property
    def has_last_stage(self) -> bool:
        """True if one of the stages ends it."""
        return any(stage.is_last for stage in self.stages)

    def step(self, *args: Any, target: Any = None, **kwargs: Any) -> Any:
        """Runs the stages on a batch.

        Schedules of torch return the output, and where the last stage is here its losses, else None. OLMo-core's own
        take `forward_only` and `num_microbatches` too, and return a list of outputs for each stage.
        """
        if self.schedule_impl is not None:
            return self._step_own(*args, **kwargs | ({} if target is None else {"target": target}))
        if self.base_schedule is None:
            raise UsageError(
                f"a step of schedule {self.schedule_name} runs stages on other ranks, and asks for processes"
            )
        losses: list[Any] | None = [] if self.has_last_stage and self.loss_fn is not None else None
        output = self.base_schedule.step(*args, target=None if losses is None else target, losses=losses, **kwargs)
        if losses is None:
            return output, None
        import torch

        return output, torch.stack(losses)

    def _step_own(
        self,
        input_ids: Any,
        target: Any = None,
        forward_only: bool = False,
        num_microbatches: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """A step of OLMo-core's own schedule; without gradients a microbatch is one sequence."""
        own = self.schedule_impl
        usual = own._n_microbatches
        wanted = input_ids.size(0) if forward_only else num_microbatches or usual
        if wanted != usual:
            own.reset_n_microbatches(wanted)
        own.prepare_step(global_batch_size=input_ids.size(0), seqlen=input_ids.size(1))
        inputs = (input_ids,) if self.has_first_stage else ()
        target = target if self.has_last_stage else None
        output = own.step(*inputs, target=target, forward_only=forward_only, **kwargs)
        own.clear_step_info()
        if wanted != usual:
            own.reset_n_microbatches(usual)
        return output
