"""The backend rankmesh of torch.distributed: its collectives equal Gloo's, and its calls have every form of torch's."""

from __future__ import annotations

import datetime
import itertools
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

    def gather_single(self) -> list[Tensor]:
        if dist.get_backend(self.group) == "gloo":  # which has no gather_single
            return [joined(outputs)] if (outputs := self.gather()) else []
        output = joined([self.blank()] * self.size) if self.rank == 1 else None
        work = dist.gather_single(self.own().contiguous(), output, dst=1, group=self.group, async_op=self.is_async)
        ended(work)
        return [] if output is None else [output]

    def scatter(self) -> list[Tensor]:
        output, inputs = self.blank(), self.lists()[1] if self.rank == 1 else None
        ended(dist.scatter(output, inputs, src=1, group=self.group, async_op=self.is_async))
        return [output]

    def all_to_all(self) -> list[Tensor]:
        outputs, inputs = self.lists()
        try:
            ended(dist.all_to_all(outputs, inputs, group=self.group, async_op=self.is_async))
        except RuntimeError as error:
            if str(error) != "Backend gloo does not support alltoall":  # in PyTorch 2.11
                raise
            return [values(self.dtype, other + 10 * self.rank, self.shape) for other in range(self.size)]
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
if hasattr(dist, "gather_single"):  # PyTorch 2.14
    MOVES.append("gather_single")
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


def check_any_source(rank: int, size: int) -> list[list[int]]:
    gloo, ours = both()
    senders = []
    for group in (gloo, ours):
        x = torch.full((3,), float(rank))
        if rank > 0:
            dist.send(x, 0, group=group, tag=5)
            continue
        senders.append([])
        for _ in range(size - 1):
            senders[-1].append(dist.recv(x, src=None, group=group, tag=5))
            assert x.tolist() == [float(senders[-1][-1])] * 3
    x = torch.full((2,), float(rank))
    if rank == size - 1:
        ours.send([x], 0).wait()
    if rank == 0:
        work = ours.recv_anysource([x], 0)
        work.wait()
        assert x.tolist() == [float(size - 1)] * 2
        senders.append([work.source_rank()])
    return senders


def test_recv_when_the_source_is_any_returns_it(tmp_path: Path) -> None:
    gloos, ours, started = torch_ranks.ranks(3, check_any_source, tmp_path)[0]
    assert sorted(gloos) == sorted(ours) == [1, 2]
    assert started == [2]


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
    one, two = torch.ones(2), torch.ones(3)
    with dist._coalescing_manager(group=ours, async_ops=True) as both_of_them:
        dist.all_reduce(one, group=ours)
        dist.all_reduce(two, group=ours)
    both_of_them.wait()
    assert one.tolist() + two.tolist() == [size] * 5
    ring = [
        dist.P2POp(dist.isend, torch.full((2,), float(rank)), (rank + 1) % size, ours),
        dist.P2POp(dist.irecv, one, (rank - 1) % size, ours),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    assert one.tolist() == [float((rank - 1) % size)] * 2
    found: list[Any] = [None] * size
    dist.all_gather_object(found, {"rank": rank}, group=ours)
    assert found == [{"rank": each} for each in range(size)]


@pytest.mark.parametrize("size", [2, 3])
def test_bool_sparse_and_uneven_tensors_move_and_add(size: int, tmp_path: Path) -> None:
    torch_ranks.ranks(size, check_odd_tensors, tmp_path)
