"""OLMo-core's pipeline configuration and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from rankmesh._device_mesh import DeviceMesh
from rankmesh._dialects import device_mesh, olmo
from rankmesh._enums import StrEnum
from rankmesh._errors import UsageError
from rankmesh._originals import raises
from rankmesh.olmo._faults import kind


class PipelineSplitStyle(StrEnum):
    """How stages lie over ranks: round and round, or forth and back."""

    loop = "loop"
    v = "v"


class PipelineScheduleType(StrEnum):
    """The schedules, by torch's names."""

    single_1F1B = "1F1B"  # noqa: N815 (the original's name)
    interleaved_1F1B = "Interleaved1F1B"  # noqa: N815
    gpipe = "GPipe"
    looped_bfs = "LoopedBFS"
    interleaved_zero_bubble = "InterleavedZeroBubble"
    zbv_zero_bubble = "ZBVZeroBubble"

    @property
    def is_single_stage(self) -> bool:
        """True for those that run one stage a rank."""
        return olmo.is_single_stage(self.value)

    @property
    def is_multi_stage(self) -> bool:
        """True for all others."""
        return not self.is_single_stage

    @property
    def default_style(self) -> PipelineSplitStyle:
        """The style that the schedule is made for."""
        return PipelineSplitStyle(olmo.default_style(self.value))


@dataclass
class PipelineParallelConfig:
    """How many ranks a pipeline has, and in which order they run its stages."""

    degree: int
    schedule: PipelineScheduleType = PipelineScheduleType.interleaved_1F1B
    style: PipelineSplitStyle | None = None

    def _settings(self) -> tuple[int, str, str | None]:
        return self.degree, str(self.schedule), None if self.style is None else str(self.style)

    def infer_style(self) -> PipelineSplitStyle:
        """The style given, else the schedule's own."""
        return PipelineScheduleType(self.schedule).default_style if self.style is None else self.style

    @raises(kind)
    def final_stage_rank(self) -> int:
        """The rank of the pipeline that has the last stage."""
        return olmo.final_stage_rank(*self._settings())

    @raises(kind)
    def rank_completion_order(self) -> Iterable[int]:
        """The ranks of the pipeline in the order in which they complete a batch."""
        return olmo.rank_completion_order(*self._settings())

    @raises(kind)
    def stage_ids_this_rank(self, pp_rank: int, num_stages: int) -> tuple[int, ...]:
        """The stages of one rank of the pipeline: every degree-th, or two from both ends."""
        return tuple(olmo.stage_ids_this_rank(*self._settings(), pp_rank, num_stages))


class Stage(Protocol):
    """What a schedule asks of a stage, as torch's PipelineStage has it."""

    @property
    def is_first(self) -> bool:
        """True for the stage that starts the model."""

    @property
    def is_last(self) -> bool:
        """True for the stage that ends it."""


class PipelineSchedule:
    """Which stages this rank runs under which schedule, and in how many microbatches.

    On a pp_mesh of torch it has torch's schedule of them, which `step` runs.
    """

    base_schedule: Any = None

    @raises(kind)
    def __init__(
        self,
        *,
        model_parts: Sequence[Any],
        stages: Sequence[Stage],
        pp_mesh: Any,
        schedule_name: PipelineScheduleType,
        loss_fn: Callable[[Any, Any], Any] | None = None,
        num_microbatches: int | None = None,
    ) -> None:
        self.model_parts = model_parts
        self.stages = stages
        self.pp_mesh = pp_mesh
        self.schedule_name = schedule_name
        self.loss_fn = loss_fn
        live = not isinstance(pp_mesh, DeviceMesh)
        of = device_mesh.init_device_mesh(pp_mesh.shape, None, 0, pp_mesh.size()) if live else pp_mesh._of
        self.num_microbatches = olmo.num_microbatches(len(stages), of, str(schedule_name), num_microbatches)
        if live:
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

    def step(self, *args: Any, target: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        """Runs the stages on a batch: the output, and where the last stage is here its losses, else None."""
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
