"""Plans of rankmesh.torch.reshard: laws over random layouts, against brute force and the core's Reshard."""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Iterable
from typing import Any

import pytest
from rankmesh import Mesh, Reshard, Sharding, UsageError

pytest.importorskip("torch", reason="PyTorch is not installed")
import reshard_models
from rankmesh.torch import Fused, reshard_plan
from rankmesh.torch._reshard.plan import Box, Layout, Move, Moves, Window, elements, plan


def elements_of(moves: Iterable[Move]) -> int:
    return sum(elements(move.box) for move in moves)


Indices = set[tuple[int, ...]]


def random_layout(rng: random.Random, shape: tuple[int, ...], world: int) -> Layout:
    """Any mesh of some ranks in any order, any cuts, padding, and a window in a larger tensor."""
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(0, 3))]
    while (size := sum(1 for _ in itertools.product(*map(range, sizes)))) > world:
        sizes.pop()
    cuts: list[list[int]] = [[] for _ in shape]
    for axis in rng.sample(range(len(sizes)), len(sizes)):
        if (dim := rng.randint(-1, len(shape) - 1)) >= 0:
            cuts[dim].append(axis)
    whole, window = list(shape), None
    if shape and rng.random() < 0.4:
        dim, begin = rng.randrange(len(shape)), rng.randint(0, 7)
        whole[dim] += begin + rng.randint(0, 5)
        window = Window(dim, begin, begin + shape[dim])
    multiples = tuple(rng.choice([1, 1, 1, 3]) for _ in shape)
    ranks = tuple(rng.sample(range(world), size))
    return Layout(ranks, tuple(sizes), tuple(whole), tuple(map(tuple, cuts)), multiples, window)


def indices(box: Box) -> Indices:
    return set(itertools.product(*(range(begin, end) for begin, end in box)))


def held_by_chunking(layout: Layout, rank: int) -> Indices:
    """The indices of a rank's shard of a part, by chunking each dimension axis by axis."""
    if rank not in layout.ranks:
        return set()
    place = list(itertools.product(*map(range, layout.sizes)))[layout.ranks.index(rank)]
    kept = []
    for dim, (size, cut, multiple) in enumerate(zip(layout.shape, layout.cuts, layout.multiples, strict=True)):
        rows = list(range(size))
        flat, count = 0, 1
        for axis in cut:
            flat, count = flat * layout.sizes[axis] + place[axis], count * layout.sizes[axis]
        for at, of in [(place[axis], layout.sizes[axis]) for axis in cut] if multiple == 1 else [(flat, count)]:
            each = -(-len(rows) // (of * multiple)) * multiple
            rows = rows[at * each : (at + 1) * each]
        window = layout.window
        first, last = (window.begin, window.end) if window is not None and window.dim == dim else (0, size)
        kept.append([row - first for row in rows if first <= row < last])
    return set(itertools.product(*kept))


def check_moved(before: dict[str, Layout], after: dict[str, list[Layout]], plans: list[Moves], host: int) -> None:
    """Each rank gets its new shard once; a host receives an element once, or never if it has it."""
    had = {(name, rank): held_by_chunking(before[name], rank) for name in before for rank in range(len(plans))}
    has: dict[tuple[str, int], Indices] = collections.defaultdict(set)
    for stage in (0, 1):
        source = had if stage == 0 else {key: set(value) for key, value in has.items()}
        for rank, moves in enumerate(plans):
            for move in [*moves.keeps, *moves.receives]:
                if move.stage == stage:
                    new = indices(move.box)
                    assert new <= source[move.name, move.peer]
                    assert not new & has[move.name, rank]
                    assert move.peer == rank or not new & had[move.name, rank]
                    has[move.name, rank] |= new
    for name, (wanted,) in after.items():
        for rank in range(len(plans)):
            assert has[name, rank] == held_by_chunking(wanted, rank)
        for first in range(0, len(plans), host):
            there = range(first, min(first + host, len(plans)))
            come = [m for rank in there for m in plans[rank].receives if m.name == name and m.peer not in there]
            arrived = [index for move in come for index in indices(move.box)]
            assert len(arrived) == len(set(arrived))
            assert not set(arrived) & set().union(*(had[name, rank] for rank in there))


@pytest.mark.parametrize("seed", range(3))
def test_plan_moves_each_element_once_and_near(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(80):
        world, host = rng.randint(1, 12), rng.randint(1, 5)
        shape = tuple(rng.randint(0, 9) for _ in range(rng.randint(0, 3)))
        pairs = [(random_layout(rng, shape, world), random_layout(rng, shape, world)) for _ in range(2)]
        names = {f"w{i}": rng.choice(pairs) for i in range(rng.randint(1, 4))}
        before = {name: pair[0] for name, pair in names.items()}
        after = {name: [pair[1]] for name, pair in names.items()}
        plans = [plan(before, after, rank, host) for rank in range(world)]
        sent = sorted((m.stage, rank, m.peer, m.name, m.box) for rank, p in enumerate(plans) for m in p.sends)
        received = sorted((m.stage, m.peer, rank, m.name, m.box) for rank, p in enumerate(plans) for m in p.receives)
        assert sent == received
        check_moved(before, after, plans, host)


def random_sharding(rng: random.Random, world: int, shape: tuple[int, ...]) -> Sharding:
    sizes = rng.choice([(2, 2), (4,), (2, 3), (8,), (2, 2, 2), (3, 2)])
    mesh = Mesh({f"m{i}": n for i, n in enumerate(sizes)})
    mesh = mesh.shifted(rng.randint(0, world - mesh.size))
    axes: dict[int, list[str]] = {}
    for axis in mesh.axes:
        if (dim := rng.randint(-1, len(shape) - 1)) >= 0:
            axes.setdefault(dim, []).append(axis)
    return Sharding(mesh, shape, " ".join(f"{dim}={','.join(cut)}" for dim, cut in axes.items()) or "replicated")


def test_plan_crosses_hosts_with_the_bytes_of_the_core() -> None:
    rng = random.Random(5)
    for _ in range(150):
        world, host, shape = 12, rng.randint(1, 6), (rng.randint(1, 20), rng.randint(1, 20))
        before, after = random_sharding(rng, world, shape), random_sharding(rng, world, shape)
        core = Reshard(before, after, host)

        def of_core(transfers: list[Any], first: int, host: int = host) -> int:
            boxes = [t.slices for t in transfers if t.peer // host != first // host]
            return sum((a.stop - a.start) * (b.stop - b.start) for a, b in boxes)

        for first in range(0, world, host):
            there = range(first, min(first + host, world))
            ours = [m for r in there for m in reshard_plan({"w": before}, {"w": after}, rank=r, host=host).receives]
            theirs = sum(of_core(core.receives(rank), first) for rank in there)
            assert elements_of(m for m in ours if m.peer // host != first // host) == theirs


@pytest.mark.parametrize(("replicas", "hosts", "tensors"), [(8, 3, 24), (8, 1, 50), (3, 7, 5), (16, 16, 1)])
def test_plan_takes_from_replicas_in_turn(replicas: int, hosts: int, tensors: int) -> None:
    host = 2
    before = Mesh({"dp": replicas, "tp": host})
    after = Mesh({"dp": hosts, "tp": host}).shifted(before.size)
    shapes = {f"w{i}": (8, 6) for i in range(tensors)}
    had = {name: Sharding(before, shape, "0=tp") for name, shape in shapes.items()}
    wanted = {name: Sharding(after, shape, "1=tp") for name, shape in shapes.items()}
    sent = collections.Counter(
        {rank: len(reshard_plan(had, wanted, rank=rank, host=host).sends) for rank in range(before.size)}
    )
    assert sum(sent.values()) == tensors * hosts * 4
    assert max(sent.values()) - min(sent.values()) <= 1


@pytest.mark.parametrize("model", reshard_models.MODELS)
def test_plan_of_a_model_looks_at_few_pieces(model: str) -> None:
    for world in (128, 512, 2048):
        before, after = reshard_models.MODELS[model](world)
        names = sum(len(stated.parts) if isinstance(stated, Fused) else 1 for stated in after.values())
        plans = {}
        for rank in (0, world // 4 + 3, world // 2, world - 1):
            plans[rank] = reshard_plan(before, after, rank=rank, host=8)
            assert 0 < plans[rank].looked_at <= 8 * names
        for rank in (0, world - 1):  # what two ranks say of each other is the same
            peers = sorted({move.peer for move in plans[rank].sends})[:3]
            for peer in peers:
                other = reshard_plan(before, after, rank=peer, host=8)
                sent = [(m.stage, m.name, m.box) for m in plans[rank].sends if m.peer == peer]
                received = [(m.stage, m.name, m.box) for m in other.receives if m.peer == rank]
                assert sorted(sent) == sorted(received)


def test_plan_of_a_model_brings_a_rank_all_it_wants() -> None:
    before, after = reshard_models.llama_405b(256)
    moves = reshard_plan(before, after, rank=200, host=8)
    parts = {}
    for name, stated in after.items():
        parts.update(stated.parts if isinstance(stated, Fused) else {name: stated})
    slices = [sharding.slices(200) for sharding in parts.values()]
    wanted = sum(math.prod(each.stop - each.start for each in box) for box in slices)
    assert elements_of(moves.receives) + elements_of(moves.keeps) == wanted
    assert moves.keeps == []


def test_plan_raises_for_names_and_shapes_that_differ() -> None:
    w = Sharding("tp=2", (8,), "0=tp")
    with pytest.raises(UsageError, match=r"'v' is wanted, but no rank passed it in its state dict; check the name"):
        reshard_plan({"w": w}, {"v": w}, rank=0)
    with pytest.raises(UsageError, match=r"'w' has the shape \[8\] and is wanted with the shape \[9\]; state both"):
        reshard_plan({"w": w}, {"w": Sharding("tp=2", (9,))}, rank=0)
    with pytest.raises(UsageError, match=r"'w' has the split 'sum=tp': its ranks hold partial sums, .*; sum them"):
        reshard_plan({"w": Sharding("tp=2", (8,), "sum=tp")}, {"w": w}, rank=0)
    with pytest.raises(UsageError, match=r"'w' is stated twice; give each part a name of its own"):
        reshard_plan({"w": w, "f": Fused({"w": w})}, {"w": w}, rank=0)


def test_geometry_is_the_core_s_slices() -> None:
    rng = random.Random(3)
    for _ in range(100):
        shape = tuple(rng.randint(0, 9) for _ in range(2))
        stated = random_sharding(rng, 12, shape)
        for rank in stated.mesh.ranks:
            moves = reshard_plan({"w": stated}, {"w": stated}, rank=rank)
            expected = tuple((each.start, each.stop) for each in stated.slices(rank))
            assert [move.box for move in moves.keeps] == ([expected] if all(a < b for a, b in expected) else [])
            assert moves.sends + moves.receives == []
