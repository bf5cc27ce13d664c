"""Calls of a process group, right and wrong ones, have the outcome on rankmesh that they have on torch's Gloo."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

Tensor = Any
Calls = dict[str, Callable[[], Any]]
SECOND = datetime.timedelta(seconds=1)


def ended(work: Any) -> None:
    if work is not None:
        work.wait()


def in_one_storage(group: Any, asynchronous: bool) -> Calls:
    """Calls whose output lies in their input, or the other way round; on Gloo, which then mixes them, in a copy."""
    rank, size = group.rank(), group.size()
    root, last = rank == 0, size - 1
    copied = dist.get_backend(group) == "gloo"

    def numbers(count: int = size) -> tuple[Tensor, Tensor]:
        x = torch.arange(float(count)) + 10.0 * rank
        return x, x.clone() if copied else x

    def ran(call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        ended(call(*arguments, group=group, async_op=asynchronous, **options))

    def scatter(at: int, to: int) -> list[Tensor]:
        x, given = numbers(size + 1)
        ran(dist.scatter, x[to : to + 1], list(given[at : at + size].split(1)) if root else None, group_src=0)
        return [x[to : to + 1]]

    def scatter_list(to: int) -> list[Tensor]:
        parts = [numbers(2) for _ in range(size)]
        ran(dist.scatter, parts[to][0], [given for _, given in parts] if root else None, group_src=0)
        return [parts[to][0]]

    def gather(own: int) -> list[Tensor]:
        x, given = numbers()
        ran(dist.gather, given[own : own + 1], list(x.split(1)) if root else None, group_dst=0)
        return [x] if root else []

    def all_gather(own: int) -> list[Tensor]:
        x, given = numbers()
        ran(dist.all_gather, list(x.split(1)), given[own : own + 1])
        return [x]

    def all_gather_single(own: int) -> list[Tensor]:
        x, given = numbers()
        ran(dist.all_gather_into_tensor, x, given[own : own + 1])
        return [x]

    def reduce_scatter(own: int) -> list[Tensor]:
        parts = [numbers(2) for _ in range(size)]
        ran(dist.reduce_scatter, parts[own][0], [given for _, given in parts])
        return [parts[own][0]]

    def reduce_scatter_single(own: int) -> list[Tensor]:
        x, given = numbers()
        ran(dist.reduce_scatter_tensor, x[own : own + 1], given)
        return [x[own : own + 1]]

    def reduce_scatter_uneven(own: int) -> list[Tensor]:
        x, given = numbers(2 * size + 1)
        sizes = [2] * size
        sizes[0] = 3
        ran(dist.reduce_scatter, x[own : own + sizes[rank]], list(given.split(sizes)))
        return [x[own : own + sizes[rank]]]

    def all_to_all() -> list[Tensor]:
        x, given = numbers()
        ran(dist.all_to_all, list(x.split(1)), list(given.split(1)))
        return [x]

    def all_to_all_list() -> list[Tensor]:
        parts = [numbers(2) for _ in range(size)]
        ran(dist.all_to_all, [x for x, _ in parts], [given for _, given in parts])
        return [x for x, _ in parts]

    def all_to_all_single() -> list[Tensor]:
        x, given = numbers()
        ran(dist.all_to_all_single, x, given)
        return [x]

    def all_to_all_rows() -> list[Tensor]:
        x, given = numbers()
        ran(dist.all_to_all_single, x, given, [1] * size, [1] * size)
        return [x]

    return {
        **{f"scatter {at} {to}": (lambda at=at, to=to: scatter(at, to)) for at in (0, 1) for to in (0, 1, size)},
        **{
            f"{call.__name__} {which}": (lambda call=call, own=own: call(own))
            for call in (
                scatter_list,
                gather,
                all_gather,
                all_gather_single,
                reduce_scatter,
                reduce_scatter_single,
                reduce_scatter_uneven,
            )
            for which, own in (("first", 0), ("own", rank), ("last", last))
        },
        **{call.__name__: call for call in (all_to_all, all_to_all_list, all_to_all_single, all_to_all_rows)},
    }


def of_uneven_parts(group: Any, asynchronous: bool) -> Calls:
    rank, size = group.rank(), group.size()

    def reduce_scatter(sizes: list[int], by: Any, dtype: Any, strided: bool) -> list[Tensor]:
        parts = [torch.full((each, 2 if strided else 1), 1 + rank, dtype=dtype)[:, 0] for each in sizes]
        before = [each.clone() for each in parts]
        into = torch.zeros(sizes[rank], dtype=dtype)
        ended(dist.reduce_scatter(into, parts, by, group=group, async_op=asynchronous))
        assert all(map(torch.equal, parts, before))
        return [into]

    return {
        f"reduce_scatter {sizes} {by} {dtype} {strided}": (
            lambda sizes=sizes, by=by, dtype=dtype, strided=strided: reduce_scatter(sizes, by, dtype, strided)
        )
        for sizes in ([each + 1 for each in range(size)], [5 * (each % 2) for each in range(size)])
        for by in (dist.ReduceOp.SUM, dist.ReduceOp.MAX)
        for dtype in (torch.float32, torch.int64)
        for strided in (False, True)
    }


def wrong(group: Any) -> Calls:
    """Calls that Gloo refuses before it sends anything."""
    rank, size = group.rank(), group.size()
    other = (rank + 1) % size
    one, two, whole = torch.ones(1), torch.ones(2), torch.ones(1, dtype=torch.int64)
    each, ints, sparse, row = [one] * size, [whole] * size, one.to_sparse(), torch.ones(2, 2).to_sparse_csr()
    found: Calls = {}
    for root in (-1, size, 2**31, 1.5, "0"):
        found |= {
            f"broadcast {root}": lambda root=root: group.broadcast(one, root),
            f"reduce {root}": lambda root=root: group.reduce(one, root),
            f"gather {root}": lambda root=root: group.gather(each, one, root),
            f"scatter {root}": lambda root=root: group.scatter(one, each, root),
        }
    for name in ("allreduce", "broadcast", "reduce", "allreduce_coalesced"):
        call = getattr(group, name)
        found |= {
            f"{name} of nothing": lambda call=call: call([]),
            f"{name} of None": lambda call=call: call(None),
            f"{name} of a number": lambda call=call: call([3]),
            f"{name} with wrong options": lambda call=call: call([one], dist.GatherOptions()),
            f"{name} with a word": lambda call=call: call([one], "sum"),
            f"{name} of csr": lambda call=call: call([row]),
        }
    return found | {
        "broadcast sparse": lambda: group.broadcast(sparse, 0),
        "quantized": lambda: group.allreduce([torch.quantize_per_tensor(two, 0.1, 0, torch.qint8)]),
        "reduce float8": lambda: group.allreduce([two.to(torch.float8_e4m3fn)]),
        "mean of int": lambda: group.allreduce([whole], dist.ReduceOp.AVG),
        "bits of float": lambda: group.allreduce([one], dist.ReduceOp.BAND),
        "premul": lambda: group.allreduce([one], dist._make_nccl_premul_sum(2.0)),
        "allgather nothing": lambda: group.allgather([], []),
        "allgather few": lambda: group.allgather([each[1:]], [one]),
        "allgather many": lambda: group.allgather([[*each, one]], [one]),
        "allgather lists": lambda: group.allgather([each, each], [one]),
        "allgather length": lambda: group.allgather([[two] * size], [one]),
        "allgather shorter": lambda: group.allgather([each], [two]),
        "allgather type": lambda: group.allgather([ints], [one]),
        "allgather_coalesced few": lambda: group.allgather_coalesced([[one, two]] * (size - 1), [one, two]),
        "allgather_coalesced short": lambda: group.allgather_coalesced([[one]] * size, [one, two]),
        "allgather_coalesced length": lambda: group.allgather_coalesced([[one, one]] * size, [one, two]),
        "allgather_coalesced type": lambda: group.allgather_coalesced([[whole]] * size, [one]),
        "_allgather_base length": lambda: group._allgather_base(torch.ones(2 * size + 1), two),
        "_allgather_base type": lambda: group._allgather_base(torch.ones(2 * size, dtype=torch.int64), two),
        "gather few": lambda: group.gather([each[1:]], [one], dist.GatherOptions()) if rank == 0 else 1 / 0,
        "gather length": lambda: group.gather([[two] * size], [one]) if rank == 0 else 1 / 0,
        "gather type": lambda: group.gather([ints], [one]) if rank == 0 else 1 / 0,
        "gather two": lambda: group.gather([each], [one, one]),
        "gather into nothing": lambda: group.gather([], [one]) if rank == 0 else 1 / 0,
        "scatter nothing": lambda: group.scatter([one], []) if rank == 0 else 1 / 0,
        "scatter few": lambda: group.scatter([one], [each[1:]]) if rank == 0 else 1 / 0,
        "scatter length": lambda: group.scatter([one], [[two] * size]) if rank == 0 else 1 / 0,
        "scatter type": lambda: group.scatter([one], [ints]) if rank == 0 else 1 / 0,
        "scatter two": lambda: group.scatter([one, one], [each]),
        "reduce_scatter nothing": lambda: group.reduce_scatter([], []),
        "reduce_scatter few": lambda: group.reduce_scatter([one], [each[1:]]),
        "reduce_scatter many": lambda: group.reduce_scatter([one], [[*each, one]]),
        "reduce_scatter length": lambda: group.reduce_scatter([one], [[two] * size]),
        "reduce_scatter type": lambda: group.reduce_scatter([one], [ints]),
        "reduce_scatter two": lambda: group.reduce_scatter([one, one], [each, each]),
        "_reduce_scatter_base length": lambda: group._reduce_scatter_base(two, torch.ones(2 * size + 1)),
        "_reduce_scatter_base type": lambda: group._reduce_scatter_base(two, torch.ones(2 * size).long()),
        "alltoall nothing": lambda: group.alltoall([], []),
        "alltoall few": lambda: group.alltoall(each[1:], each[1:]),
        "alltoall many": lambda: group.alltoall([*each, one], [*each, one]),
        "alltoall type": lambda: group.alltoall(ints, each),
        "alltoall_base parts": lambda: group.alltoall_base(
            torch.ones(size), torch.ones(size), [1] * size + [0], [1] * size
        ),
        "alltoall_base sum": lambda: group.alltoall_base(torch.ones(size), torch.ones(size), [2] * size, [1] * size),
        "send nothing": lambda: group.send([], other, 0),
        "send two": lambda: group.send([one, one], other, 0),
        "send sparse": lambda: group.send([sparse], other, 0),
        "send tag": lambda: group.send([one], other, -1),
        "send long tag": lambda: group.send([one], other, 2**31),
        "send float tag": lambda: group.send([one], other, 1.5),
        "send to a float": lambda: group.send([one], 1.5, 0),
        "recv nothing": lambda: group.recv([], other, 0),
        "recv two": lambda: group.recv([one, one], other, 0),
        "recv tag": lambda: group.recv([one], other, -1),
        "recv_anysource tag": lambda: group.recv_anysource([one], -1),
        "recv_anysource two": lambda: group.recv_anysource([one, one], 0),
        "wait for a number": lambda: group.barrier().wait(5),
        "wait for None": lambda: group.barrier().wait(None),
        "timeout of a number": lambda: group.allreduce(one, timeout=5),
        "set_timeout to a number": lambda: group.set_timeout(5),
        "set_timeout below 0": lambda: group.set_timeout(-SECOND),
        "all_gather to no list": lambda: dist.all_gather(one, one, group=group),
        "all_reduce of a word": lambda: dist.all_reduce("x", group=group),
        "gather without a list": lambda: dist.gather(one, None, group_dst=rank, group=group),
        "scatter without a list": lambda: dist.scatter(one, None, group_src=rank, group=group),
        "source of a reduction": lambda: [(x := group.allreduce(torch.ones(1))).wait(), x._source_rank()],
    }


def both() -> tuple[Any, Any]:
    return dist.group.WORLD, dist.new_group(backend="rankmesh")


def check_values(rank: int, size: int) -> list[str]:
    different = []
    for calls in (in_one_storage, of_uneven_parts):
        for asynchronous in (False, True):
            gloo, ours = (calls(group, asynchronous) for group in both())
            for name, call in ours.items():
                expected, got = gloo[name](), call()
                if not all(map(torch.equal, expected, got)) or len(expected) != len(got):
                    different.append(f"{name} {asynchronous}: {got}, on Gloo {expected}")
    return different


@pytest.mark.parametrize("size", [1, 2, 3])
def test_outputs_in_inputs_and_uneven_parts(size: int, tmp_path: Path) -> None:
    assert torch_ranks.ranks(size, check_values, tmp_path) == [[]] * size


def kind(call: Callable[[], Any]) -> tuple[type, str]:
    try:
        work = call()
        if isinstance(work, dist.Work):
            work.wait()
    except Exception as error:
        return type(error), str(error)
    return type(None), ""


def check_types(rank: int, size: int) -> list[str]:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Gloo logs what it refuses
    gloo, ours = (wrong(group) for group in both())
    different = []
    for name, call in ours.items():
        (expected, why), (got, text) = kind(gloo[name]), kind(call)
        if expected is type(None) or not issubclass(got, expected):
            different.append(f"{name}: {got.__mro__[:-1]} {text}, on Gloo {expected.__name__} {why.splitlines()[:1]}")
    dist.all_reduce(torch.ones(1), group=both()[1])
    return different


def test_a_wrong_call_raises_the_type_of_error_that_gloo_raises(tmp_path: Path) -> None:
    for different in torch_ranks.ranks(3, check_types, tmp_path):
        assert not different, "\n".join(different)
