"""DeepSpeed's module_inject/auto_ep_folding.py: how AutoEP's experts and AutoTP's tensors share the ranks of a stage.

`tensor_parallel.autotp_size` and `expert_parallel.autoep_size` of the configuration make a spec, and with it
`groups._create_expert_and_data_parallel` makes groups of consecutive ranks, which may span tensor lanes.

>>> spec = build_folding_spec(world_size=8, pp_size=1, tp_size=2, ep_size=4)
>>> expected_folding_group_tables(spec).ep_groups
((0, 1, 2, 3), (4, 5, 6, 7))
"""

# By hand: its specs are objects of programs, for any world.
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from rankmesh import Mesh
from rankmesh._connected import of_mpu
from rankmesh._originals import original

Ranks: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ParallelFoldingSpec:
    """The sizes of a folding."""

    world_size: int
    pp_size: int
    stage_size: int
    tp_size: int
    dp_size: int
    ep_size: int
    etp_size: int
    edp_size: int
    mp_mode: str = "tp"


@dataclass(frozen=True)
class FoldingGroupTables:
    """All groups of a folding, kind by kind."""

    tp_groups: tuple[Ranks, ...]
    dense_dp_groups: tuple[Ranks, ...]
    ep_groups: tuple[Ranks, ...]
    edp_groups: tuple[Ranks, ...]


def _refuse(text: str) -> None:
    raise original(ValueError, text, "sizes")


def build_folding_spec(
    *, world_size: int, pp_size: int, tp_size: int, ep_size: int, etp_size: int = 1, mp_mode: str = "tp"
) -> ParallelFoldingSpec:
    """The spec of these sizes; ValueError for one below 1 or that does not divide."""
    names = {
        "world_size": world_size,
        "pp_size": pp_size,
        "tensor_parallel.autotp_size": tp_size,
        "expert_parallel.autoep_size": ep_size,
        "expert_parallel.expert_tensor_parallel_size": etp_size,
    }
    for name, size in names.items():
        if not isinstance(size, int) or size < 1:
            _refuse(f"{name} must be a positive integer, got {size!r}")
    if world_size % pp_size:
        _refuse(f"pp_size={pp_size} must divide world_size={world_size}")
    stage = world_size // pp_size
    if stage % tp_size:
        _refuse(f"tensor_parallel.autotp_size={tp_size} must divide the stage size, which is {stage}")
    if stage % (ep_size * etp_size):
        _refuse(
            f"expert_parallel.autoep_size * expert_parallel.expert_tensor_parallel_size ({ep_size} * {etp_size}) "
            f"must divide the stage size, which is {stage}"
        )
    dp_size, edp_size = stage // tp_size, stage // (ep_size * etp_size)
    return ParallelFoldingSpec(world_size, pp_size, stage, tp_size, dp_size, ep_size, etp_size, edp_size, mp_mode)


def _unsupported(spec: ParallelFoldingSpec) -> str:
    return f"expert_parallel.expert_tensor_parallel_size={spec.etp_size} is not supported yet; it must be 1"


def _axes(spec: ParallelFoldingSpec) -> Iterator[tuple[str, Mesh, str]]:
    """Each kind of groups with its mesh, the dense one or the experts', and the axis of its groups."""
    if spec.etp_size != 1:
        _refuse(_unsupported(spec))
    dense = Mesh(f"pp={spec.pp_size} dp={spec.dp_size} tp={spec.tp_size}")
    experts = Mesh(f"pp={spec.pp_size} edp={spec.edp_size} ep={spec.ep_size}")
    yield from (("tp", dense, "tp"), ("dense_dp", dense, "dp"), ("ep", experts, "ep"), ("edp", experts, "edp"))


def expected_folding_group_tables(spec: ParallelFoldingSpec) -> FoldingGroupTables:
    """All groups of a spec, stage by stage."""
    kinds = {f"{name}_groups": mesh.partition(axis) for name, mesh, axis in _axes(spec)}
    return FoldingGroupTables(**{name: tuple(tuple(group) for group in groups) for name, groups in kinds.items()})


def local_folding_ranks(global_rank: int, spec: ParallelFoldingSpec) -> dict[str, Ranks]:
    """The groups of one rank: tp, dense_dp, ep and edp."""
    return {name: tuple(mesh.group(global_rank, axis)) for name, mesh, axis in _axes(spec)}


def validate_folding_global(
    spec: ParallelFoldingSpec,
    *,
    zero_stage: int = 0,
    sp_size: int = 1,
    deepcompile_enabled: bool = False,
    use_data_before_expert_parallel: bool = False,
    mpu: Any = None,
    autoep_enabled: bool = True,
    tp_preset: str | None = None,
    ep_preset: str | None = None,
    zero_offload_optimizer: bool = False,
    zero_offload_param: bool = False,
) -> None:
    """Raises ValueError for what DeepSpeed does not fold."""
    if not autoep_enabled:
        return
    tensor = f"tensor_parallel.autotp_size={spec.tp_size}"
    experts = f"{tensor} with experts"
    presets = f"tensor_parallel.preset_model={tp_preset!r} and expert_parallel.preset_model={ep_preset!r}"
    folded = spec.tp_size > 1
    mpu_tensor = of_mpu(mpu, "get_tensor_model_parallel_world_size", "get_model_parallel_world_size")
    mpu_stages = of_mpu(mpu, "get_pipeline_model_parallel_world_size", "get_pipeline_parallel_world_size")
    other_tensor, other_stages = mpu_tensor not in (None, 1, spec.tp_size), mpu_stages not in (None, spec.pp_size)
    offloads = zero_offload_optimizer or zero_offload_param
    wrong = {
        f"{tensor} is not supported with compile.deepcompile; disable it": folded and deepcompile_enabled,
        f"{experts} supports pp_size=1 only, got pp_size={spec.pp_size}": folded and spec.pp_size > 1,
        f"{experts} and sp_size={sp_size} are mutually exclusive": folded and sp_size > 1,
        _unsupported(spec): spec.etp_size != 1,
        f"{presets} must match": None not in (tp_preset, ep_preset) and tp_preset != ep_preset,
        f"{experts} requires expert_parallel.autoep_size > 1": folded and spec.ep_size == 1,
        f"{experts} is not supported with use_data_before_expert_parallel_; disable it": folded
        and use_data_before_expert_parallel,
        f"{experts} is not supported with ZeRO offload; disable it": folded and offloads,
        f"the mpu's tensor parallel world size {mpu_tensor} conflicts with {tensor}": other_tensor,
        f"the mpu's pipeline parallel world size {mpu_stages} conflicts with pp_size={spec.pp_size}": other_stages,
    }
    for text, is_wrong in wrong.items():
        if is_wrong:
            _refuse(text)
