"""rankmesh.torch: ranks are lost and gained, worlds split and merge, while processes go on."""

from __future__ import annotations

import contextlib
import datetime
import functools
import inspect
import io
import itertools
import os
import random
import re
import runpy
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Declaration, Disagreement, PeerLost, Timeout, UsageError
from rankmesh._core import make_blueprint

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
import torch_cycles  # noqa: E402
import torch_survivors  # noqa: E402
from elastic_ranks import Job, die  # noqa: E402
from rankmesh.torch._elastic import _client, unfit  # noqa: E402
from test_torch import blocks  # noqa: E402
from torch_ranks import preload  # noqa: E402

preload("torch._dynamo", "torch.nn.parallel")  # which DistributedDataParallel and optimizers import


def check(me: rankmesh.torch.Member) -> tuple[int, int]:
    """Every group of the member sums its ranks, several times."""
    assert (dist.get_rank(), dist.get_world_size()) == (me.rank, me.size)
    for axes in me.mesh.axes:
        for step in range(3):
            total = torch.tensor([float(me.rank + step)])
            dist.all_reduce(total, group=me.group(axes))
            assert total.item() == sum(rank + step for rank in me.ranks(axes)), axes
        assert me.device_mesh().get_group(axes) is me.group(axes)
    first = torch.tensor([float(me.rank)])
    dist.broadcast(first, 0)
    assert first.item() == 0
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == me.size
    return me.rank, me.size


def wait_for_loss() -> None:
    """Returns when this rank has lost another."""
    with contextlib.suppress(PeerLost):
        while True:
            dist.all_reduce(torch.ones(1))


# --- survivors, grow, rejoin


def lose_and_gain(rank: int, lost: tuple[int, ...]) -> Any:
    me = rankmesh.torch.init("dp=* tp=1", over=[("dp", "tp")], backend="rankmesh")
    check(me)
    if rank in lost:
        die()
    wait_for_loss()
    me = me.survivors(grace=10)
    smaller = check(me)
    me = me.grow(len(lost), timeout=60)
    larger = check(me)
    me.destroy()
    assert not dist.is_initialized()
    return smaller, larger


def come_back(plan: str, **options: Any) -> Any:
    me = rankmesh.torch.rejoin(plan, **options, timeout=60)
    place = check(me)
    me.destroy()
    return place


@pytest.mark.parametrize("lost", [(2,), (0,), (1, 3)])
def test_job_when_ranks_die_shrinks_and_regains_them(lost: tuple[int, ...], tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        job.start_all(lose_and_gain, lost)
        results = {}
        for rank, result in job.ended():
            if result is None:
                job.start(rank, functools.partial(come_back, "dp=* tp=1", over=[("dp", "tp")]))
            else:
                results[rank] = result
    left = [rank for rank in range(4) if rank not in lost]
    places = {rank: ((place, len(left)), (rank, 4)) for place, rank in enumerate(left)}
    assert results == places | {rank: (rank, 4) for rank in lost}


@pytest.mark.parametrize("how", torch_survivors.WAYS)
def test_survivors_of_a_mesh_whose_ranks_call_along_axes_are_all_healthy_ranks(how: str) -> None:
    """Rank 0 shares no group of the plan with rank 3, and waits for ranks that are in survivors."""
    loss = torch_survivors.Loss(4, "rep=2 shard=2", "cpu:rankmesh", 3, how == "group", 0.0, how, how == "call")
    assert torch_survivors.run(loss)[1] == ""


# --- reconfigure: the scenarios of torchcomms' ReconfigureTest


def reconfigure(rank: int, *worlds: list[list[int]]) -> list[tuple[int, int]]:
    """In turn this rank is in the part of each list that has it. It ends with its last part."""
    original = sys.excepthook
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    places = [check(me)]
    for parts in worlds:
        if mine := [part for part in parts if rank in part]:
            me = me.reconfigure(mine[0])
            places.append(check(me))
            assert inspect.getclosurevars(sys.excepthook).nonlocals["old_hook"] is original  # it says the rank once
    me.destroy()
    return places


ALL, HALVES, ALONE = [[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    "worlds",
    [
        pytest.param([[[0, 1, 2]]], id="shrink"),
        pytest.param([[[0, 1, 3]]], id="exclude_middle_rank"),
        pytest.param([ALONE, ALL], id="scale_down_up"),
        pytest.param([ALL, ALL], id="identity"),
        pytest.param([[[0, 1]], ALL], id="late"),
        pytest.param([HALVES, ALL, HALVES, ALL], id="merge_split"),
        pytest.param([[[3, 1, 0]], [[1, 3], [2, 0]]], id="another_order"),
    ],
)
def test_reconfigure_when_worlds_change_sums_their_ranks(worlds: list[list[list[int]]], tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        job.start_all(reconfigure, *worlds)
        results = job.results()
    for rank, places in enumerate(results):
        parts = [part for parts in [ALL, *worlds] for part in parts if rank in part]
        assert places == [(part.index(rank), len(part)) for part in parts]


def split_and_merge(rank: int) -> bool:
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    half = me.reconfigure([0, 1] if me.rank < 2 else [2, 3])
    assert check(half) == (rank % 2, 2)
    me = half.reconfigure(range(4))
    assert check(me) == (rank, 4)
    me.destroy()
    me = rankmesh.torch.init("dp=*", backend="rankmesh")  # a second world, in the store that has had the first
    assert check(me) == (rank, 4)
    me.destroy()
    return True


def test_parts_of_a_world_when_merged_are_the_world(tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        job.start_all(split_and_merge)
        assert job.results() == [True] * 4


# --- standby


def work_until_ready(standby: rankmesh.torch.Standby, me: rankmesh.torch.Member) -> int:
    steps = 0
    while not standby.ready():
        check(me)
        steps += 1
    return steps


def work_until_larger(rank: int) -> Any:
    me = rankmesh.torch.init("dp=* tp=2", backend="rankmesh")
    standby = me.standby(2, timeout=60)
    with pytest.raises(UsageError, match="swap was called on a standby that is not connected on all ranks"):
        standby.swap()
    if rank == 1:  # its thread ends later than the others'
        alive, calls = standby._thread.is_alive, itertools.count()
        standby._thread.is_alive = lambda: alive() or next(calls) < 3  # type: ignore[method-assign]
    steps = work_until_ready(standby, me)
    assert standby.ready()
    me = standby.swap()
    place = check(me)
    me.destroy()
    return place, steps


def test_standby_when_processes_come_swaps_at_one_step(tmp_path: Path) -> None:
    with Job(tmp_path, 2) as job:
        job.start_all(work_until_larger)
        for rank in (2, 3):
            job.start(rank, come_back, "dp=* tp=2")
        results = job.results()
    (first, steps), (second, others) = results[:2]
    assert steps == others > 0
    assert [first, second, *results[2:]] == [(rank, 4) for rank in range(4)]


def lose_during_standby(rank: int) -> Any:
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    standby = me.standby(1, timeout=60)
    try:
        for step in itertools.count():
            assert not standby.ready()
            check(me)
            if rank == 2 and step == 5:
                die()
    except PeerLost:
        me = me.survivors(grace=10)
    assert check(me) == (rank, 2)
    me = me.grow(1, timeout=60)
    return check(me)


def test_standby_when_a_rank_dies_gives_way_to_survivors(tmp_path: Path) -> None:
    with Job(tmp_path, 3) as job:
        job.start_all(lose_during_standby)
        results = {}
        for rank, result in job.ended():
            results[rank] = result
            if result is None:
                job.start(rank, come_back, "dp=*")
    assert results == {rank: (rank, 3) for rank in range(3)}


def leave_standby(rank: int) -> Any:
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    me.standby(1, timeout=60)
    with pytest.raises(UsageError, match=r"a group of the ranks \[0, 1\] was asked for while a standby connects"):
        dist.new_group([0, 1])
    for call in (lambda: me.grow(1, 1), lambda: me.standby(1, 1), lambda: me.reconfigure([rank])):
        with pytest.raises(
            UsageError, match=r"was called while a standby connects; call its ready\(\) and swap\(\) first"
        ):
            call()
    check(me)
    return True


def test_standby_when_the_program_ends_does_not_hold_it(tmp_path: Path) -> None:
    with Job(tmp_path, 2) as job:
        job.start_all(leave_standby)
        assert job.results(30) == [True, True]


# --- a process with another plan


def take_in_second(rank: int) -> Any:
    me = rankmesh.torch.init("dp=*", backend="rankmesh")
    with pytest.raises(Disagreement) as caught:
        me.grow(1, timeout=60)
    check(me)
    me = me.grow(1, timeout=60)
    return str(caught.value), check(me)


def come_with_another_plan() -> Any:
    with pytest.raises(Disagreement) as caught:
        rankmesh.torch.rejoin("dp=* tp=1", timeout=60)
    return str(caught.value), None


def test_grow_when_a_process_has_another_plan_raises(tmp_path: Path) -> None:
    with Job(tmp_path, 2) as job:
        job.start_all(take_in_second)
        job.start(2, come_with_another_plan)
        for rank, (text, _) in job.ended():
            assert text == (
                "the ranks of the new world join different plans; every rank must declare the same:\n"
                "  ranks {0, 1}: dp=3, over dp, on cpu:rankmesh\n  rank 2: dp=3 tp=1, over dp; tp, on cpu:rankmesh"
            )
            if rank == 2:
                break
        job.start(3, come_back, "dp=*")
        results = dict(job.ended())
    assert {rank: result if rank == 3 else result[1] for rank, result in results.items()} == {
        0: (0, 3),
        1: (1, 3),
        3: (2, 3),
    }


# --- the example, and many cycles


PROGRAM = Path(__file__).parents[2] / "examples/python/elastic_torch.py"
PAGE = "docs/python-torch-elastic.md"
STEP = re.compile(r"^step (\d) on (\d) ranks: loss ([0-9.]+)$", re.M)


def example(*words: str) -> str:
    sys.argv = [str(PROGRAM), *words]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    return said.getvalue()


def losses(worlds: list[int]) -> list[float]:
    """The losses of one process that has in step i the gradients of worlds[i] ranks."""
    program = runpy.run_path(str(PROGRAM))
    training, losses = program["Training"](), []
    for step, size in enumerate(worlds):
        training.optimizer.zero_grad()
        inputs, targets = program["batch_of"](step)
        parts = zip(inputs.chunk(size), targets.chunk(size), strict=True)
        loss = sum(torch.nn.functional.mse_loss(training.model(x), y) for x, y in parts) / size
        loss.backward()
        training.optimizer.step()
        losses.append(loss.item())
    return losses


def test_example_when_a_rank_dies_has_losses_of_its_worlds(tmp_path: Path) -> None:
    with Job(tmp_path, 4) as job:
        for rank in range(4):
            job.start(rank, example)
        job.start(2, example, "again")
        said = job.results()
    assert "rank 2 is gone" in said[0]
    steps = STEP.findall(said[0])
    assert [int(step) for step, _, _ in steps] == list(range(8))
    worlds = [int(size) for _, size, _ in steps]
    assert worlds == [4, 4, 3, 3, 3, 4, 4, 4]
    assert [float(loss) for _, _, loss in steps] == pytest.approx(losses(worlds), abs=2e-6)
    (shown,) = [STEP.findall(block) for block in blocks("text", PAGE)]
    assert [(*each[:2], pytest.approx(float(each[2]), abs=1e-4)) for each in shown] == [
        (*each[:2], float(each[2])) for each in steps
    ]


def test_snippets_of_the_page_are_lines_of_programs() -> None:
    sources = [[line.strip() for line in path.read_text().splitlines()] for path in (PROGRAM, Path(__file__))]
    for block in blocks("python", PAGE):
        lines = [line.strip() for line in block.splitlines()]
        assert any(lines == source[at : at + len(lines)] for source in sources for at in range(len(source))), block


def test_cycles_when_ranks_are_killed_again_go_on(tmp_path: Path) -> None:
    seed = int(os.environ.get("RANKMESH_FAULT_SEED") or int.from_bytes(os.urandom(3), "little"))
    kills, wrong = torch_cycles.run(5, seed, tmp_path)
    assert not wrong, f"seed {seed}: {wrong}"
    assert kills >= 5


# --- errors


def refuse(rank: int) -> bool:
    me = rankmesh.torch.init("dp=2", backend="gloo")
    for call in (me.survivors, lambda: me.grow(1, 1), lambda: me.standby(1, 1), lambda: me.reconfigure([0, 1])):
        with pytest.raises(
            UsageError, match=r"was called on the backend 'gloo', whose groups cannot lose or gain a rank"
        ):
            call()
    with pytest.raises(UsageError, match=r"rejoin was called, but torch\.distributed is initialised"):
        rankmesh.torch.rejoin("dp=2")
    me.destroy()
    with pytest.raises(UsageError, match="this member was destroyed"):
        me.survivors()

    me = rankmesh.torch.init("dp=2", backend="rankmesh")
    with pytest.raises(Timeout):
        me.grow(1, 0.1)
    standby = me.standby(1, 0.1)
    with pytest.raises(Timeout):
        work_until_ready(standby, me)
    check(me)
    with pytest.raises(UsageError) as caught:
        me.reconfigure([rank])
    assert str(caught.value) == (
        "the plan does not fit the new world: mesh dp=2 needs 2 ranks; the world has 1; sizes that fit are dp=1; to go "
        "on, call rankmesh.torch.init with a plan that fits"
    )
    part = rankmesh.torch.init("dp=*")
    assert check(part) == (0, 1)
    for call in (lambda: part.grow(1, 1), lambda: part.standby(1, 1)):
        with pytest.raises(
            UsageError, match=r"in a part of the world of 2 ranks; call reconfigure\(range\(2\)\) on all"
        ):
            call()
    me = part.reconfigure(range(2))
    assert check(me) == (rank, 2)
    del os.environ["RANKMESH_JOB"]
    with pytest.raises(
        UsageError, match="no new process can find this job; start its processes with RANKMESH_STORE and"
    ):
        me.grow(1, 1)
    me.destroy()
    dist.destroy_process_group()
    return True


def test_errors_when_a_world_cannot_change_say_what_to_do(tmp_path: Path) -> None:
    with Job(tmp_path, 2) as job:
        job.start_all(refuse)
        assert job.results() == [True, True]


@pytest.mark.parametrize("seed", range(20))
def test_sizes_when_a_plan_does_not_fit_do_fit(seed: int) -> None:
    chance = random.Random(seed)
    axes = ["pp", "dp", "tp"][: chance.randint(1, 3)]
    sizes: list[int | str] = [chance.randint(1, 4) for _ in axes]
    if chance.random() < 0.5:
        sizes[chance.randrange(len(axes))] = "*"
    mesh, size = dict(zip(axes, sizes, strict=True)), chance.randint(1, 12)
    for form in (mesh, " ".join(f"{axis}={n}" for axis, n in mesh.items())):
        text = str(unfit([Declaration(form)], size, UsageError("why")))
        fits = re.search("sizes that fit are (.*); to go on", text)[1].split(", ")
        assert len(set(fits)) == len(fits)
        for each in fits:
            plan, partial, _ = each.partition(" with partial=True")
            assert make_blueprint([Declaration(plan, partial=bool(partial))], size)[0].mesh.axes == tuple(axes)
    strided = unfit([Declaration("dp=2:1 tp=2:2")], 3, UsageError("why"))
    assert str(strided) == (
        "the plan does not fit the new world: why; to go on, call rankmesh.torch.init with a plan that fits"
    )


def test_store_when_its_rank_dies_in_the_connection_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            server.accept()[0].close()  # who looks whether the rank lives
            asked, _ = server.accept()
            server.close()
            asked.close()

        thread = threading.Thread(target=serve)
        thread.start()
        begin = time.monotonic()
        assert _client(*server.getsockname(), datetime.timedelta(seconds=300)) is None
        assert time.monotonic() - begin < 60
        thread.join()
