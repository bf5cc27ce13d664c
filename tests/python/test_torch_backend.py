"""The backend rankmesh of torch.distributed: its collectives equal Gloo's, its Work and groups behave as torch's."""

from __future__ import annotations

import datetime
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rankmesh  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

SECOND = datetime.timedelta(seconds=1)
MOVED = [
    "bool",
    "uint8",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
]
GLOOS = ["uint8", "int32", "int64", "float16", "float32", "float64"]
REDUCED = ["uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
OPERATIONS = {
    "SUM": lambda all_of_it: all_of_it.sum(0),
    "PRODUCT": lambda all_of_it: all_of_it.prod(0),
    "MIN": lambda all_of_it: all_of_it.amin(0),
    "MAX": lambda all_of_it: all_of_it.amax(0),
    "AVG": lambda all_of_it: all_of_it.mean(0),
}
Tensor = Any
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x.clone(),
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() else x.clone(),
    "slice": lambda x: torch.stack([x, x], -1)[..., 0],
    "offset": lambda x: torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[min(x.numel(), 1) :].view(x.shape),
}


def values(dtype: str, rank: int, shape: Sequence[int]) -> Tensor:
    """Small numbers, which every type adds and multiplies exactly; the same on every rank that asks."""
    seed = torch.Generator().manual_seed(97 * rank + len(shape))
    return torch.randint(0, 3, tuple(shape), generator=seed).to(getattr(torch, dtype))


def same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.double().equal(other.double())


def joined(tensors: list[Tensor]) -> Tensor:
    return torch.cat(tensors) if tensors[0].dim() else torch.stack(tensors)


def ended(work: Any) -> None:
    if work is not None:
        work.wait()


class Case:
    """One rank's calls of each collective on a group, on tensors of one type, shape and layout."""

    def __init__(self, group: Any, dtype: str, shape: Sequence[int], layout: str, is_async: bool) -> None:
        self.group, self.dtype, self.shape, self.is_async = group, dtype, tuple(shape), is_async
        self.layout, self.rank, self.size = LAYOUTS[layout], group.rank(), group.size()

    def own(self, part: int = 0) -> Tensor:
        return self.layout(values(self.dtype, self.rank + 10 * part, self.shape))

    def blank(self) -> Tensor:
        return self.layout(torch.zeros(self.shape, dtype=getattr(torch, self.dtype)))

    def lists(self) -> tuple[list[Tensor], list[Tensor]]:
        return [self.blank() for _ in range(self.size)], [self.own(part) for part in range(self.size)]

    def broadcast(self) -> list[Tensor]:
        x = self.own()
        ended(dist.broadcast(x, self.size - 1, group=self.group, async_op=self.is_async))
        return [x]

    def all_gather(self) -> list[Tensor]:
        outputs, _ = self.lists()
        ended(dist.all_gather(outputs, self.own(), group=self.group, async_op=self.is_async))
        return outputs

    def all_gather_into_tensor(self) -> list[Tensor]:
        output = joined([self.blank()] * self.size)
        ended(dist.all_gather_into_tensor(output, self.own().contiguous(), group=self.group, async_op=self.is_async))
        return [output]

    def gather(self) -> list[Tensor]:
        outputs = self.lists()[0] if self.rank == 1 else None
        ended(dist.gather(self.own(), outputs, dst=1, group=self.group, async_op=self.is_async))
        return outputs or []

    def scatter(self) -> list[Tensor]:
        output, inputs = self.blank(), self.lists()[1] if self.rank == 1 else None
        ended(dist.scatter(output, inputs, src=1, group=self.group, async_op=self.is_async))
        return [output]

    def all_to_all(self) -> list[Tensor]:
        outputs, inputs = self.lists()
        ended(dist.all_to_all(outputs, inputs, group=self.group, async_op=self.is_async))
        return outputs

    def ring(self) -> list[Tensor]:
        output = self.blank()
        works = [
            dist.irecv(output, (self.rank - 1) % self.size, group=self.group, tag=3),
            dist.isend(self.own(), (self.rank + 1) % self.size, group=self.group, tag=3),
        ]
        for work in works:
            ended(work)
        return [output]

    def all_reduce(self, by: str) -> list[Tensor]:
        x = self.own()
        ended(dist.all_reduce(x, getattr(dist.ReduceOp, by), group=self.group, async_op=self.is_async))
        return [x]

    def reduce(self, by: str) -> list[Tensor]:
        x = self.own()
        ended(dist.reduce(x, 1, getattr(dist.ReduceOp, by), group=self.group, async_op=self.is_async))
        return [x] if self.rank == 1 else []

    def reduce_scatter(self, by: str) -> list[Tensor]:
        output, (_, inputs) = self.blank(), self.lists()
        ended(dist.reduce_scatter(output, inputs, getattr(dist.ReduceOp, by), group=self.group, async_op=self.is_async))
        return [output]

    def reduce_scatter_tensor(self, by: str) -> list[Tensor]:
        output, given = self.blank().contiguous(), joined(self.lists()[1])
        work = dist.reduce_scatter_tensor(
            output, given, getattr(dist.ReduceOp, by), group=self.group, async_op=self.is_async
        )
        ended(work)
        return [output]


MOVES = ["broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter", "all_to_all", "ring"]
REDUCTIONS = ["all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"]
SHAPES: list[tuple[int, ...]] = [(2, 3), (), (0, 2), (5,)]


def both() -> tuple[Any, Any]:
    return dist.group.WORLD, dist.new_group(backend="rankmesh")


def layouts_and_modes() -> Iterator[tuple[tuple[int, ...], str, bool]]:
    return itertools.product(SHAPES, LAYOUTS, (False, True))


def check_moves(rank: int, size: int) -> list[str]:
    gloo, ours = both()
    wrong = []
    for dtype in MOVED:
        alike = dtype if dtype in GLOOS else "float64"  # Gloo gathers no bool, and no float8
        for name, (shape, layout, is_async) in itertools.product(MOVES, layouts_and_modes()):
            by_gloo = Case(gloo, alike, shape, "contiguous", False)
            if name == "all_gather_into_tensor" and not shape:  # which Gloo refuses
                expected = [torch.stack(by_gloo.all_gather())]
            else:
                expected = getattr(by_gloo, name)()
            got = getattr(Case(ours, dtype, shape, layout, is_async), name)()
            expected = [each.to(getattr(torch, dtype)) for each in expected]
            if len(got) != len(expected) or not all(map(same, got, expected)):
                wrong.append(f"{name} {dtype} {shape} {layout} {is_async}: {got}, not {expected}")
    return wrong


def by_brute_force(name: str, by: str, case: Case) -> list[Tensor]:
    part = case.rank if name.startswith("reduce_scatter") else 0
    every = torch.stack([values(case.dtype, rank + 10 * part, case.shape) for rank in range(case.size)])
    result = OPERATIONS[by](every).to(every.dtype) if every.numel() else every[0]
    return [result] if name != "reduce" or case.rank == 1 else []


def check_reductions(rank: int, size: int) -> list[str]:
    gloo, ours = both()
    wrong = []
    for dtype, name, by in itertools.product(REDUCED, REDUCTIONS, OPERATIONS):
        if by == "AVG" and not getattr(torch, dtype).is_floating_point:
            continue
        for shape, layout, is_async in layouts_and_modes():
            case = Case(ours, dtype, shape, layout, is_async)
            expected = by_brute_force(name, by, case)
            if by != "AVG" and shape and layout == "contiguous":  # Gloo has no mean, and fails on some of no dimension
                by_gloo = getattr(Case(gloo, dtype, shape, layout, False), name)(by)
                assert all(map(same, by_gloo, expected))
            got = getattr(case, name)(by)
            if by == "AVG":  # whose division each engine rounds its own way
                good = len(got) == len(expected) and all(
                    torch.allclose(one.double(), other.double(), rtol=1e-2)
                    for one, other in zip(got, expected, strict=True)
                )
            else:
                good = len(got) == len(expected) and all(map(same, got, expected))
            if not good:
                wrong.append(f"{name} {by} {dtype} {shape} {layout} {is_async}: {got}, not {expected}")
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_moves_equal_gloo_of_every_type_and_layout(size: int, tmp_path: Path) -> None:
    assert torch_ranks.ranks(size, check_moves, tmp_path) == [[]] * size


@pytest.mark.parametrize("size", [2, 4])
def test_reductions_equal_gloo_and_brute_force(size: int, tmp_path: Path) -> None:
    assert torch_ranks.ranks(size, check_reductions, tmp_path) == [[]] * size


# --- forms of the calls, and their errors


def check_forms(rank: int, size: int) -> list[Tensor]:
    """Calls as ProcessGroup's second signatures have them."""
    ours = both()[1]
    one, total = torch.tensor([1.0 + rank]), size * (size + 1) / 2
    results = []

    def run(work: Any, *tensors: Tensor) -> None:
        work.wait()
        results.append([each.tolist() for each in tensors])

    x = one.clone()
    run(ours.allreduce(x), x)
    x = one.clone()
    run(ours.allreduce([x], dist.ReduceOp.MAX), x)
    x = one.clone()
    run(ours.allreduce(x, op=dist.ReduceOp.MIN, timeout=9 * SECOND), x)
    x = one.clone()
    run(ours.broadcast(x, root=1), x)
    x = one.clone()
    run(ours.reduce(x, 0, op=dist.ReduceOp.SUM), *([x] if rank == 0 else []))
    outputs = [torch.zeros(1) for _ in range(size)]
    run(ours.allgather(outputs, one), *outputs)
    run(ours.gather(outputs if rank == 1 else [], one, 1))
    run(ours.scatter(x, outputs if rank == 1 else [], root=1), x)
    run(ours.reduce_scatter(x, outputs, op=dist.ReduceOp.SUM), x)
    run(ours.alltoall_base(x := torch.zeros(size), torch.arange(size) + 10.0 * rank, [], []), x)
    run(ours.barrier(timeout=9 * SECOND))
    assert x.tolist() == [10.0 * other + rank for other in range(size)]
    assert results[0] == [[total]]
    assert results[1] == [[float(size)]]
    assert results[2] == [[1.0]]
    ours.monitored_barrier()
    return results


def test_second_signatures_reduce_gather_and_scatter(tmp_path: Path) -> None:
    results = torch_ranks.ranks(3, check_forms, tmp_path)
    for rank, result in enumerate(results):
        assert result[:4] == [[[6.0]], [[3.0]], [[1.0]], [[2.0]]]
        assert result[4] == ([[6.0]] if rank == 0 else [])
        assert result[5] == [[1.0], [2.0], [3.0]]
        assert result[7:9] == [[[1.0 + rank]], [[3.0 * (rank + 1)]]]


def check_refusals(rank: int, size: int) -> list[str]:
    ours = both()[1]
    one, two = torch.ones(1), [torch.ones(1)] * 2
    calls: list[Callable[[], Any]] = [
        lambda: ours.allreduce(two),
        lambda: ours.allreduce_coalesced([]),
        lambda: ours.allreduce([one], dist._make_nccl_premul_sum(2.0)),
        lambda: ours.allgather([two], [torch.ones(2)]),
        lambda: ours.allgather([[one]], [one]),
        lambda: ours.alltoall([one], [one]),
        lambda: ours.alltoall_base(torch.ones(3), torch.ones(3), [2, 2], [1, 2]),
        lambda: ours.alltoall_base(torch.ones(3), torch.ones(3), [], []),
        lambda: ours.allreduce(one.to(torch.float8_e5m2fnuz)),
        lambda: ours.broadcast([one.to_sparse()], 0),
        lambda: ours.recv_anysource([one], 0),
        lambda: ours.broadcast(one, size),
    ]
    texts = []
    for call in calls:
        try:
            work = call()
            if work is not None:
                work.wait()
            texts.append("no error")
        except rankmesh.UsageError as error:
            texts.append(str(error))
    ours.allreduce(one).wait()  # it works on
    return [*texts, one.item()]


def test_a_wrong_call_says_what_to_pass(tmp_path: Path) -> None:
    for texts in torch_ranks.ranks(2, check_refusals, tmp_path):
        for text, part in zip(
            texts,
            [
                "allreduce was given 2 tensors; pass one, because a process is one rank",
                "allreduce_coalesced was given an empty list; pass one tensor or more",
                "by PREMUL_SUM; it has sum, mean, prod, min, max, bit_and, bit_or, bit_xor",
                "was given 1 elements of torch.float32 for rank 0, but 2 of torch.float32 for this rank",
                "all_gather was given a list of 1 tensors; pass 2, one for each rank",
                "alltoall was given a list of 1 tensors; pass 2, one a rank",
                "was given the split sizes [2, 2] for 3 rows; pass 2 sizes whose sum is 3",
                "",
                "was asked to reduce torch.float8_e5m2fnuz; pass x.to(torch.bfloat16)",
                "was given a tensor of layout torch.sparse_coo; pass x.to_dense()",
                "was asked to receive from any rank, which it does not support; pass src=",
                "group ranks are 0..1",
            ],
            strict=False,
        ):
            assert part in text, (part, text)
            assert text != "no error", part
        assert texts[-1] == 2.0


def check_odd_tensors(rank: int, size: int) -> None:
    gloo, ours = both()
    for by in ("SUM", "MAX", "MIN", "PRODUCT", "BOR", "BAND"):  # of bool
        x = torch.tensor([True, False, rank == 0])
        dist.all_reduce(x, getattr(dist.ReduceOp, by), group=ours)
        assert x.tolist() == [True, False, by in ("SUM", "MAX", "BOR")], (by, x)
    for shape in ((4,), (3, 2)):
        mine = torch.sparse_coo_tensor(
            torch.tensor([[rank, 2, 2]]),
            torch.arange(3.0).view(3, *[1] * (len(shape) - 1)).expand(3, *shape[1:]),
            shape,
        )
        x, expected = mine.clone(), mine.to_dense()
        dist.all_reduce(x, group=ours)
        dist.all_reduce(expected, group=gloo)
        assert x.is_sparse
        assert x.to_dense().equal(expected), (x, expected)
    x = torch.complex(torch.ones(2), torch.ones(2) * rank).conj()
    ours.broadcast(x, 1).wait()
    assert x.tolist() == [1 - 1j] * 2
    x = torch.ones(2)
    ours.allreduce_coalesced([x, y := torch.ones(3).double()]).wait()
    dist.all_reduce_coalesced([z := torch.ones(2), z], group=ours)
    assert z.tolist() == [size] * 2
    assert y.tolist() == [size] * 3
    leaf = torch.ones(2, 2, requires_grad=True)
    dist.all_reduce(leaf.t(), group=ours) if rank < 0 else dist.all_reduce(leaf.detach().t()[:1], group=ours)
    assert leaf.tolist() == [[size, 1.0], [size, 1.0]]
    whole = torch.zeros(4, 2 * size, requires_grad=True)  # autograd counts no write, as with Gloo
    part = torch.chunk(whole, size, 1)[rank]
    dist.broadcast(whole.detach(), 0, group=ours)
    dist.all_reduce(part.detach(), group=ours)
    dist.all_gather([each.detach() for each in torch.chunk(whole, size, 1)], torch.ones(4, 2), group=ours)
    assert whole._version == 0
    assert part.grad_fn is not None
    uneven = [torch.full((2 * rank + to,), float(rank)) for to in range(size)]
    into = [torch.zeros(2 * source + rank) for source in range(size)]
    dist.all_to_all(into, uneven, group=ours)
    assert [each.tolist() for each in into] == [[float(source)] * (2 * source + rank) for source in range(size)]
    rows = torch.zeros(sum(2 * source + rank for source in range(size)), 2)
    dist.all_to_all_single(
        rows,
        torch.cat(uneven).unsqueeze(1).expand(-1, 2),
        [2 * source + rank for source in range(size)],
        [2 * rank + to for to in range(size)],
        group=ours,
    )
    assert rows[:, 1].tolist() == torch.cat(into).tolist()
    found: list[Any] = [None] * size
    dist.all_gather_object(found, {"rank": rank}, group=ours)
    assert found == [{"rank": each} for each in range(size)]


@pytest.mark.parametrize("size", [2, 3])
def test_bool_sparse_and_uneven_tensors_move_and_add(size: int, tmp_path: Path) -> None:
    torch_ranks.ranks(size, check_odd_tensors, tmp_path)


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
    dist.barrier(group=ours)
    dist.all_reduce(torch.ones(1), group=ours)
    assert x.tolist() == [size] * 4
    assert y.tolist() == [[1.0, *[float(size)] * 3]] * 4
    if rank == 0:  # as the last call of the group
        dist.isend(x, 1, group=ours)
    elif rank == 1:
        dist.recv(x, 0, group=ours)
    return took


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


# --- failures and ends


def begin(rank: int, size: int, store: str, seconds: float = 60) -> None:
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group("rankmesh", store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timeout)


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
        work = dist.all_reduce(x, async_op=True)
        found = missing(lambda: work.wait(SECOND))
        assert missing(work.wait) == found
        assert isinstance(work.exception(), rankmesh.Timeout)
    else:
        found = missing(lambda: dist.all_reduce(x))
    Path(folder, "over").touch()
    return found


@pytest.mark.parametrize("how", ["sync", "future", "call", "wait"])
def test_a_timeout_names_the_rank_that_is_missing(how: str, tmp_path: Path) -> None:
    found, text = torch_ranks.ranks(2, check_timeout, tmp_path, str(tmp_path), how, initialised=False)[0]
    assert found == [1]
    assert "missing 1 [world=1]" in text, text


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
