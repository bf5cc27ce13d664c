"""Frameworks' device meshes over torch's process groups: as those without a process, and on processes over Gloo."""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import NewGroups, fake_world, preload, ranks  # noqa: E402

preload("torch.distributed.fsdp", "torch.distributed.pipelining", "torch._dynamo")


def check(live: Any, pure: Any) -> None:
    """A DeviceMesh of torch is what the one without a process is, and so are its groups and its parts."""
    assert isinstance(live, torch.distributed.DeviceMesh)
    assert (live.mesh_dim_names, live.shape) == (pure.mesh_dim_names, pure.shape)
    assert live.mesh.flatten().tolist() == list(pure.mesh)
    assert list(live.get_coordinate()) == pure.get_coordinate()
    for name in live.mesh_dim_names:
        for group in (live.get_group(name), live[name].get_group()):
            assert dist.get_process_group_ranks(group) == list(pure.get_group(name))
        assert live.get_local_rank(name) == pure.get_local_rank(name)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the type and text of what it raises."""
    try:
        return call()
    except rankmesh.Error as error:
        return type(error), str(error)


def distinct(made: list[list[int]], size: int) -> None:
    """Each group was made once, and none that torch has already."""
    assert len(made) == len(set(map(tuple, made)))
    assert list(range(size)) not in made or size == 1


# --- torchtitan

DEGREES: list[tuple[int, int, int, int, int, int]] = [  # dp_replicate, dp_shard, cp, tp, pp, ep
    (1, 1, 1, 1, 1, 1),
    (1, 2, 1, 1, 1, 2),
    (2, 2, 1, 2, 1, 1),
    (1, 4, 1, 2, 1, 2),
    (1, 1, 2, 1, 2, 1),
    (2, 1, 2, 3, 1, 2),
    (1, 2, 2, 2, 2, 8),
    (2, 2, 2, 2, 1, 4),
    (3, 1, 1, 2, 2, 1),
]


@pytest.mark.parametrize("backend", ["spmd_types", "full_dtensor", "partial_dtensor"])
@pytest.mark.parametrize("degrees", DEGREES)
def test_torchtitans_meshes_are_those_without_a_process(degrees: tuple[int, ...], backend: Any) -> None:
    from rankmesh.torchtitan import ParallelDims

    *sizes, ep = degrees
    size = int(torch.tensor(sizes).prod())
    for rank in range(size):
        pure = ParallelDims(*degrees, size, backend)
        pure.build_mesh(rank=rank)
        with fake_world(rank, size), NewGroups() as made:
            live = ParallelDims(*degrees, size, backend)
            check(live.world_mesh, pure.world_mesh)
            distinct(made, size)
            count = len(made)
            names = list(pure._single_axis_meshes)
            assert list(live._single_axis_meshes) == names
            for name, mesh in live._single_axis_meshes.items():
                assert mesh is live.get_optional_mesh(name, include_singleton_axes=True)
                if name == "efsdp" and ep == 1 < mesh.size():
                    assert mesh.shape == pure._single_axis_meshes[name].shape
                    with pytest.raises(RuntimeError, match=f"torchtitan where ep is 1: its {mesh.size()} ranks would"):
                        mesh.get_group()
                else:
                    check(mesh, pure._single_axis_meshes[name])
            assert list(live.get_all_one_dimensional_meshes()) == list(pure.get_all_one_dimensional_meshes())
            for several in itertools.chain(itertools.permutations(names, 2), itertools.combinations(names, 3)):
                there = outcome(lambda: pure.get_optional_mesh(list(several)))  # noqa: B023
                here = outcome(lambda: live.get_optional_mesh(list(several)))  # noqa: B023
                if isinstance(there, tuple) or there is None:
                    assert here == there
                else:
                    check(here, there)
                    assert live.get_mesh(list(several)) is here
                    assert here._get_root_mesh() is live.world_mesh
            for here, there in zip(live.spmd_meshes(), pure.spmd_meshes(), strict=True):
                check(here, there)
            for name in ("spmd_dense_mesh", "spmd_sparse_mesh", "get_dense_tp_mesh"):
                there, here = outcome(getattr(pure, name)), outcome(getattr(live, name))
                if isinstance(there, tuple) or there is None:
                    assert here == there
                else:
                    check(here, there)
            assert len(made) <= count + 1  # the group of this rank alone


def torchtitan(rank: int, size: int) -> None:
    from rankmesh.torchtitan import ParallelDims
    from torch.distributed.fsdp import fully_shard

    with NewGroups() as made:
        dims = ParallelDims(dp_replicate=2, dp_shard=2, cp=1, tp=2, pp=1, ep=2, world_size=8)
        dims.build_mesh()
    assert sorted(map(len, made)) == [1, 2, 2, 2, 4]
    for mesh in dims.get_all_one_dimensional_meshes().values():
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=mesh.get_group())
        assert total.item() == sum(mesh.mesh.tolist())
    torch.manual_seed(0)
    whole = torch.nn.Linear(8, 4)
    sharded = torch.nn.Linear(8, 4)
    sharded.load_state_dict(whole.state_dict())
    fully_shard(sharded, mesh=dims.get_mesh(["dp_replicate", "dp_shard"]))
    inputs = torch.randn(8, 8)
    whole(inputs).sum().backward()
    sharded(inputs).sum().backward()
    assert torch.allclose(sharded.weight.grad.full_tensor(), whole.weight.grad)  # type: ignore[union-attr,operator]
    said = "rank 5: torchtitan: pp=1, dp_replicate=1, dp_shard=4"
    with pytest.raises(rankmesh.Disagreement, match=re.escape(said)):
        ParallelDims(*((1, 4) if rank == 5 else (2, 2)), 1, 2, 1, 1, 8).build_mesh()
    with pytest.raises(RuntimeError, match=re.escape("degrees of a world of 4 leave ranks 4..7 of torch's 8 out")):
        ParallelDims(2, 2, 1, 1, 1, 1, 4).build_mesh()
    with pytest.raises(RuntimeError, match="should not be bigger than default world size 8, but found 16 ranks"):
        ParallelDims(2, 8, 1, 1, 1, 1, 16).get_mesh("dp")
    pure = ParallelDims(2, 8, 1, 1, 1, 1, 16)
    assert list(pure.build_mesh(rank=12).mesh) == list(range(16))  # which asks no process


def test_torchtitans_meshes_have_torchs_groups(tmp_path: Path) -> None:
    ranks(8, torchtitan, tmp_path)


# --- OLMo-core

GETTERS = ("dp", "dp_model", "dp_shard", "dp_replicate", "ep", "tp", "cp", "pp", "pp_stage")


def olmo_worlds() -> Iterator[tuple[int, dict[str, Any]]]:
    from rankmesh import olmo

    fsdp = olmo.DataParallelConfig(olmo.DataParallelType.fsdp)
    yield 4, {}
    for size, tp, cp, pp in [(4, 0, 0, 0), (4, 2, 0, 0), (8, 2, 2, 0), (8, 0, 2, 2), (12, 2, 0, 3), (8, 2, 2, 2)]:
        degrees: dict[str, Any] = {
            name: config(degree)
            for name, config, degree in (
                ("tp", olmo.TensorParallelConfig, tp),
                ("cp", olmo.ContextParallelConfig, cp),
                ("pp", olmo.PipelineParallelConfig, pp),
            )
            if degree
        }
        yield size, {"dp": fsdp, **degrees}
        rest = size // (max(tp, 1) * max(cp, 1) * max(pp, 1))
        hsdp = olmo.DataParallelConfig(olmo.DataParallelType.hsdp, shard_degree=min(2, rest))
        yield size, {"dp": hsdp, **degrees}
        if not tp:
            yield size, {"dp": hsdp, "ep": olmo.ExpertParallelConfig(min(2, rest)), **degrees}


def check_olmo(live: Any, pure: Any) -> None:
    """Each function says the same of torch's mesh as of the one without a process."""
    from rankmesh import olmo

    check(live, pure)
    assert olmo.get_device_mesh_info(live) == olmo.get_device_mesh_info(pure)
    for name in GETTERS:
        get = getattr(olmo, f"get_{name}_mesh")
        there, here = outcome(lambda: get(pure)), outcome(lambda: get(live))  # noqa: B023
        if isinstance(there, tuple):
            assert here == there
        else:
            check(here, there)
    assert dist.get_process_group_ranks(olmo.get_dp_process_group(live)) == list(olmo.get_dp_process_group(pure))


@pytest.mark.filterwarnings("ignore:Slicing a flattened dim")
def test_olmos_meshes_are_those_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from rankmesh import olmo

    for size, configs in olmo_worlds():
        for rank in range(size):
            with fake_world(rank, size), NewGroups() as made:
                monkeypatch.setattr(olmo._world, "_built", None)
                live = olmo.build_world_mesh(**configs)
                pure = olmo.WorldMesh(rank=rank, world_size=size).build_world_mesh(**configs)
                assert olmo.get_world_mesh() is (live if configs else None)
                distinct(made, size)
                count = len(made)
                check_olmo(live, pure)
                assert len(made) <= count + 1  # the group of this rank alone
                if "pp" in configs:
                    axes = tuple(name for name in live.mesh_dim_names if name != "pp")
                    check(olmo.flatten_mesh(live[axes], "stage"), olmo.flatten_mesh(pure[axes], "stage"))
                    assert olmo.flatten_mesh(live[axes], "stage") is live._flatten_mapping["stage"]
                    assert all(rank in group for group in made)
        experts = olmo.ExpertParallelConfig(2)
        for rank in range(size):
            with fake_world(rank, size):
                live = olmo.build_expert_parallel_mesh(experts)
                check_olmo(live, olmo.build_expert_parallel_mesh(experts, rank=rank, world_size=size))


@pytest.mark.filterwarnings("ignore:Slicing a flattened dim")
def test_olmos_functions_take_meshes_that_torch_has_made() -> None:
    from rankmesh import olmo

    cases = (((2, 2, 2), ("dp_replicate", "dp_shard", "cp")), ((2, 2, 2), ("dp", "ep", "cp")), ((8,), None))
    for shape, names in cases:
        with fake_world(5, 8):
            live = dist.init_device_mesh("cpu", shape, mesh_dim_names=names)
            pure = olmo.init_device_mesh("cpu", shape, mesh_dim_names=names, rank=5, world_size=8)
            if names is not None:
                check_olmo(live, pure)
            else:
                for name in GETTERS:
                    with pytest.raises(RuntimeError, match="without dimension names"):
                        getattr(olmo, f"get_{name}_mesh")(live)


def olmo_live(rank: int, size: int) -> None:
    from rankmesh import olmo

    hsdp = olmo.DataParallelConfig(olmo.DataParallelType.hsdp, num_replicas=2)
    with NewGroups() as made:
        mesh = olmo.build_world_mesh(dp=hsdp, cp=olmo.ContextParallelConfig(2), pp=olmo.PipelineParallelConfig(2))
    assert mesh.shape == (2, 2, 1, 2)
    assert sorted(map(len, made)) == [1, 2, 2, 2]  # pp; dp_replicate and dp; cp and dp_cp; dp_shard
    groups = [olmo.get_dp_process_group(mesh), *olmo.get_dp_model_mesh(mesh).get_all_groups()]
    for group in [*groups, olmo.flatten_mesh(olmo.get_pp_stage_mesh(mesh), "stage").get_group()]:
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=group)
        assert total.item() == sum(dist.get_process_group_ranks(group))
    with pytest.raises(RuntimeError, match="world mesh already exists"):
        olmo.build_world_mesh(dp=hsdp)

    pipeline = olmo.get_pp_mesh(mesh)
    apart = olmo.PipelineParallelConfig(2, p2p_use_separate_group=True).build_p2p_process_group(mesh)
    assert dist.get_process_group_ranks(apart) == pipeline.mesh.tolist()
    assert apart is not pipeline.get_group()
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=apart)
    assert total.item() == sum(pipeline.mesh.tolist())
    folded: Any = {"dp": olmo.DataParallelConfig(olmo.DataParallelType.ddp), "cp": olmo.ContextParallelConfig(2)}
    folded["ep"] = olmo.ExpertParallelConfig(4)
    meshes = olmo.build_dense_and_moe_mesh(**folded)
    for name, there in olmo.build_dense_and_moe_mesh(**folded, rank=rank, world_size=size).items():
        check(meshes[name], there)
    olmo._world._built = None
    with pytest.raises(rankmesh.Disagreement, match=re.escape("rank 5: olmo: world mesh dp=4 tp=2")):
        olmo.build_world_mesh(dp=olmo.DataParallelConfig("fsdp"), tp=olmo.TensorParallelConfig(2 if rank == 5 else 4))  # type: ignore[arg-type]
    with pytest.raises(olmo.OLMoConfigurationError, match="divide into the world size"):
        olmo.build_world_mesh(dp=hsdp, tp=olmo.TensorParallelConfig(3))
    assert olmo.get_world_mesh() is None
    assert olmo.build_world_mesh(dp=hsdp).shape == (2, 4)


def test_olmos_meshes_have_torchs_groups(tmp_path: Path) -> None:
    ranks(8, olmo_live, tmp_path)


# --- LlamaFactory

SIZES: list[dict[str, int]] = [
    {},
    {"mp_replicate_size": 2},
    {"mp_replicate_size": 2, "cp_size": 4},
    {"mp_replicate_size": 4, "mp_shard_size": 2, "dp_size": 8, "cp_size": 1},
    {"cp_size": 8},
]


@pytest.mark.parametrize("sizes", SIZES)
def test_llamafactorys_meshes_are_those_without_a_process(
    sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankmesh.llamafactory import Dim, DistributedInterface

    monkeypatch.setenv("WORLD_SIZE", "8")
    for rank in range(8):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setattr(DistributedInterface, "_instance", None)
        pure = DistributedInterface(sizes, rank=rank, world_size=8)
        with fake_world(rank, 8), NewGroups() as made:
            live = DistributedInterface(sizes)
            assert DistributedInterface() is live
            check(live.model_device_mesh, pure.model_device_mesh)
            check(live.data_device_mesh, pure.data_device_mesh)
            for dim in Dim:
                check(live.get_device_mesh(dim), pure.get_device_mesh(dim))
                assert dist.get_process_group_ranks(live.get_group(dim)) == list(pure.get_group(dim))
                assert live.get_rank(dim) == pure.get_rank(dim)
                assert live.get_world_size(dim) == pure.get_world_size(dim)
            assert live.get_group() is None
            assert len(made) == len(set(map(tuple, made)))
            assert all(rank in group for group in made)
            monkeypatch.setattr(DistributedInterface, "_instance", None)
            monkeypatch.setenv("RANK", "9")
            with pytest.raises(rankmesh.UsageError, match="RANK=9 and WORLD_SIZE=8 of the environment are not those"):
                DistributedInterface(sizes)


def llamafactory(rank: int, size: int, port: int) -> None:
    import numpy
    from rankmesh.llamafactory import Dim, DistributedInterface, ReduceOp

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    place = DistributedInterface({"mp_replicate_size": 2, "cp_size": 2, "dist_timeout": 60})
    ours = [rank % 2, rank % 2 + 2]  # along dp
    assert place.all_reduce(rank + 1.0) == sum(ours) / 2 + 1
    assert place.all_reduce([1.0, rank], op=ReduceOp.SUM) == [2.0, sum(ours)]
    assert place.all_reduce(rank, op="max", dim=Dim.CP) == rank // 2 * 2 + 1  # type: ignore[arg-type]
    assert place.all_reduce(rank, op=ReduceOp.MIN, dim=None) == 0
    assert place.all_gather(float(rank)) == ours  # as many as the group has ranks, and not the world
    assert place.all_gather(numpy.array([rank, 7]), dim=None).tolist() == [[each, 7] for each in range(size)]
    tensor = torch.tensor([rank])
    assert place.all_gather(tensor, dim=Dim.MP_SHARD).tolist() == [[rank // 2 * 2], [rank // 2 * 2 + 1]]
    assert place.broadcast(tensor, src=ours[1]).item() == tensor.item() == ours[1]
    if rank % 2 == 1:
        with pytest.raises(rankmesh.UsageError, match=r"from global rank 0 along dp, but .* \{1, 3\}; src must be one"):
            place.broadcast(1.0)
    else:
        assert place.broadcast(float(rank)) == 0.0
    assert place.current_device == torch.device("cpu")
    place.sync()
    place.barrier()
    DistributedInterface._instance = None
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: llamafactory: mp_replicate_size=4"):
        DistributedInterface({"mp_replicate_size": 4 if rank == 3 else 2})
    DistributedInterface._instance = None
    with pytest.raises(ValueError, match="world_size \\(4\\) must be divisible by cp_size \\(3\\)"):
        DistributedInterface({"cp_size": 3})
    place.destroy()
    assert not dist.is_initialized()


def test_llamafactorys_interface_has_torchs_groups(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ranks(4, llamafactory, tmp_path, port, initialised=False)
