"""Meshes and shardings of rankmesh as torch's DeviceMesh and placements, and back."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rankmesh import Mesh, Placement, Sharding, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from rankmesh.torch import from_device_mesh, from_placements, to_device_mesh, to_placements  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: E402
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset  # noqa: E402
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: E402
from torch_ranks import fake_world, preload, ranks  # noqa: E402

preload("torch.distributed.tensor")

MESHES = [
    "dp=2 tp=4",
    "dp=1 tp=3",
    "a=2:1 b=3:2",
    "pp=2 dp=3 tp=4",
    "x=2:1 y=2:3 @1",
    "c=2:1 a=2:4 b=2:2",
    "mp=(2,2):(4,1) dp=2:2",
    "tp=2 @6",
]


@pytest.mark.parametrize("text", MESHES)
def test_a_mesh_is_the_same_after_torch(text: str) -> None:
    mesh = Mesh(text)
    for rank in range(0, 24, 7):
        with fake_world(rank, 24):
            there = to_device_mesh(text, "cpu")
            assert from_device_mesh(there) == mesh
            assert there.mesh_dim_names == tuple(mesh.axes)
            assert there.mesh.tolist() == mesh.numpy().tolist()
            inside = rank in mesh.ranks
            assert there.get_coordinate() == (tuple(mesh.index(rank, axis) for axis in mesh.axes) if inside else None)
            for axis in mesh.axes if inside else ():
                group = torch.distributed.get_process_group_ranks(there.get_group(axis))
                assert group == list(mesh.group(rank, axis))


def test_any_placement_is_the_same_after_torch() -> None:
    for seed in range(20):
        order = random.Random(seed).sample(range(8), 6)
        placed = Placement(Mesh("a=2 b=3"), order)
        with fake_world(order[seed % 6], 8):
            there = from_device_mesh(to_device_mesh(placed, "cpu"))
            assert there.numpy().tolist() == placed.numpy().tolist()
            assert isinstance(there, Mesh) or there == placed
            assert from_device_mesh(to_device_mesh(placed.text, "cpu")) == there


def gathered(rank: int, size: int) -> list[list[float]]:
    found = []
    for text in ("a=2 b=2 @[1,0,3,2]", "a=4 @[2,0,3,1]", "a=2:1 b=2:2"):
        mesh = to_device_mesh(text, "cpu")
        place = mesh.get_coordinate()
        assert [mesh.get_local_rank(dim) for dim in range(mesh.ndim)] == list(place)
        part = torch.arange(4.0).chunk(mesh.shape[-1])[place[-1]]
        placements = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
        found.append(DTensor.from_local(part, mesh, placements).full_tensor().tolist())
        if mesh.ndim > 1:
            flat = mesh._flatten("flat")
            assert flat.get_local_rank() == flat.get_coordinate()[0]
    torch.distributed.barrier()
    return found


def test_a_dtensor_on_permuted_ranks_is_in_order(tmp_path: Path) -> None:
    assert ranks(4, gathered, tmp_path) == [[[0.0, 1.0, 2.0, 3.0]] * 3] * 4  # torch's own groups swap the halves


def test_parts_of_a_device_mesh_are_meshes_of_the_same_ranks() -> None:
    for rank in range(24):
        with fake_world(rank, 24):
            whole = init_device_mesh("cpu", (2, 3, 4), mesh_dim_names=("pp", "dp", "tp"))
            parts = [whole[axes] for n in (1, 2, 3) for axes in itertools.combinations(whole.mesh_dim_names, n)]
            parts += [part._flatten() for part in parts if part.ndim > 1]
            parts += [whole._unflatten("tp", (2, 2), ("u", "v"))["pp", "v"], DeviceMesh._concatenate(parts[1::-1])]
            for part in parts:
                mesh = from_device_mesh(part)
                assert isinstance(mesh, Mesh)
                assert mesh.axes == list(part.mesh_dim_names) or tuple(mesh.axes) == tuple(part.mesh_dim_names)
                assert mesh.numpy().tolist() == part.mesh.tolist()
                assert tuple(mesh.index(rank, axis) for axis in mesh.axes) == part.get_coordinate()
    with fake_world(0, 4):
        assert from_device_mesh(init_device_mesh("cpu", (2, 2))) == Mesh("dim_0=2 dim_1=2")
        with pytest.raises(UsageError, match="the name 'data parallel' holds the character ' '"):
            from_device_mesh(init_device_mesh("cpu", (4,), mesh_dim_names=("data parallel",)))


def test_the_example_of_the_document() -> None:
    with fake_world(0, 8):
        mesh = to_device_mesh("pp=2 dp=2 tp=2", "cpu")
        assert from_device_mesh(mesh["dp", "tp"]) == Mesh("dp=2 tp=2")
        assert to_placements(Sharding("dp=2 tp=4", (1000, 64), "0=tp")) == (Replicate(), Shard(0))


# --- placements


def splits(axes: list[str], dims: int) -> Iterator[str]:
    """Every split of so many dimensions by some of the axes, in every order, with the others replicated or sums."""
    for n in range(len(axes) + 1):
        for listed in itertools.permutations(axes, n):
            for places in itertools.product(range(dims), repeat=n):
                of = [",".join(axis for axis, at in zip(listed, places, strict=True) if at == d) for d in range(dims)]
                split = [f"{d}={axes_of}" for d, axes_of in enumerate(of) if axes_of]
                rest = [axis for axis in axes if axis not in listed]
                yield " ".join(split) or "replicated"
                if rest:
                    yield " ".join([*split, f"sum={rest[0]}"])


def torchs_slices(mesh: Mesh, shape: tuple[int, ...], placements: Any, rank: int) -> list[tuple[int, int]]:
    """What torch says a rank holds of each dimension: begin and size."""
    place = [mesh.index(rank, axis) for axis in mesh.axes]
    sizes, begins = _compute_local_shape_and_global_offset(shape, mesh.shape, place, placements)
    return list(zip(begins, sizes, strict=True))


def entries(split: str) -> dict[int, list[str]]:
    listed = (entry.split("=") for entry in split.split() if "=" in entry and "sum" not in entry)
    return {int(dim): axes.split(",") for dim, axes in listed}


def splits_unevenly_out_of_order(sharding: Sharding) -> bool:
    mesh = sharding.mesh
    return any(
        list(map(mesh.axes.index, axes)) != sorted(map(mesh.axes.index, axes))
        and sharding.shape[dim] % math.prod(map(mesh.size_of, axes))
        for dim, axes in entries(sharding.split).items()
    )


@pytest.mark.parametrize("shape", [(24, 48), (7, 25), (0, 5), (3, 1)])
def test_placements_give_each_rank_what_the_sharding_does(shape: tuple[int, ...]) -> None:
    mesh = Mesh("pp=2 dp=3 tp=4")
    refused = 0
    for split in splits(list(mesh.axes), 2):
        sharding = Sharding(mesh, shape, split)
        if splits_unevenly_out_of_order(sharding):
            with pytest.raises(UsageError, match="torch's _StridedShard and a Sharding have equal parts only if"):
                to_placements(sharding)
            refused += 1
            continue
        placements = to_placements(sharding)
        assert len(placements) == 3
        assert from_placements(mesh, shape, placements).split == sharding.split
        for rank in mesh.ranks:
            for ours, (begin, size) in zip(
                sharding.slices(rank), torchs_slices(mesh, shape, placements, rank), strict=True
            ):
                assert ours.stop - ours.start == size
                assert ours.start == begin or size == 0
    assert (refused > 0) == (shape != (24, 48))


def test_placements_of_a_dtensor_on_a_slice() -> None:
    with fake_world(9, 16):
        mesh = init_device_mesh("cpu", (2, 2, 4), mesh_dim_names=("pp", "dp", "tp"))["dp", "tp"]
        tensor = DTensor.from_local(torch.zeros(3, 2), mesh, [Replicate(), Shard(1)])
        sharding = from_placements(tensor.device_mesh, tensor.shape, tensor.placements)
        assert (str(sharding.mesh), sharding.shape, sharding.split) == ("dp=2 tp=4 @8", (3, 8), "1=tp")
        assert sharding.slices(9) == (slice(0, 3), slice(2, 4))
        assert to_placements(sharding) == tensor.placements
        assert from_placements(mesh, (8, 8), [Shard(-1), Partial()]).split == "1=dp sum=tp"
        assert from_placements(mesh, (8, 8), [_StridedShard(-2, split_factor=4), Shard(0)]).split == "0=tp,dp"


def test_placements_that_do_not_fit_are_refused_in_words() -> None:
    mesh = Mesh("dp=2 tp=4")
    texts = {
        lambda: to_placements(Sharding(mesh, (1000,), "0=tp:megatron")): "torch has no placement for '0=tp:megatron', "
        "which pads dimension 0; split it evenly",
        lambda: from_placements(mesh, (8,), [Shard(0)]): "1 placements for the 2 axes of mesh dp=2 tp=4; give one for "
        "each",
        lambda: from_placements(mesh, (8,), [Partial("max"), Shard(0)]): "axis 'dp' has Partial(max); a Sharding has "
        "partial sums only",
        lambda: from_placements(mesh, (8,), [None, Shard(0)]): "axis 'dp' has None; a Sharding has Shard, Replicate "
        "and Partial only",  # type: ignore[list-item]
        lambda: from_placements(mesh, (24,), [_StridedShard(0, split_factor=3), Shard(0)]): "dimension 0 has "
        "[_StridedShard(dim=0, sf=3), Shard(dim=0)] on mesh dp=2 tp=4, not an order of splits; a Sharding has one",
        lambda: from_placements(mesh, (9,), [_StridedShard(0, split_factor=4), Shard(0)]): "dimension 0 of 9 elements "
        "is split into 8 parts by [_StridedShard(dim=0, sf=4), Shard(dim=0)]; torch's _StridedShard and a Sharding "
        "have equal parts only if the split is even",
    }
    for call, text in texts.items():
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == text
    with fake_world(0, 4):
        placed = to_device_mesh("a=2 b=2 @[3,1,2,0]", "cpu")
        with pytest.raises(
            UsageError, match=r"a Sharding is over a mesh of strides, and the ranks of .* are a=2 b=2 @"
        ):
            from_placements(placed, (8,), [Shard(0), Shard(0)])
