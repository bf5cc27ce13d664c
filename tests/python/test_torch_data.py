"""rankmesh.torch.data: every sample once an epoch in every mesh, and seeds that differ exactly along the named axes."""

from __future__ import annotations

import contextlib
import doctest
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rankmesh import Mesh, Placement, UnknownName, UsageError, UsageTypeError

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import torch
from rankmesh.torch import data
from rankmesh.torch.data import Sampler, fork_rng, seed
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler
from torch_ranks import fake_world, ranks

AXES = ("pp", "dp", "cp", "tp")


def meshes(number: int, seeded: int) -> Iterator[tuple[Mesh, random.Random]]:
    """Small meshes of these axes in any order, each with numbers to draw from."""
    for at in range(number):
        draw = random.Random(seeded * 1000 + at)
        yield Mesh([(axis, draw.randint(1, 4)) for axis in draw.sample(AXES, 4)]), draw


def readers(mesh: Mesh, over: tuple[str, ...]) -> list[int]:
    """The ranks of the first replica, in the order of the mesh: those that read all samples together."""
    return list(mesh.group(0, *over)) if over else [0]


def samplers(mesh: Mesh, over: tuple[str, ...], length: int, **options: Any) -> list[Sampler]:
    return [Sampler(range(length), mesh, over, rank=rank, **options) for rank in readers(mesh, over)]


def in_turn(lists: list[list[int]]) -> list[int]:
    """The first of each list, the second of each, and so on: the global order."""
    rounds = itertools.zip_longest(*lists)
    return [sample for each in rounds for sample in each if sample is not None]


def test_every_sample_is_read_once_in_any_mesh() -> None:
    for mesh, draw in meshes(200, 1):
        length, over = draw.randint(0, 60), tuple(draw.sample(AXES, draw.randint(0, 3)))
        options, epoch = {"seed": draw.randint(0, 5), "shuffle": draw.random() < 0.8}, draw.randint(0, 3)
        together = samplers(mesh, over, length, **options)
        for sampler in together:
            sampler.set_epoch(epoch)
        lists = [list(sampler) for sampler in together]
        assert [len(sampler) for sampler in together] == [len(each) for each in lists]
        alone = Sampler(range(length), Mesh("dp=1"), rank=0, **options)  # the order depends on no layout
        alone.set_epoch(epoch)
        assert in_turn(lists) == list(alone)
        assert sorted(in_turn(lists)) == list(range(length))


def test_ranks_of_one_replica_read_the_same_samples() -> None:
    for mesh, draw in meshes(50, 2):
        over = tuple(draw.sample(AXES, draw.randint(1, 3)))
        lists = {rank: list(Sampler(range(40), mesh, over, rank=rank)) for rank in mesh.ranks}
        others = [axis for axis in AXES if axis not in over]
        for rank in mesh.ranks:
            assert all(lists[peer] == lists[rank] for peer in mesh.group(rank, *others))


@pytest.mark.parametrize("drop_last", [True, False])
def test_sampler_when_a_remainder_is_dropped_is_that_of_torch(drop_last: bool) -> None:
    for mesh, draw in meshes(100, 3):
        length, epoch, options = draw.randint(1, 60), draw.randint(0, 3), {"seed": draw.randint(0, 5)}
        count = mesh.size_of("dp")
        for rank in mesh.ranks:
            ours = Sampler(range(length), mesh, rank=rank, drop_last=drop_last, **options)
            index = mesh.index(rank, "dp")
            theirs = DistributedSampler(range(length), count, index, drop_last=drop_last, **options)  # type: ignore
            for each in (ours, theirs):
                each.set_epoch(epoch)
            assert (list(ours), len(ours)) == (list(theirs), len(theirs))


class Batches:
    """A program that reads batches without a loader."""

    def __init__(self, sampler: Sampler, batch: int) -> None:
        self.sampler, self.batch, self.load_state_dict = sampler, batch, sampler.load_state_dict

    def __iter__(self) -> Iterator[list[int]]:
        iterator = iter(self.sampler)
        while batch := list(itertools.islice(iterator, self.batch)):
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return self.sampler.state_dict()


def flat(batches: Iterable[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def with_loader(workers: int) -> Callable[[Sampler, int], Any]:
    loaders = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")

    def make(sampler: Sampler, batch: int) -> Any:
        ahead = 3 if workers else None
        return loaders.StatefulDataLoader(
            sampler.dataset, batch, sampler=sampler, num_workers=workers, collate_fn=list, prefetch_factor=ahead
        )

    return make


def read(make: Callable[[Sampler, int], Any], draw: random.Random, length: int, drop_last: bool | None) -> list[int]:
    """All samples of an epoch in the order of their steps, read in several meshes one after the other."""
    seen: list[int] = []
    state, more, epoch, options = None, True, draw.randint(0, 3), {"seed": draw.randint(0, 9), "drop_last": drop_last}
    while more:
        mesh, batch = Mesh(dp=draw.randint(1, 4), tp=draw.randint(1, 2)), draw.randint(1, 5)
        loaders = [make(sampler, batch) for sampler in samplers(mesh, ("dp",), length, **options)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
            loader.sampler.set_epoch(epoch)
        steps = itertools.zip_longest(*map(iter, loaders), fillvalue=[])
        for step in itertools.islice(steps, draw.randint(0, 3)):
            seen += in_turn(list(step))
            told = [getattr(loader, "sampler", loader).state_dict() for loader in loaders]
            assert all(each["position"] <= length for each in told if "position" in each)
            if len(step[0]) == len(step[-1]) and not getattr(loader, "num_workers", 0):
                assert all(each == told[0] for each in told)  # so any rank may keep it
        state = loaders[0].state_dict()
        more = next(steps, None) is not None
    assert all(loader.sampler.state_dict()["position"] == length for loader in loaders)
    return seen


@pytest.mark.parametrize(("workers", "runs"), [(None, 300), (0, 60), (2, 4)])
def test_state_when_the_mesh_changes_skips_and_repeats_none(workers: int | None, runs: int) -> None:
    make = Batches if workers is None else with_loader(workers)
    for at in range(runs):
        length = 20 + at % 7
        assert sorted(read(make, random.Random(at), length, None)) == list(range(length)), at
        if workers is None:
            whole = read(make, random.Random(at), length, False)
            assert set(whole) == set(range(length))
            assert len(whole) < length + 4
            rest = read(make, random.Random(at), length, True)
            assert len(rest) == len(set(rest)) > length - 4


def test_state_when_an_epoch_is_over_begins_the_next_one() -> None:
    def fresh(epoch: int) -> list[int]:
        sampler = Sampler(range(10), Mesh("dp=1"), rank=0)
        sampler.set_epoch(epoch)
        return list(sampler)

    for make in (Batches, with_loader(0), with_loader(1)):
        loader = make(Sampler(range(10), Mesh("dp=1"), rank=0), 4)
        loader.sampler.set_epoch(1)
        steps = iter(loader)
        batches = [next(steps) for _ in range(3)]
        last = loader.state_dict()  # of the last batch, in the loop over epoch 1
        assert list(steps) == []
        for state, epoch, rest in [(last, 1, []), (last, 2, fresh(2)), (loader.state_dict(), 2, fresh(2))]:
            again = make(Sampler(range(10), Mesh("dp=1"), rank=0), 3)
            again.load_state_dict(state)
            again.sampler.set_epoch(epoch)
            assert flat(again) == rest
            again.sampler.set_epoch(epoch + 1)
            assert flat(again) == fresh(epoch + 1)
        assert flat(batches) == fresh(1)
        assert flat(loader) == fresh(1)  # as with torch's samplers, the order is the same until set_epoch


def test_state_when_its_epoch_is_read_again_counts_once() -> None:
    sampler = Sampler(range(6), Mesh("dp=2"), rank=0, shuffle=False)
    sampler.load_state_dict(sampler.state_dict() | {"position": 3})
    assert [list(sampler), list(sampler)] == [[3, 5], [0, 2, 4]]


def test_state_when_loaded_before_workers_start_is_kept() -> None:
    sampler = Sampler(range(20), Mesh("dp=2"), rank=1, shuffle=False)
    sampler.load_state_dict(Sampler(range(20), Mesh("dp=2"), rank=0, shuffle=False).state_dict() | {"position": 10})
    assert flat(with_loader(2)(sampler, 2)) == [11, 13, 15, 17, 19]


def test_batches_of_a_step_when_the_mesh_changes_are_the_same() -> None:
    for batch in (1, 3):
        whole = [set(each) for each in Batches(Sampler(range(48), Mesh("dp=1"), rank=0), 12 * batch)]
        for count in (2, 3, 4, 6):
            parts = [Batches(each, 12 * batch // count) for each in samplers(Mesh(dp=count), ("dp",), 48)]
            assert [set().union(*step) for step in zip(*parts, strict=True)] == whole


def in_world(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    mesh, over = Mesh("tp=2 dp=2"), ("dp", "tp")
    with rankmesh.torch.init(mesh) as me:
        device_mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
        device_mesh._flatten("all")
        for axes in ("dp", "tp", over):
            expected = list(Sampler(range(10), mesh, axes, rank=rank))
            for which in (me, device_mesh, mesh, Placement(mesh, range(4))):
                assert list(Sampler(range(10), which, axes)) == expected
                assert seed(3, which, axes) == seed(3, mesh, axes, rank=rank)
        assert list(Sampler(range(10), device_mesh, "all")) == list(Sampler(range(10), mesh, over))
        assert list(Sampler(range(10), device_mesh["dp"])) == list(Sampler(range(10), mesh))
        for which, name in ((me, "Member"), (device_mesh, "DeviceMesh")):
            with pytest.raises(UsageError, match=f"^Sampler was given rank=1 with a {name}, which has a rank; leave"):
                Sampler(range(3), which, rank=1)


def test_members_and_device_meshes_read_what_their_rank_reads(tmp_path: Path) -> None:
    ranks(4, in_world, tmp_path)


def test_a_rank_outside_a_device_mesh_is_told_so() -> None:
    from torch.distributed.device_mesh import DeviceMesh

    with fake_world(3, 4), pytest.raises(UsageError) as caught:
        Sampler(range(3), DeviceMesh("cpu", [0, 1], mesh_dim_names=("dp",)))
    assert str(caught.value).startswith("Sampler was called on rank 3, which is outside DeviceMesh(")


def read_some(rank: int, size: int, plan: str, batch_size: int, state: Any, steps: int) -> tuple[int, list[int], Any]:
    from torchdata.stateful_dataloader import StatefulDataLoader

    dataset, epoch, seen = range(100), 3, []
    with rankmesh.torch.init(plan) as me:
        sampler = rankmesh.torch.data.Sampler(dataset, me, over="dp")
        loader = StatefulDataLoader(dataset, batch_size=batch_size, sampler=sampler)
        if state is not None:
            loader.load_state_dict(state)
        sampler.set_epoch(epoch)
        for batch in itertools.islice(loader, steps):
            seen += batch.tolist()
        return me.at("dp"), seen, loader.state_dict()


def test_an_epoch_is_read_once_by_worlds_of_other_sizes(tmp_path: Path) -> None:
    pytest.importorskip("torchdata", reason="torchdata is not installed")
    state, seen = None, []
    for size, plan, batch_size, steps in [(4, "dp=2 tp=2", 3, 4), (3, "dp=3 tp=1", 5, 2), (4, "tp=2 dp=2", 4, 99)]:
        found = ranks(size, read_some, tmp_path, plan, batch_size, state, steps)
        assert all(each == found[0][2] for _, _, each in found)  # the state of any rank
        parts = {at: samples for at, samples, _ in found}
        assert all(samples == parts[at] for at, samples, _ in found)  # along tp they are equal
        seen += [sample for samples in parts.values() for sample in samples]
        state = found[-1][2]
    assert sorted(seen) == list(range(100))


def test_wrong_arguments_are_refused_in_words() -> None:
    mesh = Mesh("dp=2 tp=2")
    state = Sampler(range(3), mesh, rank=0).state_dict()
    texts: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: Sampler(range(3), mesh, "ddp", rank=0), UnknownName, "has no axis 'ddp'; did you mean 'dp'?"),
        (lambda: Sampler(range(3), mesh, rank=4), UsageError, "rank 4 is outside mesh dp=2 tp=2"),
        (
            lambda: Sampler(range(3), mesh, ("dp", "tp", "dp"), rank=0),
            UsageError,
            "Sampler was given axis 'dp' twice; name each axis once",
        ),
        (
            lambda: seed(3, mesh, "dp"),
            UsageError,
            "seed does not know which rank asks; give rank=, or initialise torch.distributed first",
        ),
        (
            lambda: Sampler(range(3), "dp=2"),  # type: ignore[arg-type]
            UsageTypeError,
            "Sampler was given a mesh of type str; pass a Member of rankmesh.torch.init, a DeviceMesh, a Mesh or a "
            "Placement",
        ),
        (
            lambda: Sampler(range(4), mesh, rank=0, seed=1).load_state_dict(state),
            UsageError,
            "the state is of the order length=3, seed=0, shuffle=True, this Sampler's is length=4, seed=1, "
            "shuffle=True; make the Sampler with the data set, seed and shuffle of the state",
        ),
        (
            lambda: Sampler(range(4), mesh, rank=0).load_state_dict({"yielded": 3}),
            UsageError,
            "the state has the keys ['yielded']; pass what state_dict of a Sampler returned",
        ),
        (
            lambda: seed(3, mesh, "dp", rank=0, dp=1),
            UsageError,
            "seed was given 'dp' in distinct and as dp=1; give it once",
        ),
        (
            lambda: seed(3, distinct="dp"),
            UsageError,
            "seed was given distinct='dp' without a mesh; pass the mesh of these axes",
        ),
    ]
    for call, kind, text in texts:
        with pytest.raises(kind) as caught:
            call()
        assert text in str(caught.value)


def test_seeds_differ_exactly_along_the_named_axes() -> None:
    found: dict[object, int] = {}
    for mesh, draw in meshes(100, 4):
        distinct, base, step = draw.sample(AXES, draw.randint(0, 4)), draw.randint(-5, 5), draw.choice(["", "x", 0, 1])
        for rank in mesh.ranks:
            at = {axis: mesh.index(rank, axis) for axis in distinct}
            given = seed(base, mesh, distinct, rank=rank, step=step)
            assert given == seed(base, step=step, **at)
            assert 0 <= given < 2**63
            assert found.setdefault((base, repr(step), *sorted(at.items())), given) == given  # in all meshes
    assert len(set(found.values())) == len(found) > 1000
    assert seed(1, dp=2, step=3) == 300149720992887461  # the same in every version


def test_random_numbers_of_two_seeds_are_independent() -> None:
    masks = []
    for at in itertools.product(range(3), range(3), range(2)):
        with fork_rng(seed(0, dp=at[0], tp=at[1], step=at[2])):
            masks.append(torch.rand(20_000) < 0.5)
    for one, other in itertools.combinations(masks, 2):
        assert abs((one == other).float().mean() - 0.5) < 0.02  # 5.6 standard deviations


def test_fork_rng_leaves_the_numbers_outside_as_they_are() -> None:
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    drawn = [torch.rand(2)]
    with contextlib.suppress(RuntimeError), fork_rng(7):
        inside = torch.rand(3)
        raise RuntimeError
    drawn.append(torch.rand(2))
    assert torch.equal(torch.cat(drawn), expected)
    assert torch.equal(inside, torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_dropout_when_computed_again_is_the_same() -> None:
    step, hidden = 7, torch.ones(1000, requires_grad=True)

    def layer(x: Any) -> Any:
        with fork_rng(seed(0, dp=1, tp=1, step=step, layer=3)):
            return torch.nn.functional.dropout(x, 0.5)

    out = checkpoint(layer, hidden, use_reentrant=False)
    out.sum().backward()
    assert torch.equal(out, hidden.grad)


def dropout_of(rank: int, size: int) -> tuple[str, Any, Any]:
    step, hidden = 7, torch.ones(100)
    with rankmesh.torch.init("dp=2 tp=2") as me:
        with fork_rng(seed(42, me, "dp", step=step, layer=3)):  # same numbers on all tp ranks: for replicated tensors
            replicated = torch.nn.functional.dropout(hidden, 0.1)
        with fork_rng(seed(42, me, ("dp", "tp"), step=step, layer=3)):  # for tensors split along tp
            sharded = torch.nn.functional.dropout(hidden, 0.1)
        return str(me.coord), replicated.tolist(), sharded.tolist()


def test_dropout_differs_along_the_axes_of_its_seed(tmp_path: Path) -> None:
    found = {coord: (replicated, sharded) for coord, replicated, sharded in ranks(4, dropout_of, tmp_path)}
    replicated = [found[f"dp={dp} tp={tp}"][0] for dp in range(2) for tp in range(2)]
    assert replicated[0] == replicated[1] != replicated[2] == replicated[3]
    assert len({str(sharded) for _, sharded in found.values()}) == 4


class Noisy:
    """A data set whose samples are augmented at random."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, at: int) -> float:
        return at + torch.rand(()).item()


def test_workers_of_one_replica_augment_samples_alike() -> None:
    mesh, read = Mesh("dp=2 tp=2"), []
    for rank in mesh.ranks:
        sampler = Sampler(Noisy(), mesh, rank=rank)
        drawing = torch.Generator().manual_seed(seed(1, mesh, "dp", rank=rank, epoch=0))
        read.append(torch.cat(list(DataLoader(Noisy(), 2, sampler=sampler, num_workers=2, generator=drawing))))  # type: ignore
    assert torch.equal(read[0], read[1])
    assert torch.equal(read[2], read[3])
    assert not (read[0] % 1 == read[2] % 1).any()


def test_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(data, extraglobs={"Mesh": Mesh}).failed == 0
