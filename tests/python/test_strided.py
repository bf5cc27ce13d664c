"""Arrays that are not contiguous, and the ghost cells of fields: NumPy says what they must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from rankmesh import Communicator, Member, World, run

np = pytest.importorskip("numpy", reason="NumPy is not installed")


def group_of(world: World) -> Communicator:
    return world.join("dp=*").on("dp")


def views(memory: np.ndarray) -> list[np.ndarray]:
    """Views of 24 elements of a cube of 6: a face, a block, steps, backwards, another order."""
    return [
        memory[:4, 2, :],
        memory[1:3, 1:4, 2:6],
        memory[::3, 2:6, ::2],
        memory[3::-1, 0, ::-1],
        memory[:4, 2, :].T,
        np.moveaxis(memory[1:3, 1:4, 2:6], 0, 2),
    ]


@pytest.mark.parametrize("started", [False, True])
def test_operations_when_arrays_are_views_are_those_of_copies(started: bool) -> None:
    size = 2

    def program(world: World) -> None:
        on = group_of(world)

        def call(name: str, *args: Any, **options: Any) -> Any:
            if started:
                return getattr(on, "start_" + name)(*args, **options).wait()
            return getattr(on, name)(*args, **options)

        for a, b in itertools.product(range(6), repeat=2):
            source = np.arange(216.0).reshape(6, 6, 6) + 1000 * on.rank
            target = np.full((6, 6, 6), -1.0)
            given, out = views(source)[a], views(target)[b]
            parts = [given.flatten() + 1000 * (rank - on.rank) for rank in range(size)]
            assert call("all_reduce", given, out) is out
            assert np.array_equal(out.flatten(), sum(parts))
            assert np.count_nonzero(target == -1) == 216 - 24
            assert np.array_equal(call("shift", given, out, 1).flatten(), parts[1 - on.rank])
            assert np.array_equal(call("all_gather", given, np.zeros(144)[::3]), np.concatenate(parts))
            call("all_gather", given)
            assert np.array_equal(given.flatten(), np.concatenate([parts[0][:12], parts[1][12:]]))
            given[...] = parts[on.rank].reshape(given.shape)
            call("broadcast", given, 1)
            assert np.array_equal(given.flatten(), parts[1])

    run(size, program)


def test_messages_when_arrays_are_views_arrive_in_order() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        peer = 1 - on.rank
        field = np.arange(36.0).reshape(6, 6) + 100 * on.rank
        before = field.copy()
        on.batch([(field[:, 1], peer, 0), (field[:, 4], peer, 1)], [(field[:, 5], peer, 0), (field[:, 0], peer, 1)])
        far = 100 * peer - 100 * on.rank
        assert np.array_equal(field[:, 5], before[:, 1] + far)
        assert np.array_equal(field[:, 0], before[:, 4] + far)
        assert np.array_equal(field[:, 1:5], before[:, 1:5])
        parts = np.zeros((3, 8), "i4")
        if on.rank == 0:
            on.send(np.arange(24, dtype="i4").reshape(8, 3).T, 1)
        else:
            on.recv(parts[:, ::-1], 0)
            assert np.array_equal(parts[:, ::-1].T, np.arange(24).reshape(8, 3))
        records = np.zeros(4, [("id", "i4"), ("weight", "f8")])
        records["weight"] = on.rank + 1
        on.all_reduce(records["weight"])
        assert records["weight"].tolist() == [3.0] * 4
        assert records["id"].tolist() == [0] * 4

    run(2, program)


def whole_of(me: Member, shape: tuple[int, ...], width: int, edge: str) -> np.ndarray:
    """The field of all ranks, with ghost cells around it."""
    sizes = [n * me.mesh.size_of(axis) for n, axis in zip(shape, "xyz", strict=False)]
    everything = np.arange(float(np.prod(sizes))).reshape(sizes)
    if edge == "wrap":
        return np.pad(everything, width, mode="wrap")
    return np.pad(everything, width, constant_values=-1.0)


@pytest.mark.parametrize("mesh", ["x=1 y=1", "x=2 y=1", "x=1 y=3", "x=2 y=2", "x=4 y=1"])
@pytest.mark.parametrize("edge", ["wrap", "open"])
@pytest.mark.parametrize("width", [1, 2])
def test_halo_when_corners_are_asked_is_the_padded_whole(mesh: str, edge: Any, width: int) -> None:
    def program(world: World) -> None:
        me = world.join(mesh)
        shape = (3, 4)
        whole = whole_of(me, shape, width, edge)
        first = [me.at(axis) * n for axis, n in zip("xy", shape, strict=True)]
        part = whole[tuple(slice(f, f + n + 2 * width) for f, n in zip(first, shape, strict=True))]
        inner = (slice(width, -width), slice(width, -width))
        for corners in (True, False):
            field = np.full(part.shape, -1.0)
            field[inner] = part[inner]
            wanted = part.copy()
            if not corners:
                for rows in (slice(width), slice(-width, None)):
                    for columns in (slice(width), slice(-width, None)):
                        wanted[rows, columns] = -1
            assert me.halo(field, ["x", "y"], width, edge, corners) is field
            assert np.array_equal(field, wanted)
        field = np.full(part.shape, -1.0, order="F")
        field[inner] = part[inner]
        assert me.start_halo(field, ["x", "y"], width, edge).wait() is field
        assert np.array_equal(field, wanted)

    run(int(np.prod([int(word[2:]) for word in mesh.split()])), program)


def test_neighbor_all_to_all_when_buffers_differ_gives_each_its_own() -> None:
    def program(world: World) -> None:
        me = world.join("x=2 y=2")
        lengths = [1, 2, 3, 4]
        ins = [np.full(n, 10.0 * me.rank + k) for k, n in enumerate(lengths)]
        for edge in ("wrap", "open"):
            outs = [np.full(lengths[k ^ 1], -1.0) for k in range(4)]
            assert me.neighbor_all_to_all(["x", "y"], ins, outs, edge) is outs
            for k, out in enumerate(outs):
                source = me.neighbor("xy"[k // 2], -1 if k % 2 == 0 else 1, edge)
                assert out.tolist() == [-1.0 if source is None else 10.0 * source + (k ^ 1)] * lengths[k ^ 1]
        pending = me.start_neighbor_all_to_all(["x"], ins[:2], [np.zeros(2), np.zeros(1)])
        assert [out.size for out in pending.wait()] == [2, 1]

    run(4, program)


def test_halo_when_it_cannot_be_exchanged_says_why() -> None:
    def program(world: World) -> None:
        me = world.join("x=*")
        field = np.zeros((5, 4))
        wrong: list[tuple[Callable[[], Any], str]] = [
            (lambda: me.halo(field, ["x"], 2), "dimension 0 of the field has 5 cells; it takes 6 or more"),
            (lambda: me.halo(field, ["x"], 0), "halo of width 0; ghost cells have one layer or more"),
            (lambda: me.halo(field, ["x", None, None]), "halo over 3 axes of a field of 2 dimensions"),
            (
                lambda: me.halo(field, ["x", "y"]),
                "has no axis, pick, separate communicator or set of local ranks named 'y'",
            ),
            (lambda: me.halo(b"abc", ["x"]), "the field of halo is read-only"),
            (lambda: me.neighbor_all_to_all(["x"], [field], [field]), "it takes two an axis, 2 in and 2 out"),
        ]
        for call, text in wrong:
            with pytest.raises(ValueError, match=text):
                call()
        with pytest.raises(TypeError, match="the axes are 'x', which is str; they must be a list of names"):
            me.halo(field, "x")
        me.halo(field, [None, "x"])

    run(2, program)
