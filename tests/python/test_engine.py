"""Worlds, members and collectives on arrays: threads are the ranks here, processes in test_processes.py."""

from __future__ import annotations

import array
import ctypes
import datetime
import itertools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import rankmesh
from rankmesh import Axes, Communicator, Declaration, Mesh, Pick, World, run
from with_numpy import needs_numpy, np

REDUCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda parts: parts.sum(axis=0),
    "prod": lambda parts: parts.prod(axis=0),
    "min": lambda parts: parts.min(axis=0),
    "max": lambda parts: parts.max(axis=0),
    "mean": lambda parts: parts.mean(axis=0),
}
DTYPES = ["int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"]


def given(dtype: Any, ranks: int, length: int) -> np.ndarray:
    """What each rank gives: small numbers, so that every type holds the results exactly."""
    parts = np.arange(ranks * length).reshape(ranks, length) % 3 + 1
    return (parts * (1 + 1j) if np.issubdtype(dtype, np.complexfloating) else parts).astype(dtype)


def group_of(world: World) -> Communicator:
    return world.join("dp=*").on("dp")


@needs_numpy
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_are_those_of_numpy(dtype: Any, size: int) -> None:
    parts = given(dtype, size, 5)

    def program(world: World) -> None:
        on = group_of(world)
        mine = parts[on.rank]
        for name, expected in REDUCTIONS.items():
            if name == "mean" and not np.issubdtype(dtype, np.inexact):
                continue
            if np.issubdtype(dtype, np.complexfloating) and name not in ("sum", "mean"):
                continue
            want = expected(parts).astype(dtype)
            out = np.zeros(5, dtype)
            assert on.all_reduce(mine, out, name) is out
            assert np.allclose(out, want)
            buffer = mine.copy()
            assert on.start_all_reduce(buffer, reduction=name).wait() is buffer
            assert np.allclose(buffer, want)
            rooted = np.zeros(5, dtype) if on.rank == size - 1 else None
            on.reduce(mine, np.zeros(5, dtype) if rooted is None else rooted, name, size - 1)
            if rooted is not None:
                assert np.allclose(rooted, want)
            if name != "mean":
                scanned = on.scan(mine, np.zeros(5, dtype), name)
                assert np.allclose(scanned, expected(parts[: on.rank + 1]).astype(dtype))

    run(size, program)


@needs_numpy
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("started", [False, True])
def test_moving_operations_are_those_of_numpy(size: int, started: bool) -> None:
    parts = given(np.float64, size, 2 * size)

    def program(world: World) -> None:
        on = group_of(world)
        rank = on.rank
        mine = parts[rank]

        def call(name: str, *args: Any, **options: Any) -> Any:
            if started:
                return getattr(on, "start_" + name)(*args, **options).result()
            return getattr(on, name)(*args, **options)

        everything = parts.reshape(-1)
        assert np.array_equal(call("all_gather", mine, np.zeros(everything.size)), everything)
        own = np.zeros((size, 2 * size))
        own[rank] = mine
        assert np.array_equal(call("all_gather", own), parts)
        summed = parts.sum(axis=0).reshape(size, 2)
        assert np.array_equal(call("reduce_scatter", mine, np.zeros(2)), summed[rank])
        assert np.array_equal(call("broadcast", mine.copy(), 0), parts[0])
        gathered = call("gather", mine, np.zeros(everything.size) if rank == 0 else None, 0)
        assert rank != 0 or np.array_equal(gathered, everything)
        assert np.array_equal(call("scatter", everything if rank == 0 else None, np.zeros(2 * size), 0), mine)
        swapped = parts.reshape(size, size, 2)[:, rank].reshape(-1)
        assert np.array_equal(call("all_to_all", mine, np.zeros(2 * size)), swapped)
        assert np.array_equal(call("all_to_all", mine.copy()), swapped)
        assert np.array_equal(call("shift", mine, np.zeros(2 * size), 1), parts[(rank - 1) % size])
        edge = call("shift", mine, np.full(2 * size, -1.0), 1, "open")
        assert np.array_equal(edge, parts[rank - 1] if rank > 0 else np.full(2 * size, -1.0))
        counts = [i + 1 for i in range(size)]
        ragged = [np.full(n, float(i)) for i, n in enumerate(counts)]
        assert np.array_equal(call("all_gather_v", ragged[rank], np.zeros(sum(counts)), counts), np.concatenate(ragged))
        turned = [part * 1j for part in ragged]
        gathered = call("all_gather_v", turned[rank], np.zeros(sum(counts), complex), counts)
        assert np.array_equal(gathered, np.concatenate(turned))
        sent = np.arange(float(size * (rank + 1)))
        out = call("all_to_all_v", sent, [rank + 1] * size, np.zeros(sum(counts)), counts)
        expected = [np.arange(float(size * (i + 1)))[rank * (i + 1) : (rank + 1) * (i + 1)] for i in range(size)]
        assert np.array_equal(out, np.concatenate(expected))
        last = size - 1
        pieces = np.concatenate(ragged)
        whole = call("gather_v", ragged[rank], np.zeros(sum(counts)) if rank == last else None, counts, last)
        assert rank != last or np.array_equal(whole, pieces)
        mine_only = counts if rank == 0 else None
        piece = call("scatter_v", pieces if rank == 0 else None, mine_only, np.zeros(counts[rank]))
        assert np.array_equal(piece, ragged[rank])
        if size > 1:
            right, left = (rank + 1) % size, (rank - 1) % size
            assert np.array_equal(call("send_recv", mine, right, np.zeros(2 * size), left), parts[left])
            a, b = np.zeros(2 * size), np.zeros(2 * size)
            down, up = 0, 1
            on.batch(sends=[(mine, left, down), (-mine, right, up)], recvs=[(a, left, up), (b, right, down)])
            assert np.array_equal(a, -parts[left])
            assert np.array_equal(b, parts[right])
            assert np.array_equal(call("send_recv", mine, right, np.zeros(2 * size), left, 16383), parts[left])
        on.barrier()
        on.start_barrier().wait()
        on.monitored_barrier()

    run(size, program)


@needs_numpy
def test_any_rank_when_workers_ask_serves_each() -> None:
    tasks = 12

    def program(world: World) -> int:
        on = group_of(world)
        result = np.zeros((2, 3))[:, 1]  # not contiguous
        task = np.zeros(1, np.int64)
        if on.rank > 0:
            while True:
                on.send(result, 0, tag=3)
                on.recv(task, 0)
                if task[0] < 0:
                    return 0
                result[:] = task[0], on.rank
        total, left = 0, list(range(tasks))
        for turn in range(tasks + on.size - 1):
            if turn % 3 == 0:
                source, length = on.probe(tag=3)
                assert length == result.nbytes
                on.recv(result, source, tag=3)
            elif turn % 3 == 1:
                source = on.start_recv_any(result, 3).wait()
            else:
                source = on.recv_any(result, tag=3)
            assert result[1] in (0, source)
            total += int(result[0])
            task[0] = left.pop() if left else -1
            on.send(task, source)
        assert on.try_probe() is None
        return total

    assert run(4, program)[0] == tasks * (tasks - 1) // 2


@needs_numpy
def test_messages_and_objects() -> None:
    def program(world: World) -> Any:
        on = group_of(world)
        if on.rank == 0:
            on.send(np.arange(3), 1)
            on.send_object({"step": 7, "name": "größe"}, 1)
            received = None
        else:
            numbers = on.recv(np.zeros(3, np.int64), 0)
            received = (numbers.tolist(), on.recv_object(0))
        return received, on.broadcast_object(("root", on.rank), 1), on.all_gather_object([on.rank] * on.rank)

    (_, root, everything), (received, _, _) = run(2, program)
    assert received == ([0, 1, 2], {"step": 7, "name": "größe"})
    assert root == ("root", 1)
    assert everything == [[], [1]]


@needs_numpy
def test_lists_of_arrays_go_as_one() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        arrays = [np.full(n, on.rank + 1, t) for n, t in itertools.product((1, 100), (np.float32, np.int64))]
        assert on.all_reduce(arrays, reduction="max") is arrays
        assert all((a == 3).all() for a in arrays)
        on.broadcast([np.zeros(2)], 1)

    run(3, program)


@needs_numpy
def test_what_has_the_buffer_protocol_or_dlpack_is_an_array() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        packed = array.array("d", [1.0, 2.0])
        assert on.all_reduce(packed).tolist() == [2.0, 4.0]
        raw = bytearray(b"ab" if on.rank == 0 else b"xy")
        assert on.broadcast(raw) == b"ab"
        assert on.broadcast(memoryview(bytearray(4))).nbytes == 4
        out = np.zeros(4, np.uint8)
        on.all_gather(b"hi", out)  # what is only read may be read-only
        assert out.tobytes() == b"hihi"
        scalar = np.array(2.5)
        assert on.all_reduce(scalar) == 5.0
        assert on.all_reduce(np.zeros((0, 3))).shape == (0, 3)
        table = np.asfortranarray(np.ones((3, 1)))
        assert on.all_reduce(table).sum() == 6.0

    run(2, program)


def test_cpu_tensors_are_arrays() -> None:
    torch = pytest.importorskip("torch")

    def program(world: World) -> None:
        on = group_of(world)
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.complex64):
            tensor = torch.full((2, 3), on.rank + 1).to(dtype)
            assert on.all_reduce(tensor) is tensor
            assert (tensor == torch.tensor(3).to(dtype)).all()
        out = torch.zeros(4)
        on.all_gather(torch.tensor([1.0, 2.0]), out)
        assert out.tolist() == [1.0, 2.0, 1.0, 2.0]
        parameter = torch.nn.Parameter(torch.full((3,), float(on.rank)))
        with torch.no_grad():
            on.broadcast(parameter, 1)
        assert parameter.tolist() == [1.0, 1.0, 1.0]
        turned = torch.arange(6.0).reshape(2, 3).t()
        assert on.all_reduce(turned) is turned
        assert turned.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]

    run(2, program)


@needs_numpy
def test_plans_of_several_meshes() -> None:
    def program(world: World) -> Any:
        me = world.join(
            Declaration(
                "pp=2 dp=*",
                name="dense",
                over=[Axes("pp", "dp", separate="all", timeout=5)],
                picks=[Pick("pp", [0, -1], "embedding")],
                local="node",
            ),
            Declaration(Mesh(edp=2, ep=2), name="expert", lazy=True),
        )
        me["expert"].prepare("ep")
        on = me["dense"].on("all")
        x = on.all_reduce(np.ones(1))
        with pytest.raises(ValueError, match="mesh 'expert' has it"):
            me["dense"].on("ep")
        assert me["expert"].find("ep", "edp") is None
        assert me["dense"].on("embedding").size == 2
        assert me["dense"].at("node") == world.local_rank
        return x[0], me.meshes, dict(me["expert"].coord), me["dense"].neighbor("dp", 1), me.communicator_count

    results = run(4, program)
    assert [r[0] for r in results] == [4.0] * 4
    assert results[1][1:4] == (["dense", "expert"], {"edp": 0, "ep": 1}, None)


@needs_numpy
def test_groups_of_listed_ranks_and_of_colors_hold_those_ranks_in_that_order() -> None:
    def program(world: World) -> tuple[Any, ...]:
        me = world.join("dp=4 tp=2")
        listed = me.group([6, 1, 3], name="odd", timeout=60) if me.rank in (1, 3, 6) else None
        x = np.array([me.rank])
        if listed:
            listed.all_reduce(x)
        over = me.split(None if me.at("dp") == 0 else me.at("dp") % 2, -me.rank, over=me.on("dp"))
        everyone = me.split(me.rank % 3)
        assert everyone
        return (
            listed and (tuple(listed.world_ranks), listed.label),
            x[0],
            over and tuple(over.world_ranks),
            tuple(everyone.world_ranks),
        )

    got = run(8, program)
    label = "'odd' of mesh dp=4 tp=2"
    assert [each[0] for each in got] == [((6, 1, 3), label) if rank in (1, 3, 6) else None for rank in range(8)]
    assert [each[1] for each in got] == [10 if rank in (1, 3, 6) else rank for rank in range(8)]
    assert [each[2] for each in got] == [None, None, (6, 2), (7, 3), (4,), (5,), (6, 2), (7, 3)]
    assert [each[3] for each in got] == [tuple(range(rank % 3, 8, 3)) for rank in range(8)]

    def differ(world: World) -> None:
        world.join("dp=2").group([0, 1] if world.rank == 0 else [1, 0])

    with pytest.raises(rankmesh.Disagreement, match="the ranks ask for different groups"):
        run(2, differ)
    with pytest.raises(rankmesh.UsageError, match="a group of no ranks was asked for"):
        run(1, lambda world: world.join("dp=1").group([]))


@needs_numpy
def test_what_is_suspended_says_so_until_it_is_resumed() -> None:
    def program(world: World) -> None:
        me = world.join("dp=2 tp=2", over=[("dp", "tp")])
        x = np.ones(1)

        def suspended() -> list[str]:
            return [each.axes for each in me.usage().communicators if each.suspended]

        assert [(each.axes, each.size) for each in me.usage().communicators] == [("dp", 2), ("tp", 2), ("dp,tp", 4)]
        assert suspended() == []
        me.suspend("tp", "dp")
        assert suspended() == ["dp,tp"]
        with pytest.raises(rankmesh.UsageError, match="is suspended; its ranks call resume first"):
            me.on("dp", "tp").all_reduce(x)
        assert me.on("dp").all_reduce(x)[0] == 2
        me.resume("dp", "tp")
        assert me.on("dp", "tp").all_reduce(x)[0] == 8
        me.suspend(on=me.on("tp"))
        assert suspended() == ["tp"]
        me.suspend()
        assert suspended() == ["dp", "tp", "dp,tp"]
        me.resume()
        assert suspended() == []
        assert repr(me.usage()) == "<Usage: 3 communicators, 0 connections, 0 descriptors>"
        assert repr(me.usage().communicators[0]) == "<'dp' of mesh dp=2 tp=2: 0 connections, 0 descriptors>"
        with pytest.raises(rankmesh.UsageError, match="axes and a communicator were given"):
            me.suspend("dp", on=me.on("tp"))
        with pytest.raises(rankmesh.UnknownName):
            me.resume("pp")

    run(4, program)


def test_each_rank_says_where_it_is() -> None:
    def program(world: World) -> None:
        me = world.join("pp=2 tp=2", over=["pp", ("tp", "pp")])
        mesh = me.mesh
        assert mesh == Mesh(pp=2, tp=2)
        assert me.coord == mesh.coord(world.rank)
        assert me.rank == world.rank == me.rank_at(me.coord)
        assert me.size == world.size == 4
        assert me.ranks("pp") == mesh.group(world.rank, "pp") == me.on("pp").world_ranks
        assert me.ranks("tp", "pp") == mesh.ranks
        assert me.inside
        assert me.prefix == f"[{me.coord}]"
        assert (me.is_first("pp"), me.is_last("tp")) == (me.at("pp") == 0, me.at("tp") == 1)
        on = me.on("pp")
        assert list(on.world_ranks) == list(mesh.group(world.rank, "pp"))
        assert on.world_rank(on.rank) == world.rank
        assert on.group_rank_of(99) is None
        assert "'pp' of mesh" in on.label
        assert me.local_size == world.local_size == 4
        assert me.host == world.host
        assert world.engine == "threads"

    run(4, program)


def test_results_and_arguments_of_a_run() -> None:
    assert run(3, lambda world, factor: world.rank * factor, args=(10,)) == [0, 10, 20]
    lines: list[str] = []
    run(2, lambda world: world.join("dp=2") and None, log=lines.append)
    assert any("joined dp=2" in line for line in lines)


def test_lines_of_the_log_go_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("rankmesh.test")
    with caplog.at_level(logging.INFO):
        run(2, lambda world: world.join("dp=2") and None, log=logger)
    record = next(record for record in caplog.records if "joined dp=2" in record.message)
    assert (record.name, record.levelname) == ("rankmesh.test", "INFO")
    with pytest.raises(TypeError, match=r"the log is 3, which is int; it must be a logging.Logger, or a"):
        run(2, print, log=3)  # type: ignore[arg-type]


def test_ranks_of_a_placed_mesh_are_those_of_the_world() -> None:
    placed = (3, 1, 2, 0)

    def program(world: World) -> None:
        me = world.join("a=2 b=2", placed=placed, axes=[], picks=[Pick("a", [0], "first")])
        here = placed.index(world.rank)
        assert list(me.ranks("b")) == [placed[here // 2 * 2], placed[here // 2 * 2 + 1]]
        assert list(me.ranks("a")) == [placed[here % 2], placed[here % 2 + 2]]
        assert list(me.ranks("a", "b")) == list(placed)
        if here < 2:
            assert list(me.ranks("first")) == [world.rank]
        with pytest.raises(rankmesh.UnknownName, match="has no axis 'c'"):
            me.ranks("a", "c")

    run(4, program)


def test_a_mesh_is_joined_as_a_mapping_too() -> None:
    def program(world: World) -> None:
        sizes = {"dp": "*", "tp": 2}
        assert world.join(sizes).mesh == Mesh(dp=2, tp=2)
        assert world.join(Declaration(sizes, name="train"))["train"].mesh == Mesh(dp=2, tp=2)

    run(4, program)


def test_the_first_exception_of_a_rank_is_raised() -> None:
    class Mine(Exception):
        pass

    def program(world: World) -> None:
        on = group_of(world)
        if world.rank == 1:
            raise Mine("of rank 1")
        with pytest.raises(rankmesh.PeerLost) as lost:
            on.barrier()
        assert lost.value.ranks == [1]
        assert isinstance(lost.value, ConnectionError)

    with pytest.raises(Mine, match="of rank 1"):
        run(3, program)


def test_a_rank_that_does_not_come_is_a_timeout_with_its_rank() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        if world.rank == 0:
            with pytest.raises(rankmesh.Timeout) as late:
                on.within(datetime.timedelta(milliseconds=200)).barrier()
            assert isinstance(late.value, TimeoutError)
            assert (late.value.arrived, late.value.missing) == ([0], [1])
        else:
            time.sleep(0.5)

    run(2, program)


def test_plans_that_differ_are_a_disagreement_on_every_rank() -> None:
    def program(world: World) -> str:
        with pytest.raises(rankmesh.Disagreement) as caught:
            world.join("dp=2" if world.rank == 0 else "tp=2")
        return str(caught.value)

    texts = run(2, program, timeout=5)
    assert all("dp=2" in text and "tp=2" in text for text in texts)


@needs_numpy
def test_checked_mode_names_who_calls_what() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        array = np.ones(2 + world.rank)
        with pytest.raises(rankmesh.Disagreement, match="all_reduce"):
            on.all_reduce(array)

    run(2, program, checked=True)


def released() -> memoryview:
    view = memoryview(bytearray(4))
    view.release()
    return view


WRONG: list[tuple[Callable[[Communicator], Any], type[Exception], str]] = [
    (lambda on: on.all_reduce(3), TypeError, "the buffer of all_reduce is 3, which is int; it must be a NumPy array"),
    (
        lambda on: on.all_reduce([np.ones((4, 4))[:, ::2]]),
        ValueError,
        "buffer 0 of a list has strides of (4, 2) elements; its elements must lie one after the other",
    ),
    (lambda on: on.all_reduce(np.broadcast_to(1.0, 3)), ValueError, "read-only; pass an array that can be written"),
    (
        lambda on: on.all_reduce(np.lib.stride_tricks.as_strided(np.ones(4), (3, 2), (8, 8))),
        ValueError,
        "was given a strided output in which elements overlap; give each element an address of its own",
    ),
    (
        lambda on: on.all_reduce(b"abc"),
        ValueError,
        "the buffer of all_reduce is read-only; pass an array that can be written",
    ),
    (lambda on: on.all_reduce(np.array(["a"])), ValueError, "has elements of <U1; engines move bool, integers"),
    (lambda on: on.all_reduce(np.ones(2, ">f8")), ValueError, "has elements of >f8; engines move bool, integers"),
    (lambda on: on.all_reduce(np.array([object()])), ValueError, "has elements of object"),
    (lambda on: on.all_reduce(np.ones(2), reduction="summ"), ValueError, "a reduction is 'summ'; there are sum, prod"),
    (
        lambda on: on.all_reduce(np.ones(2), np.ones(3)),
        ValueError,
        "was given 2 elements in and 3 out; both must be equal",
    ),
    (
        lambda on: on.all_reduce(np.ones(2), np.ones(2, "f4")),
        ValueError,
        "f64 elements in and f32 out; both must be of one type",
    ),
    (
        lambda on: on.all_reduce(np.ones(2) * 1j, reduction="prod"),
        ValueError,
        "a prod of complex numbers; they have sum, mean and reproducible_sum",
    ),
    (lambda on: on.all_reduce(np.ones(2, "i4"), reduction="mean"), ValueError, "mean"),
    (
        lambda on: on.reduce(np.ones(1, complex), None if on.rank else np.ones(1, complex), "prod"),
        ValueError,
        "a prod of complex numbers",
    ),
    (
        lambda on: on.all_reduce(np.ones(2, "c8"), np.ones(2, "f4")),
        ValueError,
        "complex f32 elements in and f32 out; both must be of one type",
    ),
    (
        lambda on: on.all_reduce(np.array(["2026-01-01"], "M8[D]")),
        ValueError,
        "has elements of datetime64[D]; engines move",
    ),
    (
        lambda on: on.all_reduce(released()),
        ValueError,
        "the buffer of all_reduce lends no memory: operation forbidden on released",
    ),
    (
        lambda on: on.all_reduce(None),
        TypeError,
        "the buffer of all_reduce is None, which is NoneType; it must be a NumPy array",
    ),
    (
        lambda on: on.all_reduce(np.ones(2), "max"),
        TypeError,
        "the output of all_reduce is 'max', which is str; a reduction is passed by its name: reduction='max'",
    ),
    (
        lambda on: on.all_reduce(np.ones(2), reduction=None),
        TypeError,
        "a reduction is None, which is NoneType; it must be a str",
    ),
    (
        lambda on: on.all_gather_v(np.ones(1), np.ones(2), 5),
        TypeError,
        "the counts must be a sequence of ints, not 5, which is int",
    ),
    (lambda on: on.shift(np.ones(2), edge=3), TypeError, "edge is 3, which is int; it must be a str"),
    (lambda on: on.within(None), TypeError, "the timeout is None, which is NoneType"),
    (lambda on: on.scan(np.ones(2), reduction="mean"), ValueError, "a scan by mean"),
    (lambda on: on.all_gather(np.ones(3)), ValueError, "in place was given 3 elements; it takes a multiple of 2"),
    (
        lambda on: on.all_gather_v(np.ones(1), np.ones(2), [1]),
        ValueError,
        "the counts are 1; 'dp' of mesh dp=2 has 2 ranks, which need one each",
    ),
    (
        lambda on: on.all_gather_v(np.ones(1), np.ones(2), [1, -1]),
        ValueError,
        "the counts hold -1; counts are 0 or more",
    ),
    (lambda on: on.broadcast(np.ones(1), 5), ValueError, "from group rank 5; group ranks are 0..1"),
    (lambda on: on.broadcast(np.ones(1), 2**40), ValueError, "the root is 1099511627776"),
    (lambda on: on.gather(np.ones(2), None, on.rank), ValueError, "gives None as the output of gather"),
    (lambda on: on.send(np.ones(1), on.rank), ValueError, "send"),
    (lambda on: on.send(np.ones(1), 0, 16384), ValueError, "a message was given tag 16384; tags are 0..16383"),
    (lambda on: on.recv(np.ones(1), 0, tag=2**40), ValueError, "the tag is 1099511627776"),
    (
        lambda on: on.batch(sends=[3]),
        TypeError,
        "a message of a batch is 3, which is int; it must be (array, peer) or (array, peer, tag)",
    ),
    (lambda on: on.within(-1), ValueError, "the timeout is -1 s; it must be positive"),
    (
        lambda on: on.within("long"),
        TypeError,
        "the timeout is 'long', which is str; it must be a number of seconds, or a timedelta",
    ),
]


@needs_numpy
def test_memory_of_ctypes_is_an_array_where_its_type_is_known() -> None:
    class Packed(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))

    def program(world: World) -> None:
        on = group_of(world)
        assert list(on.all_reduce((ctypes.c_int * 3)(1, 2, 3))) == [2, 4, 6]
        assert on.all_reduce(ctypes.c_double(1.5)).value == 3.0
        with pytest.raises(ValueError, match="has elements of Packed"):
            on.all_reduce(Packed(1.5, 0))
        numbers = [np.array([1 + 2j, 2 - 1j]), np.ones(1, np.complex64)]
        on.all_reduce(numbers)
        assert numbers[0].tolist() == [2 + 4j, 4 - 2j]
        with pytest.raises(ValueError, match="complex"):
            on.all_reduce(numbers, reduction="prod")

    run(2, program)


def test_none_is_an_object_like_others() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        assert on.broadcast_object("x" if on.rank == 0 else None) == "x"
        assert on.all_gather_object(None) == [None, None]

    run(2, program)


@needs_numpy
def test_plans_that_make_no_sense_are_refused_in_words() -> None:
    def program(world: World) -> None:
        for call, text in (
            (lambda: world.join(), "join names no mesh; give one, as in join('dp=2 tp=2')"),
            (lambda: world.join(dp=2), "join has no option 'dp'; a mesh is its first argument"),
            (
                lambda: world.join("dp=2", over="dp"),
                "over must be a sequence of sets of axes, such as [('dp', 'cp')], not",
            ),
            (
                lambda: world.join("dp=2", over=5),
                "over must be a sequence of sets of axes, such as [('dp', 'cp')], not 5",
            ),
            (lambda: world.join("dp=2", picks=[3]), "a pick is 3, which is int; it must be a rankmesh.Pick"),
            (lambda: world.join(3), "a mesh is 3, which is int"),
        ):
            with pytest.raises(TypeError) as caught:
                call()
            assert isinstance(caught.value, rankmesh.Error)
            assert text in str(caught.value)
        me = world.join("dp=2 tp=1", over=["dp,tp"], lazy=np.False_)
        assert me.on("tp", "dp").size == 2

    run(2, program)


def test_names_that_nothing_has_are_key_errors() -> None:
    def program(world: World) -> None:
        me = world.join("dp=2")
        for call in (lambda: me.at("tp"), lambda: me.on("zz"), lambda: me["x"]):
            with pytest.raises(KeyError) as caught:
                call()
            assert isinstance(caught.value, rankmesh.UnknownName)

    run(2, program)


@needs_numpy
def test_wrong_arguments_are_refused_in_words_and_the_group_goes_on() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        for call, kind, text in WRONG:
            with pytest.raises(kind) as caught:
                call(on)
            assert isinstance(caught.value, rankmesh.Error), caught.value
            assert text in str(caught.value)
        assert on.all_reduce(np.ones(1))[0] == 2.0

    run(2, program)


def test_a_world_that_has_ended_says_so() -> None:
    kept: list[Any] = []

    def program(world: World) -> None:
        kept.append(world)

    run(1, program)
    with pytest.raises(ValueError, match="this world was closed, or its run has returned"):
        _ = kept[0].rank
    with World.from_environment(engine="threads") as world:
        assert world.size == 1
    with pytest.raises(ValueError, match="was closed"):
        world.join("dp=1")


@needs_numpy
def test_a_pending_that_is_dropped_is_waited_for() -> None:
    def program(world: World) -> float:
        on = group_of(world)
        buffer = np.ones(3)
        pending = on.start_all_reduce(buffer)
        del pending
        return float(buffer[0])

    assert run(2, program) == [2.0, 2.0]


@needs_numpy
def test_every_wait_of_a_failed_operation_raises() -> None:
    def program(world: World) -> list[str]:
        dp = world.join("dp=2").on("dp")
        if world.rank == 1:
            return []
        pending = dp.start_recv(np.zeros(3), 1)  # which nobody sends
        texts = []
        for _ in range(2):
            with pytest.raises((rankmesh.Timeout, rankmesh.PeerLost)) as error:
                pending.wait(timeout=0.2)
            texts.append(str(error.value))
        return texts

    first, second = run(2, program)[0]
    assert first == second


@needs_numpy
def test_the_array_of_a_pending_lives_as_long_as_it() -> None:
    def program(world: World) -> float:
        on = group_of(world)
        pending = on.start_all_reduce(np.full(1000, world.rank + 1.0))
        return float(pending.wait()[0])

    assert run(2, program) == [3.0, 3.0]


def interrupted_after(delay: float, call: Callable[[], Any]) -> float:
    """How long a call goes on after Ctrl-C, which ends it with KeyboardInterrupt."""
    begin = time.monotonic()
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    timer.join()
    return time.monotonic() - begin - delay


def test_ctrl_c_ends_ranks_that_wait_and_ranks_that_compute() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        if world.rank == 0:
            while True:
                pass
        on.barrier()

    assert interrupted_after(0.3, lambda: run(3, program)) < 1.0


def test_ctrl_c_ends_ranks_that_begin_after_it() -> None:
    def program(world: World) -> None:
        while True:
            pass

    assert interrupted_after(0.3, lambda: run(200, program)) < 20.0


def test_ctrl_c_ends_a_run_inside_a_rank() -> None:
    def inner(world: World) -> None:
        while world.rank == 0:
            pass
        group_of(world).barrier()

    seen: list[type[BaseException]] = []

    def outer(world: World) -> None:
        try:
            run(2, inner)
        except BaseException as error:
            seen.append(type(error))
            raise

    assert interrupted_after(0.3, lambda: run(1, outer)) < 2.0
    assert seen == [KeyboardInterrupt]


def test_ctrl_c_is_a_keyboard_interrupt_on_every_rank() -> None:
    seen: list[type[BaseException]] = []

    def program(world: World) -> None:
        on = group_of(world)
        try:
            if world.rank == 0:
                time.sleep(0.4)
            on.barrier()
        except BaseException as error:
            seen.append(type(error))
            raise

    for _ in range(5):
        interrupted_after(0.2, lambda: run(4, program))
    assert seen == [KeyboardInterrupt] * 20


def test_what_a_handler_raises_ends_a_run() -> None:
    def handler(number: int, frame: object) -> None:
        raise LookupError("by a handler")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begin = time.monotonic()
        with pytest.raises(LookupError, match="by a handler"):
            run(2, lambda world: group_of(world) if world.rank else time.sleep(1))
        assert time.monotonic() - begin < 2.0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_world_left_by_an_exception_tells_its_peers() -> None:
    left = threading.Event()

    def program(world: World) -> None:
        on = group_of(world)
        if world.rank == 0:
            with pytest.raises(KeyError), world:
                raise KeyError
            assert left.wait(20)
        else:
            with pytest.raises(rankmesh.PeerLost, match="rank 0 of 2 left its world by an exception"):
                on.barrier()
            left.set()

    run(2, program, timeout=20)


@needs_numpy
def test_a_pending_is_a_context_manager() -> None:
    left = threading.Event()

    def program(world: World) -> None:
        on = group_of(world).within(20)
        array = np.ones(3)
        with on.start_all_reduce(array) as pending:
            pass
        assert list(array) == [2.0] * 3
        assert list(pending.wait()) == [2.0] * 3
        if world.rank == 0:
            with pytest.raises(KeyError), on.start_all_reduce(array):
                raise KeyError
            left.set()
        else:
            assert left.wait(20)
            with pytest.raises(rankmesh.PeerLost, match="left by an exception with a pending all_reduce"):
                on.barrier()

    run(2, program)


def test_a_handler_of_ones_own_runs_and_the_call_goes_on() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

        def program(world: World) -> bool:
            on = group_of(world)
            if world.rank == 0:
                time.sleep(0.5)
            on.barrier()
            return True

        assert run(2, program) == [True, True]
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_engines_are_named() -> None:
    assert "threads" in rankmesh.engines()
