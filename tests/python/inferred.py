"""What type checkers infer of calls: mypy and pyright read this file, nobody runs it."""

from __future__ import annotations

import logging
from array import array

import numpy as np
from numpy.typing import NDArray
from rankmesh import Communicator, Member, Mesh, Pending, Report, World, check, run
from rankmesh._member_names import Size
from typing_extensions import assert_type

Floats = NDArray[np.float32]


def collectives(dp: Communicator, x: Floats, y: Floats, bytes: array[int]) -> None:
    """A call is of the type of the array that it writes."""
    assert_type(dp.all_reduce(x), Floats)
    assert_type(dp.all_reduce(x, y, "max"), Floats)
    assert_type(dp.all_reduce([x, y]), list[Floats])
    assert_type(dp.all_reduce(bytes, reduction="bit_or"), array[int])
    assert_type(dp.broadcast(x, root=1), Floats)
    assert_type(dp.reduce(x), Floats | None)
    assert_type(dp.all_gather(x, y), Floats)
    assert_type(dp.gather(x, y), Floats)
    assert_type(dp.gather(x, y if dp.rank == 0 else None), Floats | None)
    assert_type(dp.scatter(None, y), Floats)
    assert_type(dp.all_to_all_v(x, [1], y, [1]), Floats)
    assert_type(dp.gather_v(x, y, [1]), Floats)
    assert_type(dp.gather_v(x, None), None)
    assert_type(dp.scatter_v(None, None, y), Floats)
    assert_type(dp.recv(y, 0), Floats)
    assert_type(dp.recv_any(y), int)
    assert_type(dp.probe(), tuple[int, int])
    assert_type(dp.try_probe(1, tag=2), tuple[int, int] | None)
    assert_type(dp.send_recv(x, 1, y, 0), Floats)
    assert_type(dp.shift(x), Floats)
    assert_type(dp.all_gather_object("a"), list[str])
    dp.all_reduce(x, reduction="summ")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def exchanges(me: Member, field: Floats, sides: list[Floats]) -> None:
    """A field and buffers of neighbours keep their types."""
    assert_type(me.halo(field, ["x", None], width=2, edge="open", corners=True), Floats)
    assert_type(me.start_halo(field, ("x",)), Pending[Floats])
    assert_type(me.neighbor_all_to_all(["x"], sides, sides), list[Floats])
    assert_type(me.start_neighbor_all_to_all(["x"], sides, sides, "open").wait(), list[Floats])


async def pending(dp: Communicator, x: Floats) -> None:
    """What was started is of that type once it is waited for."""
    started = dp.start_all_reduce(x)
    assert_type(started, Pending[Floats])
    assert_type(started.wait(), Floats)
    assert_type(started.result(), Floats)
    assert_type(await started, Floats)
    with dp.start_scan(x) as scan:
        assert_type(scan, Pending[Floats])
    assert_type(await dp.start_recv_any(x), int)
    assert_type(await dp.start_barrier(), None)
    assert_type(await dp.start_send(x, 1), None)


def rank_of(world: World) -> int:
    """A program of one argument."""
    return world.rank


def scaled(world: World, factor: float, text: str) -> tuple[float, str]:
    """A program of several."""
    return world.rank * factor, text


def runs() -> None:
    """`run` gives a list of what the program returns."""
    assert_type(run(4, rank_of), list[int])
    assert_type(run(4, rank_of, log=logging.getLogger("rankmesh")), list[int])
    sizes: list[int] = run(4, lambda world: world.size)
    assert_type(run(4, scaled, args=(2.0, "a")), list[tuple[float, str]])
    assert len(sizes) == 4
    run(4, scaled, args=("a", 2.0))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def others(world: World) -> None:
    """Calls that are not generic."""
    assert_type(check(Mesh("dp=2")), Report)
    member = world.join({"dp": "*", "tp": 2})
    assert_type(member.size, Size)
    assert_type(member.size("dp"), int)
