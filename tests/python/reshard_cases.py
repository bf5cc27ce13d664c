"""Random hand-overs for tests of reshard, with what each rank must get, by torch's own shards and the core's slices."""

from __future__ import annotations

import random
from typing import Any

import torch
from rankmesh import Mesh, Sharding
from rankmesh.torch import Fused
from rankmesh.torch import _device_mesh as meshes
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex128]

Random = random.Random


def values(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """A full tensor, equal on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 250, shape, generator=generator).to(dtype)


def factors(rng: Random, size: int) -> tuple[int, ...]:
    """Sizes of one to three axes with this product."""
    first = rng.choice([n for n in range(1, size + 1) if size % n == 0])
    rest = size // first
    second = rng.choice([n for n in range(1, rest + 1) if rest % n == 0])
    sizes = [first, second, rest // second]
    return tuple(sizes[: rng.randint(2, 3)] if sizes[2] == 1 else sizes)


def device_mesh(rng: Random, world: int) -> Any:
    """A mesh of some ranks in any order."""
    size = rng.randint(1, world)
    sizes = factors(rng, size)
    names = tuple(f"m{i}" for i in range(len(sizes)))
    return meshes.device_mesh("cpu", rng.sample(range(world), size), sizes, names, None)


def sharding(rng: Random, world: int, shape: tuple[int, ...]) -> Sharding:
    """A split of any kind over consecutive ranks."""
    size = rng.randint(1, world)
    sizes = factors(rng, size)
    mesh = Mesh({f"m{i}": n for i, n in enumerate(sizes)}).shifted(rng.randint(0, world - size))
    axes: dict[int, list[str]] = {}
    for axis in rng.sample(mesh.axes, len(mesh.axes)):
        if (dim := rng.randint(-1, len(shape) - 1)) >= 0:
            axes.setdefault(dim, []).append(axis)
    padding = rng.choice(["", "", ":megatron2"])
    return Sharding(
        mesh, shape, " ".join(f"{dim}={','.join(cut)}{padding}" for dim, cut in axes.items()) or "replicated"
    )


def placements(rng: Random, mesh: Any, shape: tuple[int, ...]) -> list[Any]:
    cuts = [Replicate(), *map(Shard, range(len(shape)))]
    return [rng.choice(cuts) for _ in range(mesh.ndim)]


def here(whole: Any, stated: Sharding, rank: int) -> Any:
    """This rank's shard of a full tensor, by the core; None outside the mesh."""
    return whole[stated.slices(rank)].clone() if rank in stated.mesh else None


class Case:
    """One hand-over: what this rank passes, and what it must get."""

    def __init__(self, rng: Random, rank: int, world: int) -> None:
        self.rng, self.rank, self.world = rng, rank, world
        self.state: dict[str, Any] = {}
        self.from_: dict[str, Any] = {}
        self.to: dict[str, Any] = {}
        self.out: dict[str, Any] = {}
        self.expected: dict[str, Any] = {}
        self.host = rng.randint(1, world)
        self.staging = rng.choice([32, 48, 200, 1 << 20])
        for number in range(rng.randint(1, 5)):
            self.add(f"w{number}")

    def shape(self) -> tuple[int, ...]:
        return tuple(self.rng.choice([0, 1, 2, 3, 5, 7, 8, 13]) for _ in range(self.rng.randint(0, 3)))

    def add(self, name: str) -> None:
        rng = self.rng
        dtype = rng.choice(DTYPES)
        shape = self.shape()
        if shape and rng.random() < 0.4:  # fused before, after or both
            dim = rng.randrange(len(shape))
            sizes = [rng.randint(0, 6) for _ in range(rng.randint(1, 3))]
            wholes = {
                f"{name}.{i}": values((*shape[:dim], size, *shape[dim + 1 :]), dtype, rng.randrange(99))
                for i, size in enumerate(sizes)
            }
            self.have(name, wholes, dim, rng.choice(["parts", "of", "apart"]))
            self.want(name, wholes, dim, rng.choice(["parts", "of", "apart"]))
        else:
            wholes = {name: values(shape, dtype, rng.randrange(99))}
            self.have(name, wholes, 0, "apart")
            self.want(name, wholes, 0, "apart")

    def have(self, name: str, wholes: dict[str, Any], dim: int, how: str) -> None:
        rng, rank = self.rng, self.rank
        if how == "apart":
            for part, whole in wholes.items():
                if rng.random() < 0.5:
                    mesh = device_mesh(rng, self.world)
                    cut = placements(rng, mesh, whole.shape)
                    if rank in mesh.mesh:
                        self.state[part] = distribute_tensor(whole, mesh, cut, src_data_rank=None)
                else:
                    self.from_[part] = stated = sharding(rng, self.world, tuple(whole.shape))
                    if rank in stated.mesh:
                        self.state[part] = here(whole, stated, rank)
        elif how == "of":
            whole = (
                torch.cat([each.clone() for each in wholes.values()], dim) if len(wholes) > 1 else wholes[f"{name}.0"]
            )
            sizes = {part: each.shape[dim] for part, each in wholes.items()}
            if rng.random() < 0.5:
                mesh = device_mesh(rng, self.world)
                cut = placements(rng, mesh, whole.shape)
                if rank in mesh.mesh:
                    self.from_[name] = Fused(sizes, dim)
                    self.state[name] = distribute_tensor(whole, mesh, cut, src_data_rank=None)
            else:
                stated = sharding(rng, self.world, tuple(whole.shape))
                self.from_[name] = Fused(sizes, dim, stated)
                if rank in stated.mesh:
                    self.state[name] = here(whole, stated, rank)
        else:
            self.from_[name], local = self.joined(wholes, dim)
            if local is not None:
                self.state[name] = local

    def joined(self, wholes: dict[str, Any], dim: int) -> tuple[Fused, Any]:
        """Parts with a Sharding each on one mesh, and this rank's tensor."""
        rng, first = self.rng, next(iter(wholes.values()))
        one = sharding(rng, self.world, tuple(first.shape))
        parts = {part: Sharding(one.mesh, tuple(whole.shape), one.split) for part, whole in wholes.items()}
        local = [here(whole, parts[part], self.rank) for part, whole in wholes.items()]
        fused = Fused(parts, dim)
        return fused, torch.cat(local, dim) if local[0] is not None else None

    def want(self, name: str, wholes: dict[str, Any], dim: int, how: str) -> None:
        rng, rank = self.rng, self.rank
        if how == "apart":
            for part, whole in wholes.items():
                if rng.random() < 0.5:
                    self.want_dtensor(part, whole, lambda target: target)
                else:
                    self.to[part] = stated = sharding(rng, self.world, tuple(whole.shape))
                    if rank in stated.mesh:
                        self.expected[part] = here(whole, stated, rank)
        elif how == "of":
            whole = torch.cat([each.clone() for each in wholes.values()], dim)
            sizes = {part: each.shape[dim] for part, each in wholes.items()}
            if rng.random() < 0.5:
                self.want_dtensor(name, whole, lambda target: Fused(sizes, dim, target))
            else:
                stated = sharding(rng, self.world, tuple(whole.shape))
                self.to[name] = Fused(sizes, dim, stated)
                if rank in stated.mesh:
                    self.expected[name] = here(whole, stated, rank)
        else:
            self.to[name], local = self.joined(wholes, dim)
            in_place = rng.random() < 0.5
            if local is not None:
                self.expected[name] = local
                if in_place:
                    self.out[name] = torch.zeros_like(local)

    def want_dtensor(self, name: str, whole: Any, stated: Any) -> None:
        rng = self.rng
        mesh = device_mesh(rng, self.world)
        cut = placements(rng, mesh, whole.shape)
        dtype = torch.complex64 if whole.dtype == torch.complex128 and rng.random() < 0.5 else whole.dtype
        if self.rank in mesh.mesh:
            self.expected[name] = distribute_tensor(whole.to(dtype), mesh, cut, src_data_rank=None)
            blank = distribute_tensor(torch.zeros_like(whole, dtype=dtype), mesh, cut, src_data_rank=None)
            self.to[name] = stated(blank)


def same(got: Any, expected: Any) -> bool:
    if isinstance(expected, DTensor):
        if not isinstance(got, DTensor) or got.placements != expected.placements:
            return False
        got, expected = got.to_local(), expected.to_local()
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    got, expected = (each.reshape(-1).view(torch.uint8) for each in (got, expected))
    return bool(torch.equal(got, expected))
