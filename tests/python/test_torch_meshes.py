"""Frameworks' device meshes over torch's process groups: as those without a process, and on processes over Gloo."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import NewGroups, ranks  # noqa: E402


@contextlib.contextmanager
def fake(rank: int, size: int) -> Iterator[None]:
    """This process as a rank of a world of which there is no other."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


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


@pytest.mark.parametrize("backend", ["spmd_types", "partial_dtensor"])
@pytest.mark.parametrize("degrees", DEGREES)
def test_torchtitans_meshes_are_those_without_a_process(degrees: tuple[int, ...], backend: Any) -> None:
    from rankmesh.torchtitan import ParallelDims

    *sizes, ep = degrees
    size = int(torch.tensor(sizes).prod())
    for rank in range(size):
        pure = ParallelDims(*degrees, size, backend)
        pure.build_mesh(rank=rank)
        with fake(rank, size), NewGroups() as made:
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
    said = "rank {5}: torchtitan: pp=1, dp_replicate=1, dp_shard=4"
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
