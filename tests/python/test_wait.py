"""`wait_all`, `wait_any` and `sparse_all_to_all`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import rankmesh
from rankmesh import World, run, wait_all, wait_any

np = pytest.importorskip("numpy", reason="NumPy is not installed")


@pytest.mark.parametrize("checked", [False, True])
def test_wait_all_when_complete_returns_each_result(checked: bool) -> None:
    def program(world: World) -> list[float]:
        me = world.join("dp=2 tp=2")
        x, y = np.ones(2), np.full(2, 3.0)
        results = wait_all([me.on("dp").start_all_reduce(x), me.on("tp").start_all_reduce(y)])
        assert results[0] is x
        assert results[1] is y
        assert wait_all([]) == []
        return [x[0].item(), y[1].item()]

    assert run(4, program, checked=checked) == [[2.0, 6.0]] * 4


def test_wait_any_when_one_arrives_returns_its_index() -> None:
    def program(world: World) -> list[int]:
        on = world.join("dp=*").on("dp")
        if on.rank > 0:
            on.recv(np.empty(1, np.int32), 0)
            on.send(np.full(3, float(on.rank)), 0)
            return []
        arrays = [np.empty(3) for _ in range(1, on.size)]
        pendings = [on.start_recv(array, i + 1) for i, array in enumerate(arrays)]
        order = [3, 1, 2]
        found = []
        for rank in order:
            on.start_send(np.zeros(1, np.int32), rank).wait()
            index = wait_any(pendings)
            assert index is not None
            assert pendings[index].wait() is arrays[index]
            assert arrays[index].tolist() == [rank] * 3
            found.append(index + 1)
        assert wait_any(pendings) is None
        assert wait_any([]) is None
        return found

    assert run(4, program)[0] == [3, 1, 2]


def test_wait_any_when_a_timeout_expires_raises_it() -> None:
    expired = threading.Event()

    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        if on.rank == 0:
            soon = on.within(0.2)
            pendings = [soon.start_recv(np.empty(1), 1, 1), soon.start_recv(np.empty(1), 1, 2)]
            with pytest.raises(rankmesh.Timeout, match="the timeout of 200 ms expired on rank 0 in ") as error:
                wait_any(pendings)
            assert error.value.missing == [1]
            with pytest.raises(rankmesh.Timeout):
                wait_all(pendings)
            expired.set()
        else:
            assert expired.wait(20)

    run(2, program)


@pytest.mark.parametrize("wait", [wait_all, wait_any])
def test_wait_when_given_no_pendings_raises_type_error(wait: Any) -> None:
    for wrong in (None, 3):
        with pytest.raises(TypeError):
            wait(wrong)
    with pytest.raises(TypeError, match=r"pendings\[0\] is 3, which is int; it must be a Pending"):
        wait([3])


@pytest.mark.parametrize("checked", [False, True])
def test_sparse_when_nobody_knows_who_sends_delivers(checked: bool) -> None:
    def program(world: World) -> list[tuple[int, list[float]]]:
        on = world.join("dp=*").on("dp")
        upper = (on.rank + 1) % on.size
        arrived = on.sparse_all_to_all({upper: np.full(2, float(on.rank)), 0: np.arange(3.0)}, np.float64)
        assert on.sparse_all_to_all([(upper, np.zeros(0))], np.float64)[0][1].shape == (0,)
        assert on.sparse_all_to_all({}, np.int32) == []
        return [(source, data.tolist()) for source, data in arrived]

    all_ranks = run(3, program, checked=checked)
    assert all_ranks[1] == [(0, [0.0, 0.0])]
    assert all_ranks[0] == [(0, [0.0, 1.0, 2.0]), (1, [0.0, 1.0, 2.0]), (2, [0.0, 1.0, 2.0])]


def test_sparse_when_a_message_is_wrong_is_refused() -> None:
    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        with pytest.raises(ValueError, match="has f64 elements, and the dtype given is i32; all messages"):
            on.sparse_all_to_all({0: np.zeros(1)}, np.int32)
        with pytest.raises(ValueError, match=r"was given a message to group rank 2; the group has the ranks 0\.\.1"):
            on.sparse_all_to_all({2: np.zeros(1)}, np.float64)

    run(2, program)
