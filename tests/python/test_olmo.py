"""OLMo-core's names where the recorded cases say nothing."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import rankmesh
from rankmesh import Mesh, olmo
from signatures import signature

HSDP = olmo.DataParallelConfig(olmo.DataParallelType.hsdp, num_replicas=2)
FSDP = olmo.DataParallelConfig(name=olmo.DataParallelType.fsdp)
WORLD = ("rank", "world_size")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(olmo._world, "_built", None)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    for name in ("NUM_NODES", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_signatures_are_the_originals() -> None:
    build = "dp=None, tp=None, cp=None, pp=None, ep=None, device_type=None)"
    assert signature(olmo.build_world_mesh, *WORLD) == f"(*, {build}"
    assert signature(olmo.WorldMesh.build_world_mesh, *WORLD) == f"(self, *, {build}"
    assert signature(olmo.build_expert_parallel_mesh, *WORLD) == "(ep_config, device_type=None)"
    assert signature(olmo.get_pp_stage_mesh) == "(device_mesh, pp_mesh=None)"
    assert signature(olmo.flatten_mesh) == "(device_mesh, name=None)"
    assert signature(olmo.init_device_mesh, *WORLD) == "(device_type, mesh_shape, *, mesh_dim_names=None)"
    for name in ("dp", "dp_model", "tp", "cp", "pp", "ep", "dp_shard", "dp_replicate"):
        assert signature(getattr(olmo, f"get_{name}_mesh")) == "(device_mesh)"
    degrees = olmo.DataParallelConfig.get_replicate_and_shard_degree
    assert signature(degrees, "num_nodes") == "(self, dp_world_size)"
    assert [*signature(olmo.DataParallelConfig).strip("()").split(", ")] == [
        "name",
        "param_dtype=None",
        "reduce_dtype=<DType.float32: 'float32'>",
        "num_replicas=None",
        "shard_degree=None",
    ]
    pipeline = olmo.PipelineParallelConfig
    assert [*pipeline(4).__dict__] == [
        "degree",
        "schedule",
        "style",
        "p2p_use_separate_group",
        "p2p_backend",
        "p2p_nccl_min_ctas",
        "p2p_nccl_max_ctas",
        "forward_pull_ahead_extra_activations",
    ]
    assert signature(olmo.build_dense_and_moe_mesh, *WORLD) == f"(*, {build}"
    assert pipeline(4).schedule == "Interleaved1F1B"
    assert signature(pipeline.stage_ids_this_rank) == "(self, pp_rank, num_stages)"


def test_world_meshes_of_all_ranks_stand_in_one_process() -> None:
    configs: Any = {"dp": HSDP, "tp": olmo.TensorParallelConfig(2), "pp": olmo.PipelineParallelConfig(3)}
    for rank in range(24):
        mesh = olmo.WorldMesh(rank=rank, world_size=24).build_world_mesh(**configs)
        assert mesh.mesh_dim_names == ("pp", "dp_replicate", "dp_shard", "tp")
        assert mesh.shape == (3, 2, 2, 2)
        assert mesh.root == Mesh(pp=3, dp_replicate=2, dp_shard=2, tp=2)
        assert mesh.get_coordinate() == [*mesh.root.coord(rank).values()]
        for part, axes in (
            (olmo.get_tp_mesh(mesh), ["tp"]),
            (olmo.get_pp_mesh(mesh), ["pp"]),
            (olmo.get_dp_mesh(mesh), ["dp_replicate", "dp_shard"]),
            (olmo.get_dp_shard_mesh(mesh), ["dp_shard"]),
            (olmo.get_pp_stage_mesh(mesh), ["dp_replicate", "dp_shard", "tp"]),
        ):
            assert part.mesh == mesh.root.group(rank, *axes)
            for i, axis in enumerate(axes):
                group = mesh.root.group(rank, axis)
                assert group == part.get_group(axis) == part.get_group(i) == mesh[axis].get_group()
                assert part.get_local_rank(axis) == group.index(rank)
                assert part.size(i) == len(group)
        assert olmo.get_dp_process_group(mesh) == olmo.flatten_mesh(olmo.get_dp_mesh(mesh), "dp").get_group()
        assert mesh["dp"].mesh == mesh.root.group(rank, "dp_replicate", "dp_shard")


def test_the_module_keeps_the_mesh_of_this_process() -> None:
    assert olmo.get_world_mesh() is None
    with pytest.raises(rankmesh.UsageError, match=r"give rank= and world_size=.*init_process_group"):
        olmo.build_world_mesh(dp=FSDP)
    assert olmo.build_world_mesh(rank=0, world_size=8).shape == (8,)
    assert olmo.get_world_mesh() is None
    mesh = olmo.build_world_mesh(dp=FSDP, tp=olmo.TensorParallelConfig(degree=2), rank=5, world_size=8)
    assert olmo.get_world_mesh() is mesh
    with pytest.raises(RuntimeError, match="world mesh already exists"):
        olmo.build_world_mesh(dp=FSDP, rank=5, world_size=8)


def test_nodes_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    hsdp = olmo.DataParallelConfig(olmo.DataParallelType.hsdp)
    with pytest.raises(KeyError, match="give NUM_NODES or LOCAL_WORLD_SIZE"):
        olmo.WorldMesh(rank=0, world_size=16).build_world_mesh(dp=hsdp)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert olmo.WorldMesh(rank=0, world_size=16).build_world_mesh(dp=hsdp).shape == (4, 4)
    with pytest.raises(rankmesh.UsageError, match="without num_nodes= does not know"):
        hsdp.get_replicate_and_shard_degree(16)
    monkeypatch.setenv("NUM_NODES", "2")
    assert olmo.WorldMesh(rank=0, world_size=16).build_world_mesh(dp=hsdp).shape == (2, 8)
    assert hsdp.get_replicate_and_shard_degree(16) == (2, 8)
    assert hsdp.get_replicate_and_shard_degree(16, num_nodes=8) == (8, 2)
    monkeypatch.setenv("NUM_NODES", "two")
    with pytest.raises(rankmesh.UsageError, match="NUM_NODES is 'two', which is no number"):
        olmo.WorldMesh(rank=0, world_size=16).build_world_mesh(dp=hsdp)


def test_schedules_of_olmo_core_itself_have_one_style() -> None:
    kinds, styles = olmo.PipelineScheduleType, olmo.PipelineSplitStyle
    v = olmo.PipelineParallelConfig(4, schedule=kinds.custom_1F1B_V)
    assert (v.infer_style(), v.stage_ids_this_rank(1, 8)) == ("v", (1, 6))
    assert list(v.rank_completion_order()) == [0, 1, 2, 3]
    v.style = styles.loop
    with pytest.raises(olmo.OLMoConfigurationError, match="requires pipeline split style 'v'"):
        v.infer_style()


def test_activations_and_gradients_may_have_a_group_of_their_own() -> None:
    pipeline = olmo.PipelineParallelConfig(2, p2p_use_separate_group=True, p2p_nccl_min_ctas=2)
    mesh = olmo.WorldMesh(rank=5, world_size=8).build_world_mesh(dp=FSDP, pp=pipeline)
    assert pipeline.uses_separate_p2p_group()
    assert list(pipeline.build_p2p_process_group(mesh)) == [1, 5]
    assert olmo.PipelineParallelConfig(2).build_p2p_process_group(mesh) is None
    pipeline.p2p_backend = olmo.PipelineP2PBackend.nccl_rma
    with pytest.raises(olmo.OLMoConfigurationError, match="only apply to p2p_backend='nccl'"):
        pipeline.build_p2p_process_group(mesh)
    pipeline.p2p_nccl_min_ctas = None
    with pytest.raises(RuntimeError, match="could not build PP P2P groups from mesh"):
        pipeline.build_p2p_process_group(mesh["dp"])


def test_experts_of_the_ddp_train_module_take_their_ranks_from_dp_and_cp() -> None:
    configs: Any = {
        "dp": olmo.DataParallelConfig(olmo.DataParallelType.ddp),
        "cp": olmo.ContextParallelConfig(2),
        "pp": olmo.PipelineParallelConfig(2),
    }
    made = olmo.build_dense_and_moe_mesh(**configs, ep=olmo.ExpertParallelConfig(4), rank=13, world_size=16)
    assert (made["dense"].root, made["moe"].root) == (Mesh(pp=2, dp=4, cp=2), Mesh(pp=2, ep_dp=2, ep_mp=4))
    names = olmo.MeshDimName
    assert list(made["moe"].get_group(names.ep_mp)) == [12, 13, 14, 15]
    assert list(made["moe"].get_group(names.ep_dp)) == [9, 13]
    assert olmo.build_dense_and_moe_mesh(**configs, rank=0, world_size=16)["moe"] is None
    with pytest.raises(olmo.OLMoConfigurationError, match=r"degree is 3; OLMoDDPTrainModule takes"):
        olmo.build_dense_and_moe_mesh(**configs, ep=olmo.ExpertParallelConfig(3), rank=0, world_size=16)


def test_configurations_and_their_errors_may_be_olmo_cores_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hsdp: Any = SimpleNamespace(name="hsdp", num_replicas=2, shard_degree=None)
    tp: Any = SimpleNamespace(degree=3)
    assert olmo.WorldMesh(rank=0, world_size=8).build_world_mesh(dp=hsdp).shape == (2, 4)
    theirs = type("OLMoConfigurationError", (Exception,), {})
    monkeypatch.setitem(sys.modules, "olmo_core.exceptions", SimpleNamespace(OLMoConfigurationError=theirs))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(theirs, match="must be at least 1 and divide into the world size") as caught:
            olmo.WorldMesh(rank=0, world_size=8).build_world_mesh(dp=hsdp, tp=tp)
        assert isinstance(caught.value, olmo.OLMoConfigurationError)
        assert isinstance(caught.value, rankmesh.Error)


def test_dtypes_are_torchs_and_strings() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert FSDP.reduce_dtype.as_pt() is torch.float32
    for dtype in type(FSDP.reduce_dtype):
        assert str(dtype.as_pt()) == f"torch.{dtype}"


def test_errors_are_the_originals_and_rankmeshs() -> None:
    mesh = olmo.WorldMesh(rank=0, world_size=8).build_world_mesh(dp=HSDP)
    unnamed = olmo.init_device_mesh("cpu", (2, 4), rank=0, world_size=8)
    v = olmo.PipelineParallelConfig(4, style=olmo.PipelineSplitStyle.v)
    for kind, text, call in (
        (RuntimeError, "could not determine tensor parallel sub-mesh", lambda: olmo.get_tp_mesh(mesh)),
        (RuntimeError, "without dimension names", lambda: olmo.get_dp_mesh(unnamed)),
        (RuntimeError, "Cannot slice a DeviceMesh without mesh_dim_names!", lambda: unnamed["dp"]),
        (KeyError, "Invalid mesh_dim_names ('tp',)", lambda: mesh["tp"]),
        (KeyError, "ascending order", lambda: mesh["dp_shard", "dp_replicate"]),
        (KeyError, "Mesh dimension 'tp' does not exist", lambda: mesh.get_group("tp")),
        (RuntimeError, "`mesh_dim` needs to be specified", lambda: mesh.get_group()),
        (RuntimeError, "Mesh should not be bigger", lambda: olmo.init_device_mesh("cpu", (9,), rank=0, world_size=8)),
        (AssertionError, "v schedules assume 2 stages per rank, got 1", lambda: v.stage_ids_this_rank(0, 4)),
        (olmo.OLMoError, "must be evenly divisible", lambda: v.stage_ids_this_rank(0, 5)),
        (TypeError, "must be an int", lambda: olmo.WorldMesh(rank="0", world_size=8)),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)
