"""Works, threads, timeouts and ends of process groups of the backend rankmesh."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402
from rankmesh.torch.backend import _watched  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

SECOND = datetime.timedelta(seconds=1)


def both() -> tuple[Any, Any]:
    return dist.group.WORLD, dist.new_group(backend="rankmesh")


# --- Work


def check_work(rank: int, size: int) -> None:
    ours = both()[1]
    x = torch.ones(3)
    work = dist.all_reduce(x, group=ours, async_op=True)
    assert work.wait()
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert work.result()[0] is x
    assert x.tolist() == [size] * 3
    seen = []
    future = dist.all_reduce(x, group=ours, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: (seen.append(1), done.value())[1])
    assert doubled.wait().tolist() == [2 * size * size] * 3
    assert seen == [1]
    assert future.done()
    if rank == 0:
        work = ours.recv([x], 1, 5)
        work.wait()
        assert work.source_rank() == 1
        assert x.tolist() == [1.0] * 3
    elif rank == 1:
        ours.send([torch.ones(3)], 0, 5).wait()
    dist.barrier(group=ours)
    works = []  # many at once, waited for from the last to the first
    tensors = [torch.full((5,), float(number)) for number in range(100)]
    for each in tensors:
        works.append(dist.all_reduce(each, group=ours, async_op=True))
    for work in reversed(works):
        work.wait()
    assert all(each.tolist() == [size * number] * 5 for number, each in enumerate(tensors))


def check_dropped(rank: int, size: int) -> float:
    gloo, ours = both()
    x, y = torch.ones(4), torch.ones(4, 4)
    begun = time.monotonic()
    if rank == 0:
        dist.all_reduce(x, group=ours, async_op=True)
        dist.all_reduce(y.t()[1:], group=ours, async_op=True)
        took = time.monotonic() - begun
        dist.barrier(group=gloo)
    else:
        took = 0.0
        dist.barrier(group=gloo)  # so that rank 0 has dropped both
        dist.all_reduce(x, group=ours)
        dist.all_reduce(y.t()[1:], group=ours)
    written = torch.zeros(1)
    while not written.item():  # each call of the group finishes dropped works that have ended
        written[0] = x.tolist() == [size] * 4 and y.tolist() == [[1.0, *[float(size)] * 3]] * 4
        dist.all_reduce(written, dist.ReduceOp.MIN, group=ours)
    if rank == 0:  # as the last call of the group
        dist.isend(x, 1, group=ours)
    elif rank == 1:
        dist.recv(x, 0, group=ours)
    return took


def check_polled(rank: int, size: int) -> str:
    """Rank 1 leaves a call out; the others only ask whether theirs has completed."""
    ours = dist.new_group(backend="rankmesh", timeout=SECOND)
    if rank == 1:
        dist.barrier()
        return ""
    work = dist.all_reduce(torch.ones(4), group=ours, async_op=True)
    while not work.is_completed():
        time.sleep(0.01)
    error = work.exception()
    assert not work.is_success()
    assert isinstance(error, rankmesh.Timeout)
    assert error.missing == [1]
    dist.barrier()
    return str(error)


def test_a_work_that_is_only_polled_fails_at_its_timeout(tmp_path: Path) -> None:
    for text in torch_ranks.ranks(3, check_polled, tmp_path)[::2]:
        assert "missing rank 1" in text


def check_polled_data(rank: int, size: int) -> list[float]:
    """What `is_completed` says is complete is written, also where the result has to be copied to its place."""
    _, ours = both()
    x = torch.zeros(4, 2)
    x[:, 0] = rank + 1.0
    work = dist.all_reduce(x.t()[0], group=ours, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    found: list[float] = x[:, 0].tolist()
    return found


def test_a_work_that_is_complete_has_written(tmp_path: Path) -> None:
    assert torch_ranks.ranks(2, check_polled_data, tmp_path) == [[3.0] * 4] * 2


def check_unheard(rank: int, size: int, folder: str, holds: bool, differs: bool) -> str:
    """Starts a call that fails, and ends without asking for it; returns what is printed meanwhile."""
    begin(rank, size, f"{folder}/world")
    ours = dist.new_group(backend="rankmesh", timeout=SECOND)
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        if rank == 0 or differs:
            work = dist.all_reduce(torch.ones(4 + rank), group=ours, async_op=True)
            if differs:
                while not work.is_completed():
                    time.sleep(0.01)
            if not holds:
                del work
        dist.destroy_process_group(ours)
    dist.barrier()
    return printed.getvalue()


@pytest.mark.parametrize(("holds", "differs"), [(False, False), (False, True), (True, True)])
def test_the_error_of_a_work_that_nobody_asks_for_is_printed(tmp_path: Path, holds: bool, differs: bool) -> None:
    printed = torch_ranks.ranks(2, check_unheard, tmp_path, str(tmp_path), holds, differs, initialised=False)
    for text in printed if differs else printed[:1]:
        assert text.startswith("rankmesh: an operation that nobody waited for failed: "), printed


def test_work_waits_twice_and_completes_futures(tmp_path: Path) -> None:
    torch_ranks.ranks(3, check_work, tmp_path)


def test_a_dropped_work_blocks_nobody_and_completes(tmp_path: Path) -> None:
    torch_ranks.ranks(2, check_dropped, tmp_path)


def check_threads(rank: int, size: int) -> list[str]:
    """Three threads use one group: two send both ways, and one reduces on another group with futures."""
    one, other = dist.new_group(backend="rankmesh"), dist.new_group(backend="rankmesh")
    wrong: list[str] = []

    def messages(source: int, tag: int) -> None:
        for number in range(100):
            x = torch.full((4,), float(number))
            if rank == source:
                dist.send(x, 1 - rank, group=one, tag=tag)
            else:
                dist.recv(x.zero_(), source, group=one, tag=tag)
            if x.tolist() != [number] * 4:
                wrong.append(f"message {number} of {tag}: {x}")

    def reductions() -> None:
        for number in range(50):
            x = torch.full((4,), float(number))
            dist.all_reduce(x, group=other)
            dist.all_reduce(x, group=other, async_op=True).get_future().wait()
            if x.tolist() != [4 * number] * 4:
                wrong.append(f"reduction {number}: {x}")

    threads = [threading.Thread(target=messages, args=(side, side + 1)) for side in (0, 1)]
    threads.append(threading.Thread(target=reductions))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_threads_take_turns_on_a_group(tmp_path: Path) -> None:
    assert torch_ranks.ranks(2, check_threads, tmp_path) == [[], []]


def check_groups(rank: int, size: int, folder: str) -> list[str]:
    """Three groups of the same ranks, which the ranks use in different orders, and each of three threads one."""
    begin(rank, size, f"{folder}/world")
    groups = [dist.group.WORLD, *(dist.new_group(list(range(size)), timeout=60 * SECOND) for _ in range(2))]
    alone = [dist.new_group([0]), dist.new_group([0])]
    tensors = [torch.full((4,), 1.0 + number) for number in range(3)]
    order = [(rank + step) % 3 for step in range(3)]
    works = [dist.all_reduce(tensors[number], group=groups[number], async_op=True) for number in order]
    for work in works:
        work.wait()
    wrong = [f"{each}" for number, each in enumerate(tensors) if each.tolist() != [size * (1.0 + number)] * 4]

    def reductions(number: int) -> None:
        for step in range(50):
            x = torch.full((4,), float(number + step))
            dist.all_reduce(x, group=groups[number])
            dist.all_reduce(x, group=groups[number], async_op=True).get_future().wait()
            if x.tolist() != [size * size * (number + step)] * 4:
                wrong.append(f"{number} {step}: {x}")

    threads = [threading.Thread(target=reductions, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if rank == 0:
        for group in alone:
            dist.all_reduce(torch.ones(1), group=group)
    return wrong


def test_groups_of_the_same_ranks_do_not_meet(tmp_path: Path) -> None:
    assert torch_ranks.ranks(3, check_groups, tmp_path, str(tmp_path), initialised=False) == [[]] * 3


# --- failures and ends


def begin(rank: int, size: int, store: str, seconds: float = 60, backend: str = "rankmesh") -> None:
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timeout)


def missing(call: Callable[[], Any]) -> tuple[list[int], str]:
    try:
        call()
    except rankmesh.Timeout as error:
        return error.missing, str(error)
    raise AssertionError("no timeout")


def check_timeout(rank: int, size: int, folder: str, how: str) -> Any:
    begin(rank, size, f"{folder}/world", 1 if how in ("sync", "future") else 60)
    x = torch.ones(2)
    dist.all_reduce(x)
    if rank == 1:
        Path(folder, "late").touch()
        while not Path(folder, "over").exists():
            time.sleep(0.01)
        return None
    if how == "future":
        future = dist.all_reduce(x, async_op=True).get_future()
        found = missing(future.wait)
    elif how == "call":
        found = missing(lambda: dist.group.WORLD.allreduce(x, timeout=SECOND).wait())
    elif how == "wait":
        work = dist.group.WORLD.allreduce(x, timeout=SECOND)
        found = missing(lambda: work.wait(30 * SECOND))
        assert missing(work.wait) == found
        assert isinstance(work.exception(), rankmesh.Timeout)
    else:
        found = missing(lambda: dist.all_reduce(x))
    Path(folder, "over").touch()
    return found


def check_short_waits(rank: int, size: int, folder: str, backend: str) -> list[str]:
    begin(rank, size, f"{folder}/world", backend=backend)
    x, y = torch.ones(2), torch.ones(2)
    texts = []
    if rank == 0:
        works = [dist.all_reduce(x, async_op=True), dist.irecv(y, 1)]
        for work in works[: 1 if backend == "rankmesh+gloo" else 2]:  # Gloo closes the connection of the message
            for timeout in (SECOND / 50, 0.02, -SECOND):
                with pytest.raises(rankmesh.Timeout) as error:
                    work.wait(timeout)
                assert (error.value.arrived, error.value.missing) == ([], [])
                assert isinstance(error.value, dist.DistBackendError)
                assert not work.is_completed()
                texts.append(str(error.value))
        Path(folder, "waited").touch()
        for work in works:
            assert work.wait()
        assert works[0].wait(SECOND)
    else:
        while not Path(folder, "waited").exists():
            time.sleep(0.01)
        dist.all_reduce(x)
        time.sleep(3 * _watched.LOOK)  # in which rank 0 looks several times whether this process lives
        dist.send(torch.full((2,), 5.0), 0)
    dist.barrier()
    assert x.tolist() == [2.0, 2.0]
    assert y.tolist() == ([5.0, 5.0] if rank == 0 else [1.0, 1.0])
    return texts


@pytest.mark.parametrize("backend", ["rankmesh", "rankmesh+gloo"])
def test_a_wait_that_expires_leaves_its_call_pending(backend: str, tmp_path: Path) -> None:
    texts, _ = torch_ranks.ranks(2, check_short_waits, tmp_path, str(tmp_path), backend, initialised=False)
    calls = {
        "rankmesh": ["all_reduce on 'world' of mesh world=2", "recv on 'world' of mesh world=2"],
        "rankmesh+gloo": ["allreduce of 2 float32 by sum on gloo"],
    }[backend]
    ends = ["0.02", "0.02", "-1"]
    assert texts == [
        f"{call} has not completed in the {end} s of wait(); the call goes on, so call wait() again"
        for call in calls
        for end in ends
    ]


def check_no_time(rank: int, size: int, folder: str, backend: str, seconds: float) -> Any:
    begin(rank, size, f"{folder}/world", backend=backend)
    dist.barrier()
    if rank == 0:
        found = missing(lambda: dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=seconds)))
        Path(folder, "over").touch()
        return found
    while not Path(folder, "over").exists():
        time.sleep(0.01)
    return None


@pytest.mark.parametrize("backend", ["rankmesh", "rankmesh+gloo"])
@pytest.mark.parametrize("seconds", [0, -1])
def test_a_monitored_barrier_without_time_names_who_is_not_there(backend: str, seconds: float, tmp_path: Path) -> None:
    arguments = str(tmp_path), backend, seconds
    (found, text), _ = torch_ranks.ranks(2, check_no_time, tmp_path, *arguments, initialised=False)
    assert found == [1]
    assert "the timeout of 1 ms expired on rank 0 in monitored_barrier" in text


@pytest.mark.parametrize("how", ["sync", "future", "call", "wait"])
def test_a_timeout_names_the_rank_that_is_missing(how: str, tmp_path: Path) -> None:
    found, text = torch_ranks.ranks(2, check_timeout, tmp_path, str(tmp_path), how, initialised=False)[0]
    assert found == [1]
    assert "missing rank 1" in text, text


def check_ends(rank: int, size: int, folder: str) -> None:
    begin(rank, size, f"{folder}/world")
    store = dist.distributed_c10d._get_default_store()
    for _ in range(3):
        x = torch.ones(2)
        pair = dist.new_group([0, 1], group_desc="a pair with a long name, longer than names of rankmesh may be")
        dist.all_reduce(x, group=pair)
        dist.destroy_process_group(pair)
        dist.all_reduce(x)
        assert x.tolist() == [4.0, 4.0]
        dist.destroy_process_group()
        dist.init_process_group("rankmesh", store=store, rank=rank, world_size=size)
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        begun = time.monotonic()
        dist.distributed_c10d._abort_process_group()
        assert time.monotonic() - begun < 20  # not the timeout
        with pytest.raises(rankmesh.PeerLost):
            work.wait()
    else:
        with pytest.raises(rankmesh.PeerLost):
            dist.recv(torch.ones(1), 0)
        dist.distributed_c10d._abort_process_group()


def test_a_group_ends_starts_again_and_is_aborted(tmp_path: Path) -> None:
    torch_ranks.ranks(2, check_ends, tmp_path, str(tmp_path), initialised=False)


def check_threads_as_ranks(rank: int, size: int, folder: str) -> list[Any]:
    from torch.testing._internal.distributed.multi_threaded_pg import _install_threaded_pg, _uninstall_threaded_pg

    found: list[Any] = []

    def one(rank: int) -> None:
        dist.init_process_group("rankmesh", store=store, rank=rank, world_size=4)
        x = torch.tensor([float(rank)])
        dist.all_reduce(x)
        odd = dist.new_group([1, 3])
        if rank in (1, 3):
            dist.all_reduce(x, group=odd)
        found.append((rank, x.item()))
        dist.barrier()
        dist.destroy_process_group()

    _install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    store = dist.HashStore()
    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch._C._distributed_c10d._set_thread_isolation_mode(False)
    _uninstall_threaded_pg()
    return sorted(found)


def test_threads_are_ranks_in_torchs_threaded_worlds(tmp_path: Path) -> None:
    found = torch_ranks.ranks(1, check_threads_as_ranks, tmp_path, str(tmp_path), initialised=False)
    assert found == [[(0, 6.0), (1, 12.0), (2, 6.0), (3, 12.0)]]


def check_fork(rank: int, size: int, folder: str) -> str:
    begin(rank, size, f"{folder}/world")
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        try:
            dist.all_reduce(torch.ones(1))
        except rankmesh.UsageError as error:
            os.write(there, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    return os.read(here, 1000).decode()


def test_a_forked_child_is_refused_and_its_parent_not(tmp_path: Path) -> None:
    for text in torch_ranks.ranks(2, check_fork, tmp_path, str(tmp_path), initialised=False):
        assert "make a world of its own after the fork" in text
