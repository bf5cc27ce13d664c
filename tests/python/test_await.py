"""`await pending`: results, exceptions and cancellation arrive, and the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import rankmesh
from rankmesh import Communicator, run
from test_processes import needs_gloo, needs_mpi, together, under_mpirun
from with_numpy import needs_numpy, np


def on_ranks(size: int, program: Any, **options: Any) -> list[Any]:
    """Runs an async function of a communicator on each rank, in an event loop of its own."""
    return run(size, lambda world: asyncio.run(program(world.join("dp=*").on("dp"))), **options)


@needs_numpy
def test_an_operation_returns_what_it_wrote_while_other_tasks_run() -> None:
    ran = threading.Event()  # on rank 0, by another task than that which awaits

    async def program(dp: Communicator) -> tuple[list[float], bool]:
        array = np.full(3, dp.rank + 1.0)
        if dp.rank == 1:  # comes only then: an await that kept other tasks from running would never end
            assert await asyncio.to_thread(ran.wait, 20)
        pending = dp.start_all_reduce(array)

        async def other() -> None:
            for _ in range(20):
                assert dp.rank == 1 or not pending.done()
                await asyncio.sleep(0)
            if dp.rank == 0:
                ran.set()

        result, _ = await asyncio.gather(pending, other())
        return result.tolist(), result is array is pending.wait() is await pending

    assert on_ranks(2, program) == [([3.0, 3.0, 3.0], True)] * 2


@needs_numpy
def test_several_operations_of_one_communicator_are_awaited_at_once() -> None:
    async def program(dp: Communicator) -> list[float]:
        several = [dp.start_all_reduce(np.full(2, float(i))) for i in range(20)]
        return [each[0].item() for each in await asyncio.gather(*several)]

    assert on_ranks(3, program) == [[3.0 * i for i in range(20)]] * 3


@needs_numpy
@pytest.mark.parametrize("checked", [False, True])
def test_an_exception_arrives_at_the_await(checked: bool) -> None:
    async def differ(dp: Communicator) -> None:
        with pytest.raises(rankmesh.Disagreement):
            await dp.start_all_reduce(np.ones(1 + dp.rank))

    expired = threading.Event()

    async def run_often() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def late(dp: Communicator) -> None:
        if dp.rank == 0:
            other = asyncio.create_task(run_often())  # runs while the barrier is awaited, or not at all
            with pytest.raises(rankmesh.Timeout, match=r"the timeout of 300 ms expired on rank 0 in ") as error:
                await dp.within(0.3).start_barrier()
            assert other.done()
            expired.set()
            assert (error.value.arrived, error.value.missing) == ([0], [1])
        else:
            assert await asyncio.to_thread(expired.wait, 20)

    on_ranks(2, differ, checked=checked)
    on_ranks(2, late, checked=checked)


def test_a_peer_that_leaves_is_an_exception_at_the_await() -> None:
    async def program(dp: Communicator) -> None:
        if dp.rank == 1:
            raise ZeroDivisionError
        with pytest.raises(rankmesh.PeerLost):
            await dp.start_barrier()

    with pytest.raises(ZeroDivisionError):
        on_ranks(2, program, timeout=20)


@needs_numpy
def test_a_cancelled_await_leaves_the_operation_as_it_is() -> None:
    async def program(dp: Communicator) -> list[float]:
        array = np.full(2, dp.rank + 1.0)
        if dp.rank == 1:
            dp.recv_object(0)
            return (await dp.start_all_reduce(array)).tolist()
        pending = dp.start_all_reduce(array)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pending, 0.05)
        task = asyncio.ensure_future(pending)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not pending.done()
        dp.send_object(None, 1)
        return (await pending).tolist()

    assert on_ranks(2, program) == [[3.0, 3.0]] * 2


PROGRAM = """
    import asyncio
    async def main(dp):
        several = [dp.start_all_reduce(array("d", [i] * 2)) for i in range(5)]
        print([each[0] for each in await asyncio.gather(*several)], await dp.start_barrier())
        if world.engine == "gloo":
            try:
                await dp.within(0.3 if dp.rank == 0 else 30).start_recv(array("d", [1]), 1 - dp.rank)
            except (rankmesh.Timeout, rankmesh.PeerLost) as error:
                print(type(error).__name__, str(error).startswith("the timeout of 300 ms expired on rank 0 in recv"))
    with World.from_environment(timeout=30) as world:
        asyncio.run(main(world.join("dp=*").on("dp")))
"""


@needs_gloo
def test_processes_await_too(tmp_path: Any) -> None:
    results = together(PROGRAM, 2, tmp_path / "store")
    assert [status for status, _, _ in results] == [0, 0], results
    assert [out.splitlines()[0] for _, out, _ in results] == ["[0.0, 2.0, 4.0, 6.0, 8.0] None"] * 2
    assert results[0][1].splitlines()[1] == "Timeout True"


@needs_mpi
def test_a_thread_that_may_call_mpi_awaits() -> None:
    done = under_mpirun(PROGRAM, 2)
    assert done.returncode == 0, done.stderr
    # mpirun may print a part of one rank's line inside the other's.
    assert sorted(done.stdout) == sorted("[0.0, 2.0, 4.0, 6.0, 8.0] None\n" * 2), done.stdout
