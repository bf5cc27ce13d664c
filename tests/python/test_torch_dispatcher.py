"""Modes, the profiler and classes of tensors see calls of our groups in torch's dispatcher, as they see Gloo's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rankmesh.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402
from torch.distributed import distributed_c10d as c10d  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

SIZE = 2
BACKENDS = ["gloo", "rankmesh", "rankmesh+gloo"]
Call = Callable[[Any], Any]


def groups() -> dict[str, Any]:
    return {backend: dist.new_group(backend=backend) for backend in BACKENDS}


class Seen(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the names of c10d's operators that a mode sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call.namespace in ("c10d", "_c10d_functional"):
            self.names.append(str(call))
        return call(*args, **(kwargs or {}))


def parts(rank: int, size: int) -> list[Any]:
    return [torch.arange(3.0) + 10 * rank + 100 * i for i in range(size)]


def calls(rank: int, size: int) -> dict[str, Call]:
    """Calls of torch.distributed by a group; each returns the tensors that it has written."""
    mine, whole = torch.arange(3.0) + 10 * rank, torch.cat(parts(rank, size))

    def into(*shape: int) -> Any:
        return torch.zeros(shape)

    def written(into: Any, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        work = call(*args, **options)
        if options.get("async_op"):
            assert work.wait()
            assert work.is_completed()
            assert work.is_success()
        return into

    def list_of() -> list[Any]:
        return [into(3) for _ in range(size)]

    def message(group: Any) -> Any:
        x = mine.clone() if rank == 0 else into(3)
        dist.send(x, 1, group) if rank == 0 else dist.recv(x, 0, group)
        return x

    def batch(group: Any) -> Any:
        x = into(3)
        ops = [dist.P2POp(dist.isend, mine, 1 - rank, group), dist.P2POp(dist.irecv, x, 1 - rank, group)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return x

    def coalesced(group: Any) -> Any:
        x = [mine.clone(), whole.clone()]
        with c10d._coalescing_manager(group):
            for each in x:
                dist.all_reduce(each, group=group)
        return x

    def objects(group: Any) -> Any:
        found: list[Any] = [None] * size
        dist.all_gather_object(found, {"rank": rank}, group)
        return torch.tensor([each["rank"] for each in found])

    return {
        "all_reduce": lambda group: (x := mine.clone(), dist.all_reduce(x, group=group))[0],
        "all_reduce, async": lambda g: written(x := mine.clone(), dist.all_reduce, x, group=g, async_op=True),
        "coalesced": coalesced,
        "reduce": lambda group: (
            (x := mine.clone(), dist.reduce(x, 0, group=group))[0]
            if rank == 0
            else None or dist.reduce(mine.clone(), 0, group=group)
        ),
        "broadcast": lambda group: (x := mine.clone(), dist.broadcast(x, 1, group))[0],
        "all_gather": lambda group: written(x := list_of(), dist.all_gather, x, mine, group),
        "all_gather_into_tensor": lambda g: written(x := into(3 * size), dist.all_gather_into_tensor, x, mine, g),
        "gather": lambda g: written(x := list_of() if rank == 0 else None, dist.gather, mine, x, 0, g),
        "scatter": lambda g: written(x := into(3), dist.scatter, x, parts(rank, size) if rank == 0 else None, 0, g),
        "reduce_scatter": lambda group: written(x := into(3), dist.reduce_scatter, x, parts(rank, size), group=group),
        "reduce_scatter_tensor": lambda g: written(x := into(3), dist.reduce_scatter_tensor, x, whole, group=g),
        "all_to_all": lambda group: written(x := list_of(), dist.all_to_all, x, parts(rank, size), group),
        "all_to_all_single": lambda g: written(x := into(3 * size), dist.all_to_all_single, x, whole, None, None, g),
        "all_to_all_single, uneven": lambda g: written(
            x := into(2 * (rank + 1)), dist.all_to_all_single, x, mine, [rank + 1] * size, [1, 2], g
        ),
        "barrier": lambda group: dist.barrier(group),
        "messages": message,
        "batch": batch,
        "objects": objects,
    }


def functional(rank: int, size: int) -> dict[str, Call]:
    """Functional collectives by the name of a group, as compiled functions call them."""
    ops: Any = torch.ops._c10d_functional
    mine = torch.arange(4.0) + 10 * rank
    both = [mine, mine.repeat(2)]
    cases: dict[str, Call] = {
        "all_gather_into_tensor": lambda name: ops.all_gather_into_tensor(mine, size, name),
        "all_gather_into_tensor_coalesced": lambda name: ops.all_gather_into_tensor_coalesced(both, size, name),
        "all_gather_into_tensor_out": lambda name: ops.all_gather_into_tensor_out(mine, size, name, out=mine.repeat(2)),
        "all_reduce": lambda name: ops.all_reduce(mine, "sum", name),
        "all_reduce_": lambda name: ops.all_reduce_(mine.clone(), "max", name),
        "all_reduce_coalesced": lambda name: ops.all_reduce_coalesced(both, "sum", name),
        "all_reduce_coalesced_": lambda name: ops.all_reduce_coalesced_([x.clone() for x in both], "sum", name),
        "all_to_all_single": lambda name: ops.all_to_all_single(mine, [2] * size, [2] * size, name),
        "broadcast": lambda name: ops.broadcast(mine, 1, name),
        "broadcast_": lambda name: ops.broadcast_(mine.clone(), 1, name),
        "reduce_scatter_tensor": lambda name: ops.reduce_scatter_tensor(mine, "sum", size, name),
        "reduce_scatter_tensor_coalesced": lambda name: ops.reduce_scatter_tensor_coalesced(both, "sum", size, name),
        "reduce_scatter_tensor_out": lambda n: ops.reduce_scatter_tensor_out(
            mine, "sum", size, n, out=mine[:2].clone()
        ),
        "isend": lambda name: (ops.isend if rank == 0 else ops.irecv)(mine.clone(), 1 - rank, 3, name)[:0],
        "batch_p2p_ops": lambda name: ops.batch_p2p_ops(
            ["isend", "irecv"], [1 - rank] * 2, [0, 0], [mine, torch.empty(4)], name
        ),
    }
    return {name: case for name, case in cases.items() if hasattr(ops, name)}


def lists(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [lists(each) for each in found]
    return found.tolist() if isinstance(found, torch.Tensor) else found


@contextlib.contextmanager
def by_mode() -> Iterator[Callable[[], list[str]]]:
    with Seen() as seen:
        yield lambda: seen.names


@contextlib.contextmanager
def by_profiler() -> Iterator[Callable[[], list[str]]]:
    with torch.profiler.profile() as profile:
        yield lambda: [each.name for each in profile.events() if each.name.startswith("c10d::")]


@contextlib.contextmanager
def by_nothing() -> Iterator[Callable[[], list[str]]]:
    yield list


def check_watched(rank: int, size: int) -> None:
    by_name = groups()
    for name, call in calls(rank, size).items():
        expected = lists(call(by_name["gloo"]))
        for watch in (by_nothing, by_mode, by_profiler):
            seen: dict[str, list[str]] = {}
            for backend, group in by_name.items():
                with watch() as names:
                    assert lists(call(group)) == expected, (name, backend, watch)
                seen[backend] = names()
            assert seen["rankmesh"] == seen["rankmesh+gloo"] == seen["gloo"], (name, watch)
            assert bool(seen["gloo"]) == (watch is not by_nothing), (name, watch)


def check_functional(rank: int, size: int) -> None:
    by_name, wait = groups(), torch.ops._c10d_functional.wait_tensor
    for name, call in functional(rank, size).items():
        for watch in (by_nothing, by_mode, by_profiler):
            seen, found = {}, {}
            for backend, group in by_name.items():
                with watch() as names:
                    got = call(group.group_name)
                    found[backend] = lists([wait(each) for each in got] if isinstance(got, list) else wait(got))
                seen[backend] = [each for each in names() if not each.startswith("c10d")]
            assert found["rankmesh"] == found["rankmesh+gloo"] == found["gloo"], (name, watch)
            assert seen["rankmesh"] == seen["rankmesh+gloo"] == seen["gloo"], (name, watch)


def check_tensors_without_memory(rank: int, size: int) -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    by_name = groups()
    for backend in BACKENDS:
        with FakeTensorMode():
            x = torch.ones(2)
            dist.all_reduce(x, group=by_name[backend])
            assert type(x) is FakeTensor
            work = dist.all_gather_into_tensor(torch.empty(4), x, by_name[backend], async_op=True)
            work.wait()
        on_meta = torch.ones(2, device="meta")
        dist.all_reduce(on_meta, group=by_name[backend])
    if rank == 0:  # nothing was sent: the other rank makes no call
        with FakeTensorMode():
            dist.broadcast(torch.ones(2), 0, by_name["rankmesh"])


def check_classes_of_tensors(rank: int, size: int) -> None:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce

    class Wrapped(torch.Tensor):
        inner: Any

        @staticmethod
        def __new__(cls: Any, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            plain = torch.utils._pytree.tree_map_only(Wrapped, lambda each: each.inner, args)
            return call(*plain, **(kwargs or {}))

    for backend, group in groups().items():
        x = torch.ones(2)
        dist.all_reduce(Wrapped(x), group=group)
        assert x.tolist() == [size] * 2, backend
        later = all_reduce(torch.ones(2), "sum", group)
        assert isinstance(later, AsyncCollectiveTensor)
        dist.all_reduce(later, group=group)
        assert later.tolist() == [size * size] * 2, backend
        parameter = torch.nn.Parameter(torch.ones(2))
        dist.all_reduce(parameter.data, group=group)
        assert parameter.tolist() == [size] * 2, backend


def check_works_of_graph_inputs(rank: int, size: int) -> None:
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx

    for backend, group in groups().items():
        x = torch.ones(1 << 20)
        with allow_inflight_collective_as_graph_input_ctx():
            dist.all_reduce(x, group=group, async_op=True)  # the Work is dropped
        torch.ops._c10d_functional.wait_tensor(x)
        assert bool((x == size).all()), backend


def check_other_groups(rank: int, size: int) -> None:
    by_name = groups()
    with Seen():
        dist.barrier(group=by_name["rankmesh"])  # our kernels are there from now on
        for _ in range(2000):  # Gloo's threads free the tensors, for which they want the GIL
            dist.all_reduce(torch.ones(3), group=by_name["gloo"], async_op=True)
        into, given = [torch.empty(2 * size), torch.empty(3 * size)], [torch.ones(2) + rank, torch.ones(3) + rank]
        with c10d._coalescing_manager(by_name["gloo"]):
            for each, x in zip(into, given, strict=True):
                dist.all_gather_into_tensor(each, x, by_name["gloo"])
        assert [each.tolist() for each in into] == [[1.0] * n + [2.0] * n for n in (2, 3)]
        out = torch.ones(size)
        dist.all_reduce(out, group=by_name["gloo"])
        assert out.tolist() == [size] * size


def check_compiled(rank: int, size: int) -> None:
    by_name, of_all = groups(), calls(rank, size)
    for name in ("all_reduce, async", "scatter", "messages", "objects"):  # a call takes seconds
        call, outcomes = of_all[name], {}
        for backend, group in by_name.items():
            torch._dynamo.reset()
            try:
                outcomes[backend] = lists(torch.compile(call, backend="eager")(group))
            except Exception as error:
                outcomes[backend] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        assert outcomes["rankmesh"] == outcomes["rankmesh+gloo"] == outcomes["gloo"], (name, outcomes)


def check_names(rank: int, size: int) -> None:
    for backend in (*BACKENDS, "cpu:rankmesh"):
        group = dist.new_group(backend=backend)
        assert dist.get_backend(group) == backend
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), process_group=group)
        assert model._get_ddp_logging_data()["backend_name"] == backend
        with pytest.raises(ValueError, match="Invalid ``p2p_op_list``"):
            dist.batch_isend_irecv([1, 2])  # type: ignore[list-item]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "program",
    [
        check_watched,
        check_functional,
        check_tensors_without_memory,
        check_classes_of_tensors,
        check_works_of_graph_inputs,
        check_other_groups,
        check_compiled,
        check_names,
    ],
    ids=lambda program: program.__name__[6:],
)
def test_our_groups_behind_the_dispatcher(program: Callable[..., None], tmp_path: Path) -> None:
    torch_ranks.ranks(SIZE, program, tmp_path)


# --- regions that are begun and not ended


def check_regions(rank: int, size: int) -> None:
    from torch.distributed.distributed_c10d import _coalescing_manager

    cpu = torch.device("cpu")

    class Stop(Exception):
        pass

    def stop(group: Any) -> None:
        raise Stop

    def reduce(group: Any, x: Any = None) -> None:
        dist.all_reduce(torch.ones(3) if x is None else x, group=group)

    def gather(group: Any) -> None:
        dist.all_gather_into_tensor(torch.ones(6), torch.ones(3), group)

    def wrong(group: Any) -> None:
        reduce(group, "no tensor")

    def coalesce(group: Any, device: Any, inside: list[Call]) -> None:
        with _coalescing_manager(group, device, async_ops=True):
            for call in inside:
                call(group)

    regions: list[tuple[Any, list[Call], type[Exception], str]] = [
        (cpu, [reduce], RuntimeError, "startCoalescing"),
        (None, [stop], Stop, ""),
        (None, [reduce, stop], Stop, ""),
        (None, [gather, reduce, stop], Stop, ""),
        (None, [reduce, gather], RuntimeError, "same type"),
        (None, [reduce, wrong], TypeError, "tensor"),
    ]
    for backend, group in groups().items():
        for device, inside, error, match in regions:
            with pytest.raises(error, match=match):
                coalesce(group, device, inside)
            assert not c10d._world.pg_coalesce_state, (backend, match)
            for each in (group, dist.group.WORLD):
                x = torch.ones(3)
                reduce(each, x)
                assert x.tolist() == [size] * 3, (backend, match)
        x = torch.ones(3)
        with _coalescing_manager(group, async_ops=True) as manager:
            dist.all_reduce(x, group=group)
        manager.wait()
        assert x.tolist() == [size] * 3


@pytest.mark.filterwarnings("ignore")
def test_no_region_outlives_what_raises_in_it(tmp_path: Path) -> None:
    torch_ranks.ranks(SIZE, check_regions, tmp_path)


@pytest.mark.parametrize("backend", ["cpu:rankmesh,cuda:fake", "rankmesh+fake"])
def test_a_region_of_a_device_ends_when_something_raises_in_it(backend: str) -> None:
    from torch.testing._internal.distributed import fake_pg  # noqa: F401 (registers the backend 'fake')

    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    said: list[str] = []
    device = torch.device("cuda")
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_start_coalescing", "_end_coalescing"):
                patch.setattr(dist.ProcessGroup, name, lambda self, on, name=name: said.append(name))
            with pytest.raises(KeyError), c10d._coalescing_manager(device=device):
                raise KeyError
        assert said == ["_start_coalescing", "_end_coalescing"]
        assert not c10d._world.pg_coalesce_state
    finally:
        dist.destroy_process_group()


def test_a_refused_region_says_what_to_do() -> None:
    dist.init_process_group("cpu:rankmesh", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with (
            pytest.raises(RuntimeError, match="leave out the device of _coalescing_manager"),
            c10d._coalescing_manager(device=torch.device("cpu")),
        ):
            pass
    finally:
        dist.destroy_process_group()
    assert rankmesh.torch.backend.NAME == "rankmesh"
