"""OLMo-core's configurations: classes that programs make.

By hand, because a pipeline makes a group of torch, and tensors may be exchanged by torch's compiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh, native_of
from rankmesh._enums import StrEnum
from rankmesh._originals import original
from rankmesh._world import world_of
from rankmesh.olmo.exceptions import _ask, configuration_error


class DType(StrEnum):
    """The dtypes of parameters and of their reductions, as in olmo_core.config."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float8_e4m3fn = "float8_e4m3fn"
    float8_e5m2 = "float8_e5m2"

    def as_pt(self) -> Any:
        """torch's dtype of this name."""
        return getattr(importlib.import_module("torch"), self.value)


class DPMeshDimName(StrEnum):
    """The names of a mesh's data parallel dimensions."""

    replicate = "dp_replicate"
    shard = "dp_shard"


class DataParallelType(StrEnum):
    """fsdp and ddp give the same mesh; hsdp shards within replicas."""

    fsdp = "fsdp"
    hsdp = "hsdp"
    ddp = "ddp"


@dataclass
class DataParallelConfig:
    """Of what type data parallelism is, and how many replicas of how many shards."""

    name: DataParallelType
    param_dtype: DType | None = None
    reduce_dtype: DType = DType.float32
    num_replicas: int | None = None
    shard_degree: int | None = None

    def get_replicate_and_shard_degree(self, dp_world_size: int, *, num_nodes: int | None = None) -> tuple[int, int]:
        """The number of replicas and of shards: one replica a node if neither is given."""
        given = {"num_replicas": self.num_replicas, "shard_degree": self.shard_degree, "num_nodes": num_nodes}
        place = None
        if not any(each is not None for each in given.values()) and "NUM_NODES" not in os.environ:
            place = world_of("get_replicate_and_shard_degree without num_nodes=", None, None)
        replicas, shards = _ask("get_replicate_and_shard_degree", place, dp_world_size=dp_world_size, **given)
        return replicas, shards


@dataclass
class TensorParallelConfig:
    """How many ranks share a tensor."""

    degree: int
    enable_async: bool = False

    def maybe_enable_async_tp(self, tp_mesh: Any) -> None:
        """Has torch's compiler overlap the group's communication with products of matrices, where that is enabled."""
        if not self.enable_async:
            return
        import torch._inductor.config
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group

        torch._inductor.config._micro_pipeline_tp = True
        enable_symm_mem_for_group(tp_mesh.get_group().group_name)


@dataclass
class ContextParallelConfig:
    """How many ranks share a sequence."""

    degree: int


@dataclass
class ExpertParallelConfig:
    """Over how many ranks experts are sharded; a negative degree stands for as many as there are."""

    degree: int


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
        return bool(_ask("is_single_stage", schedule=self))

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
        return int(self._pipeline("final_stage_rank"))

    def rank_completion_order(self) -> Iterable[int]:
        """The ranks of the pipeline in the order in which they complete a batch."""
        return list(self._pipeline("rank_completion_order"))

    def stage_ids_this_rank(self, pp_rank: int, num_stages: int) -> tuple[int, ...]:
        """The stages of one rank of the pipeline: every degree-th, or two from both ends."""
        return tuple(self._pipeline("stage_ids_this_rank", pp_rank=pp_rank, num_stages=num_stages))
