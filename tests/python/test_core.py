"""The algebra in Python, held against tables that are built here rank by rank."""

from __future__ import annotations

import itertools
import pickle
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import rankmesh
from rankmesh import Coordinate, Group, Mesh, Placement, Reshard, Sharding
from with_numpy import needs_numpy, np

SHAPES = [
    {"dp": 1},
    {"dp": 7},
    {"pp": 1, "dp": 1, "tp": 1},
    {"pp": 4, "dp": 2, "tp": 8},
    {"pp": 3, "cp": 5, "dp": 7},
    {"a": 2, "b": 3, "c": 2, "d": 5},
]


def table(sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """The coordinate of every rank of a plain mesh, the last axis fastest."""
    return [
        dict(zip(sizes, indices, strict=True))
        for indices in itertools.product(*(range(size) for size in sizes.values()))
    ]


def sets_of_axes(sizes: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    for count in range(1, len(sizes) + 1):
        yield from itertools.combinations(sizes, count)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_every_answer_is_that_of_a_table(sizes: dict[str, int]) -> None:
    mesh = Mesh(**sizes)
    coordinates = table(sizes)
    assert mesh.size == len(coordinates) == mesh.extent
    assert mesh.axes == tuple(sizes)
    assert mesh.sizes == sizes
    assert mesh.shape == tuple(sizes.values())
    assert list(mesh.ranks) == list(range(mesh.size))
    for rank, at in enumerate(coordinates):
        assert mesh.coord(rank) == at
        assert dict(mesh.coord(rank)) == at
        assert mesh.rank(at) == mesh.rank(**at) == mesh.rank(mesh.coord(rank)) == rank
        for axis, index in at.items():
            assert mesh.index(rank, axis) == index == mesh.coord(rank)[axis]
            for by, edge in itertools.product((-2, -1, 1, 3), ("open", "wrap")):
                to = index + by
                inside = 0 <= to < sizes[axis]
                wanted = None if edge == "open" and not inside else {**at, axis: to % sizes[axis]}
                expected = None if wanted is None else coordinates.index(wanted)
                assert mesh.neighbor(rank, axis, by, edge) == expected
        for axes in sets_of_axes(sizes):
            same = [r for r, other in enumerate(coordinates) if all(at[a] == other[a] for a in at if a not in axes)]
            group = mesh.group(rank, *axes)
            assert list(group) == same
            assert group.index(rank) == group.group_rank(rank) == same.index(rank)
    for axes in sets_of_axes(sizes):
        partition = mesh.partition(*axes)
        assert sorted(rank for group in partition for rank in group) == list(range(mesh.size))
        assert np is None or [list(group) for group in partition] == partition.numpy().tolist()
        assert partition == mesh.partition(*reversed(axes))


def test_a_partition_in_order_lists_the_first_named_axis_outermost() -> None:
    mesh = Mesh(dp=2, cp=3, tp=2)
    for group in mesh.partition_in_order("cp", "dp"):
        assert [(mesh.index(r, "cp"), mesh.index(r, "dp")) for r in group] == list(
            itertools.product(range(3), range(2))
        )


@pytest.mark.parametrize("text", ["pp=4 dp=8 tp=8", "pp=2:32 dp=4:8 @64", "a=(2,2):(8,1) b=2:2", "dp=1"])
def test_text_repr_and_pickle_give_the_same_mesh_back(text: str) -> None:
    mesh = Mesh(text)
    assert mesh.text == f"{mesh}" == text
    same = [Mesh(mesh.text), eval(repr(mesh)), pickle.loads(pickle.dumps(mesh)), Mesh(mesh)]
    assert all(other == mesh and hash(other) == hash(mesh) for other in same)
    assert len({mesh, *same}) == 1
    for axis in mesh.axes:
        groups: list[Any] = [mesh.group(mesh.offset, axis), mesh.group(mesh.offset, *mesh.axes), mesh.ranks]
        for value in [*groups, mesh.partition(axis), mesh.coord(mesh.offset), mesh.partition_in_order(axis)]:
            for again in (eval(repr(value)), pickle.loads(pickle.dumps(value))):
                assert again == value
                assert hash(again) == hash(value)
                assert type(again) is type(value)


@needs_numpy
def test_a_mesh_is_made_of_text_pairs_mappings_and_keywords() -> None:
    mesh = Mesh("pp=4 dp=8 tp=8")
    assert mesh == Mesh(pp=4, dp=8, tp=8) == Mesh({"pp": 4, "dp": 8, "tp": 8})
    assert mesh == Mesh([("pp", 4), ("dp", 8), ("tp", 8)]) == Mesh("pp=4 dp=* tp=8", 256)
    assert mesh == Mesh({"pp": 4, "dp": "*", "tp": np.int64(8)}, 256)
    assert mesh != "pp=4 dp=8 tp=8"


def test_meshes_are_rearranged_as_in_cpp() -> None:
    mesh = Mesh("pp=4 dp=8 tp=8")
    assert mesh.slice(dp=3).text == "pp=4:64 tp=8:1 @24"
    assert mesh.slice({"dp": 3}) == mesh.slice("dp=3") == mesh.slice(dp=3)
    assert mesh.flatten("dp", "tp", into="mp") == Mesh(pp=4, mp=64)
    assert mesh.split("tp", ep=2, etp="*") == mesh.split("tp", {"ep": 2, "etp": 4}) == Mesh(pp=4, dp=8, ep=2, etp=4)
    assert mesh.permuted("tp", "dp", "pp").partition("tp") == mesh.partition("tp")
    assert mesh.slice(tp=0).concatenate(mesh.slice(pp=0, dp=0)) == mesh
    assert mesh.shifted(8).offset == 8
    assert mesh.size_of("dp") == 8


@needs_numpy
def test_groups_are_sequences() -> None:
    group = Mesh("pp=4 dp=8 tp=8").group(67, "pp", "tp")
    ranks = list(group)
    assert isinstance(group, Sequence)
    assert not isinstance(group, list)
    assert len(group) == 32
    assert group[-1] == ranks[-1]
    assert group[2:9:3] == ranks[2:9:3]
    assert group[::-1] == list(reversed(group)) == ranks[::-1]
    assert ranks[3] in group
    assert 8 not in group
    assert "8" not in group
    assert 2**70 not in group
    assert group.count(ranks[0]) == 1
    assert group.count(2**70) == 0
    assert group.index(ranks[5], 0, sys.maxsize) == 5
    assert list(group.pick(0, -1)) == [ranks[0], ranks[-1]]
    assert np.array_equal(np.asarray(group), ranks)
    assert np.asarray(group, dtype=np.int64).dtype == np.int64
    assert group == Group(ranks) == Group(str(group))
    with pytest.raises(IndexError):
        group[32]


def test_a_group_holds_no_table() -> None:
    whole = Mesh(dp=2**30).group(5, "dp")
    assert len(whole) == 2**30
    assert whole[-1] == 2**30 - 1
    assert whole.index(77) == 77
    assert len(pickle.dumps(whole)) < 1000
    assert pickle.loads(pickle.dumps(whole)) == whole


@needs_numpy
def test_the_array_of_a_partition_is_one_and_its_rows_are_views() -> None:
    array = Mesh(dp=4, tp=8).partition("tp").numpy()
    assert array.shape == (4, 8)
    assert array.dtype == np.int32
    assert array.flags.c_contiguous
    assert np.shares_memory(array, array[2])


@needs_numpy
def test_a_placement_answers_what_its_table_says() -> None:
    ranks = list(range(24))
    random.Random(7).shuffle(ranks)
    mesh = Mesh(a=2, b=3, c=4)
    placement = Placement(mesh, ranks)
    for place, rank in enumerate(ranks):
        assert placement.coord(rank) == mesh.coord(place)
        assert placement.rank(mesh.coord(place)) == rank
        assert list(placement.group(rank, "a", "c")) == [ranks[r] for r in mesh.group(place, "a", "c")]
    assert np.array_equal(placement.numpy(), np.reshape(ranks, (2, 3, 4)))
    assert not placement.numpy().flags.writeable
    assert np.shares_memory(placement.numpy(), placement.numpy())
    for same in (Placement(placement.text), eval(repr(placement)), pickle.loads(pickle.dumps(placement))):
        assert same == placement
        assert hash(same) == hash(placement)


@needs_numpy
def test_the_array_of_a_placement_outlives_it() -> None:
    array = Placement("a=2 b=2 @[3,1,2,0]").numpy()
    assert array.tolist() == [[3, 1], [2, 0]]


def test_coordinates_are_mappings() -> None:
    at = Mesh("pp=4 dp=8 tp=8").coord(67)
    assert isinstance(at, Mapping)
    assert dict(at) == {"pp": 1, "dp": 0, "tp": 3} == at
    assert list(at) == ["pp", "dp", "tp"]
    assert list(at.values()) == [1, 0, 3]
    assert at.get("xx") is None
    assert at.get("xx", 5) == 5
    assert "pp" in at
    assert 3 not in at
    assert "\udc80" not in at
    assert at.get("\udc80", 7) == 7
    assert at == Coordinate(tp=3, pp=1, dp=0)
    assert hash(at) == hash(Coordinate(tp=3, pp=1, dp=0))
    assert at != Coordinate(tp=3, pp=1)


class Odd:
    def __repr__(self) -> str:
        return "\udc80"


MESH = Mesh("pp=4 dp=8 tp=8")
WRONG: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: MESH.coord(256),
        ValueError,
        "rank 256 is outside mesh pp=4 dp=8 tp=8, which covers ranks 0..255",
    ),
    (
        lambda: MESH.coord(10**30),
        ValueError,
        "a rank is a number of more than 64 bits; ranks, sizes and indices are at most 2147483647",
    ),
    (
        lambda: MESH.coord(2**40),
        ValueError,
        "a rank is 1099511627776; ranks, sizes and indices are at most 2147483647",
    ),
    (lambda: MESH.coord("67"), TypeError, "a rank is '67', which is str; it must be an int"),
    (lambda: MESH.coord(1.0), TypeError, "a rank is 1.0, which is float; it must be an int"),
    (lambda: MESH.coord(3)["zp"], KeyError, "the coordinate has no axis 'zp'; did you mean 'pp'?"),
    (lambda: MESH.group(1, "zp"), KeyError, "mesh pp=4 dp=8 tp=8 has no axis 'zp'; did you mean 'pp'?"),
    (
        lambda: MESH.group(1),
        ValueError,
        "no axis is given; name at least one axis of mesh pp=4 dp=8 tp=8, such as 'pp'; if the call takes a rank",
    ),
    (lambda: MESH.group(1, "pp", "pp"), ValueError, "axis 'pp' is named twice in one list of axes"),
    (lambda: MESH.partition("tp", "pp", "tp"), ValueError, "axis 'tp' is named twice in one list of axes"),
    (lambda: MESH.coord(True), TypeError, "a rank is True, which is bool; it must be an int"),
    (lambda: MESH.group(1, 3), TypeError, "an axis is 3, which is int; it must be the str of its name"),
    (lambda: MESH.rank(pp=1, zp=2), KeyError, "mesh pp=4 dp=8 tp=8 has no axis 'zp'; did you mean 'pp'?"),
    (lambda: MESH.neighbor(0, "tp", 1, "around"), ValueError, "edge is 'around'; it must be 'open' or 'wrap'"),
    (lambda: Mesh(pp=0), ValueError, "axis 'pp' has size 0; sizes are 1 or more"),
    (lambda: Mesh({"pp": True}), TypeError, "the size of axis 'pp' is True, which is bool; it must be an int"),
    (
        lambda: Mesh("dp=4 tp=2", 9),
        ValueError,
        "mesh dp=4 tp=2 makes a world of 8, not of 9; leave out the number, or make a size '*'",
    ),
    (lambda: Mesh({"dp": 4}, 3), ValueError, "mesh dp=4 makes a world of 4, not of 3"),
    (lambda: Mesh("dp=4 @4", 9), ValueError, "mesh dp=4 @4 makes a world of 8, not of 9"),
    (lambda: rankmesh.check("dp=8", over=[("dp", "zz")]), KeyError, "mesh dp=8 has no axis 'zz'"),
    (lambda: rankmesh.check("dp=8", axes=["dpp"]), KeyError, "mesh dp=8 has no axis 'dpp'; did you mean 'dp'?"),
    (lambda: Mesh(pp=3.5), TypeError, "the size of axis 'pp' is 3.5, which is float; it must be an int"),
    (lambda: Mesh(**{"p p": 2}), ValueError, "name"),
    (lambda: Mesh(pp=2**31), ValueError, "2147483648"),
    (lambda: Mesh("pp=4", tp=2), ValueError, "a mesh is text with the size of the world, or axes"),
    (lambda: Mesh("dp=* tp=3", 8), ValueError, "does not fit a world of 8"),
    (lambda: Mesh("a=\ud800"), ValueError, "which is no valid Unicode"),
    (lambda: Mesh("größe=2"), ValueError, "größe"),
    (lambda: Mesh(3), TypeError, "a mesh is 3, which is int; it must be a str, a mapping, or pairs"),
    (
        lambda: Mesh(["pp", "tp"]),
        TypeError,
        "an axis is 'pp', which is str; it must be a pair such as ('tp', 8)",
    ),
    (lambda: Group([1, 1]), ValueError, "a group lists rank 1 twice"),
    (lambda: Group([-1]), ValueError, "a group lists rank -1; ranks are 0 or more"),
    (lambda: Group([]), ValueError, "a group of no ranks; list at least one"),
    (lambda: Group(3), TypeError, "a group must be a sequence of ints, not 3, which is int"),
    (lambda: Mesh(Odd()), TypeError, "a mesh is \\udc80, which is Odd; it must be a str, a mapping, or pairs"),
    (lambda: Mesh(None), TypeError, "a mesh is None, which is NoneType"),
    (lambda: MESH.coord(None), TypeError, "a rank is None, which is NoneType; it must be an int"),
    (lambda: MESH.neighbor(0, "tp", 1, None), TypeError, "edge is None, which is NoneType; it must be a str"),
    (lambda: rankmesh.show(None), TypeError, "a mesh is None, which is NoneType; it must be a str"),
    (lambda: Group("{0..4}").index(9), ValueError, "rank 9 is not in the group {0..4}"),
    (lambda: Sharding("tp=2", 8), TypeError, "the shape must be a sequence of ints, not 8, which is int"),
    (lambda: Sharding("tp=2", [8.0]), TypeError, "a size of the shape is 8.0, which is float; it must be an int"),
    (lambda: Sharding("tp=2", [1 << 70]), ValueError, "2^62 elements or more"),
    (lambda: Sharding("tp=2", [8], "1=tp"), ValueError, "splits dimension 1 of an array of 1 dimension"),
    (lambda: Sharding("tp=2", [8], "sum=tp").part(2), ValueError, "rank 2 is outside mesh tp=2"),
    (lambda: Placement(Mesh(a=4), [1, 2]), ValueError, "a placement lists 2 ranks; mesh a=4 has 4 positions"),
    pytest.param(
        lambda: np.asarray(Group("{0..4}"), copy=False),
        ValueError,
        "ranks are no array that could be shared",
        marks=needs_numpy,
    ),
    (lambda: rankmesh.show("pp=2", on="node"), ValueError, "node"),
    (lambda: rankmesh.show("pp=2", rank=7), ValueError, "rank 7"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_wrong_input_is_an_exception_of_the_natural_kind(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, rankmesh.Error)
    assert text in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_show_draws_every_rank_once() -> None:
    picture = rankmesh.show("pp=2 dp=4 tp=8", on="node:8 gpu:8", rank=9)
    ranks = [rank for row in picture.rows() for rank in row if rank is not None]
    assert sorted(ranks) == list(range(64))
    assert "node 7" in str(picture)
    assert "\x1b[" in picture.text(color=True)
    assert "[9]" in str(picture)
    assert picture.svg().startswith("<svg")
    assert rankmesh.show("pp=4 dp=32 tp=8").svg().count('class="rank') == 1024
    assert picture.page().startswith("<!doctype html>")
    assert Mesh("pp=2 dp=4 tp=8")._repr_html_().startswith("<svg")


def test_print_draws_a_mesh_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    mesh = Mesh("pp=2 tp=4")
    for out, expected in ((Terminal(), rankmesh.show(mesh).text()), (io.StringIO(), mesh.text)):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr("sys.stdout", out)
        print(mesh)
        monkeypatch.undo()
        assert out.getvalue() == expected + "\n"


def test_check_counts_what_a_join_makes() -> None:
    report = rankmesh.check("pp=16 dp=* tp=8", world=1 << 20, over=[("dp", "tp")])
    assert report.communicators == 4
    assert [(s.axes, s.group_size) for s in report.sets] == [
        ("pp", 16),
        ("dp", 8192),
        ("tp", 8),
        ("dp,tp", 65536),
    ]
    assert report.world == 1 << 20
    assert report.outside == 0
    assert report.connections == 15 + 8191 + 7 + 65535
    assert rankmesh.check(Placement("a=2 b=2 @[3,1,2,0]")).fits
    assert rankmesh.check("tp=4", world=6).outside == 2


def moved(steps: list[Reshard], had: dict[int, np.ndarray[Any, Any]]) -> dict[int, np.ndarray[Any, Any]]:
    """What every rank has after the steps, each message taken from what its sender had."""
    for step in steps:
        to = step.to
        has = {rank: np.zeros([part.stop - part.start for part in to.slices(rank)]) for rank in to.mesh.ranks}
        come = {rank: {} for rank in to.mesh.ranks}  # type: dict[int, dict[Any, Any]]
        for stage in (0, 1):
            for rank, values in has.items():
                pieces = step.receives(rank) + (step.keeps(rank) if stage == 0 else [])
                for piece in pieces:
                    if piece.stage != stage:
                        continue
                    key = (piece.part, str(piece.slices))
                    if stage == 0:
                        come[rank][key] = had[piece.peer][piece.within(step.from_, piece.peer)]
                    else:
                        come[rank][key] = come[piece.peer][key]
                    values[piece.within(to, rank)] += come[rank][key]
        had = has
    return had


@needs_numpy
@pytest.mark.parametrize("host", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("mesh", "split", "other", "into"),
    [
        ("dp=2 tp=2", "0=tp", "tp=4 @4", "1=tp"),
        ("dp=2 tp=4", "0=dp sum=tp", "dp=2 tp=3", "1=tp,dp"),
        ("pp=3", "sum=pp", "a=2 b=2 @8", "replicated"),
        ("tp=3", "0=tp:megatron2", "tp=2 @1", "0=tp"),
    ],
)
def test_reshard_brings_each_rank_its_slice(mesh: str, split: str, other: str, into: str, host: int) -> None:
    shape = (7, 5)
    whole = np.arange(35.0).reshape(shape)
    before, after = Sharding(mesh, shape, split), Sharding(Mesh(other), shape, into)
    had = {rank: whole[before.slices(rank)] * (before.part(rank) + 1) for rank in before.mesh.ranks}
    total = sum(range(1, before.parts + 1))
    for steps in ([Reshard(before, after, host)], Reshard.steps(before, after, host)):
        for rank, values in moved(pickle.loads(pickle.dumps(steps)), had).items():
            assert np.array_equal(values, total * whole[after.slices(rank)])
    plan = Reshard(before, after, host)
    ranks = range(max(*before.mesh.ranks, *after.mesh.ranks) + 1)
    sent = {(rank, each.peer, each.part, str(each.slices)) for rank in ranks for each in plan.sends(rank)}
    assert sent == {(each.peer, rank, each.part, str(each.slices)) for rank in ranks for each in plan.receives(rank)}


def test_a_message_is_an_index_only_of_what_holds_it() -> None:
    quarters = Sharding("a=4", (4,), "0=a")
    piece = Reshard(quarters, Sharding("a=1", (4,))).receives(0)[0]
    assert piece.within(quarters, 1) == (slice(0, 1),)
    with pytest.raises(rankmesh.UsageError, match=r"^rank 0 holds \[0:1\], which does not contain \[1:2\]$"):
        piece.within(quarters, 0)


@needs_numpy
def test_a_mesh_as_an_array_is_its_ranks_in_its_shape() -> None:
    for mesh in (MESH, Mesh("dp=2 tp=3 @4"), MESH.slice(dp=3)):
        array = np.asarray(mesh)
        assert array.dtype == np.int32
        assert array.shape == mesh.shape
        assert np.array_equal(array, mesh.numpy())
        assert array.ravel().tolist() == list(mesh.ranks)
        assert all(array[tuple(mesh.coord(rank).values())] == rank for rank in mesh.ranks)
        assert np.asarray(mesh, dtype=float).dtype == float
    placement = Placement("a=2 b=2 @[3,1,2,0]")
    assert np.asarray(placement).tolist() == placement.numpy().tolist() == [[3, 1], [2, 0]]
    assert np.array(placement).flags.writeable


def test_a_size_of_the_world_that_the_mesh_fills_is_no_matter() -> None:
    assert Mesh("dp=4 tp=2", 8) == Mesh({"dp": 4, "tp": 2}, 8) == Mesh("dp=* tp=2", 8)
    assert Mesh("dp=4 @4", 8) == Mesh("dp=* @4", 8)


def test_no_rank_is_true_or_false() -> None:
    for ranks in (MESH, Group("{0..4}"), Placement("a=2 @[1,0]")):
        assert 1 in ranks
        assert True not in ranks
