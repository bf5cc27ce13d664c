"""rankmesh.torch.init_device_mesh and install: torch's own meshes are the truth, on processes over Gloo."""

from __future__ import annotations

import datetime
import gc
import itertools
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Disagreement, Timeout, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch as rt  # noqa: E402
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import _device_mesh, _groups, _init_device_mesh, _start  # noqa: E402
from torch.distributed import _mesh_layout  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch_ranks import NewGroups, fake_world, free_port, preload, ranks  # noqa: E402

preload("torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch._dynamo")

NAMES = ("a", "b", "c", "d")


@pytest.fixture(autouse=True)
def not_installed_after() -> Iterator[None]:
    """No test of this process leaves rankmesh's functions in torch."""
    yield
    rt.uninstall()


def parts_of(mesh: DeviceMesh) -> Iterator[tuple[str, DeviceMesh]]:
    """Every slice of a mesh, the flattened slices, each dimension in two, and the slices put together again."""
    names = mesh.mesh_dim_names
    yield "all", mesh
    slices = [axes for n in range(1, mesh.ndim + 1) for axes in itertools.combinations(names, n)]
    for axes in slices:
        yield f"{axes}", mesh[axes]
        if len(axes) > 1:
            yield f"flat {axes}", mesh[axes]._flatten()
    for dim, size in enumerate(mesh.shape):
        for outer in (n for n in range(1, size + 1) if size % n == 0):
            whole = mesh._unflatten(dim, (outer, size // outer), ("x", "y"))
            yield f"{dim} in {outer}", whole
            yield f"{dim} in {outer}, flat", whole["x", "y"]._flatten(f"xy{dim}{outer}")
    for left, right in itertools.permutations(names, 2):
        both = DeviceMesh._concatenate([mesh[left], mesh[right]])
        yield f"{left} and {right}", both
        yield f"{left} and {right}, flat", both._flatten(f"{left}{right} flat")


def answers(mesh: DeviceMesh) -> Any:
    """What a mesh says of this rank; all that a program can ask of its groups."""
    dims = range(mesh.ndim)
    return (
        mesh.shape,
        mesh.mesh_dim_names,
        mesh.mesh.tolist() if mesh.get_coordinate() is not None else None,
        mesh.get_coordinate(),
        [dist.get_process_group_ranks(mesh.get_group(dim)) for dim in dims] if mesh.get_coordinate() else None,
        [mesh.get_local_rank(dim) for dim in dims] if mesh.get_coordinate() else None,
        [mesh.get_group(dim).group_desc for dim in dims] if mesh.get_coordinate() and mesh.size() > 1 else None,
        hash(mesh),
        repr(mesh),
    )


def without_shared(said: Any) -> Any:
    """Without the descriptions: a shared group has that of the mesh that created it."""
    return said[:6] + said[7:]


def questions(mesh: DeviceMesh) -> dict[str, Any]:
    return {name: without_shared(answers(part)) for name, part in parts_of(mesh)}


SHAPES = [(4,), (2, 2), (1, 4), (4, 1), (2, 1, 2), (1, 2, 2, 1), (2,), (1, 2), (3,)]
PLACED = [[[1, 0], [3, 2]], [[0, 2], [1, 3]], [3, 1], [[2], [0]]]


def same_as_torch(rank: int, size: int) -> list[tuple[int, int]]:
    counts = []
    makers: list[Any] = [
        (lambda init, shape=shape: init("cpu", shape, mesh_dim_names=NAMES[: len(shape)])) for shape in SHAPES
    ]
    for places in PLACED:
        dims = torch.tensor(places).ndim
        makers.append(lambda init, p=places, n=dims: DeviceMesh("cpu", torch.tensor(p), mesh_dim_names=NAMES[:n]))
    for number, make in enumerate(makers):
        with NewGroups() as theirs:
            expected = make(init_device_mesh)
            inside = expected.get_coordinate() is not None
            if number < len(SHAPES) or inside:
                said = questions(expected) if number < 6 else without_shared(answers(expected))
        installed = number % 2 == 1 or number >= len(SHAPES)
        with NewGroups() as ours, rt.install() if installed else NewGroups():
            mesh = make(init_device_mesh if installed else rt.init_device_mesh)
            assert mesh == expected
            if number < len(SHAPES) or inside:
                assert (questions(mesh) if number < 6 else without_shared(answers(mesh))) == said
        counts.append((len(ours), len(theirs)))
        own = {tuple(call) for call in theirs if rank in call}
        assert all(rank in call for call in ours)
        assert len(ours) <= len(own)
        for part in [mesh] if inside else []:
            for dim in range(part.ndim):
                total = torch.tensor([float(rank)])
                dist.all_reduce(total, group=part.get_group(dim))
                assert total.item() == sum(dist.get_process_group_ranks(part.get_group(dim)))
    dist.barrier()
    return counts


def test_meshes_say_what_torchs_say_with_fewer_groups(tmp_path: Path) -> None:
    for counts in ranks(4, same_as_torch, tmp_path):
        assert all(ours <= theirs for ours, theirs in counts)
        assert sum(ours for ours, _ in counts) * 3 < sum(theirs for _, theirs in counts)


@pytest.mark.parametrize("seed", range(4))
def test_any_rank_of_a_large_mesh_has_torchs_groups(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(3):
        shape = tuple(chance.choice([1, 2, 3, 4]) for _ in range(chance.randint(1, 4)))
        size = math.prod(shape)
        with fake_world(chance.randrange(size), size):
            expected = questions(init_device_mesh("cpu", shape, mesh_dim_names=NAMES[: len(shape)]))
            with NewGroups() as calls:
                assert questions(rt.init_device_mesh("cpu", shape, mesh_dim_names=NAMES[: len(shape)])) == expected
            assert len({tuple(call) for call in calls}) == len(calls)


# --- sharing and options


def shares(rank: int, size: int) -> None:
    rt.install()
    one = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with NewGroups() as calls:
        other = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("x", "y"))
        world = DeviceMesh("cpu", list(range(4)))
        split = world_of(world)._unflatten(0, (2, 1, 2), ("dp", "cp", "tp"))
        flat = split["cp", "tp"]._flatten()
    assert calls == [[rank]]  # the dimension of size 1
    assert other.get_group("y") is one.get_group("tp") is split.get_group("tp") is flat.get_group()
    assert split.get_group("dp") is one.get_group("dp")
    assert world.get_group() is dist.group.WORLD
    assert one.get_group("tp").group_desc == "mesh_tp"

    slow = dist.ProcessGroupGloo._Options()
    slow._timeout = datetime.timedelta(seconds=7)
    override = {"a": "gloo", "b": ("gloo", slow)}
    wanted = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), backend_override=dict(override))
    again = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), backend_override=dict(override))
    assert wanted.get_group("a") is not one.get_group("dp")  # a program may want one apart
    assert wanted.get_group("b") is again.get_group("b") is not one.get_group("tp")
    timeout = wanted.get_group("b")._get_backend(torch.device("cpu")).options._timeout
    assert timeout == datetime.timedelta(seconds=7)

    dist.barrier()
    dist.destroy_process_group(one.get_group("tp"))
    new = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    total = torch.ones(1)
    dist.all_reduce(total, group=new.get_group("tp"))
    assert total.item() == 2
    dist.barrier()


def world_of(mesh: DeviceMesh) -> DeviceMesh:
    return DeviceMesh.from_group(mesh.get_group(), "cpu", mesh_dim_names=("world",))


def test_equal_ranks_and_options_share_one_group(tmp_path: Path) -> None:
    ranks(4, shares, tmp_path)


def members_only(rank: int, size: int) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("the ranks compare a mesh that needs no group")

    adopt, _start.adopt = _start.adopt, refused
    rt.init_device_mesh("cpu", (4,))
    with rt.install():
        DeviceMesh("cpu", [0, 1, 2, 3])
        if rank in (0, 2):
            DeviceMesh("cpu", [[1, 3]])  # this rank is outside
    _start.adopt = adopt
    with rt.install():
        if rank in (1, 3):  # the others make nothing and need not call it
            part = DeviceMesh("cpu", [[1, 3]], mesh_dim_names=("a", "b"))
            assert dist.get_process_group_ranks(part.get_group("b")) == [1, 3]
            total = torch.ones(1)
            dist.all_reduce(total, group=part.get_group("b"))
            assert total.item() == 2
    whole = rt.init_device_mesh("cpu", (2, 2))
    assert dist.get_process_group_ranks(whole.get_group(1))[rank % 2] == rank
    dist.barrier()


def test_only_ranks_of_a_mesh_compare_and_only_for_groups(tmp_path: Path) -> None:
    ranks(4, members_only, tmp_path)


def under_an_agent(rank: int, size: int) -> None:
    """torchrun's agent keeps the store over restarts: rank 0 tells the others the id of this start."""
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    earlier = dist.PrefixStore("rankmesh 1", dist.distributed_c10d._get_default_store())
    of_part = dist.PrefixStore(f"rankmesh 1 among {_start.digest([1, 2])}", earlier.underlying_store)
    for store in (earlier, of_part):
        store.set("outcome", "late 1 2")  # the start before this failed
    dist.barrier()
    with rt.install():
        if rank in (1, 2):  # rank 0 is outside: nobody knows the id yet, and nothing can be compared
            part = DeviceMesh("cpu", [[1, 2]])
            assert dist.get_process_group_ranks(part.get_group(1)) == [1, 2]
        for _ in range(2):
            mesh = init_device_mesh("cpu", (2, 2))
        assert dist.get_process_group_ranks(mesh.get_group(0)) == [rank % 2, rank % 2 + 2]
        if rank in (1, 2):
            with pytest.raises(Disagreement):
                DeviceMesh("cpu", [[1, 2]], mesh_dim_names=("a", "b") if rank == 1 else ("b", "a"))
    dist.barrier()


def test_meshes_under_torchruns_agent_are_compared(tmp_path: Path) -> None:
    ranks(4, under_an_agent, tmp_path)


# --- what differs, and who is missing


def of_the_document(rank: int, size: int) -> list[int]:
    import rankmesh.torch

    rankmesh.torch.install()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.barrier()
    return dist.get_process_group_ranks(mesh.get_group("tp"))


def test_the_example_of_the_document(tmp_path: Path) -> None:
    assert ranks(4, of_the_document, tmp_path) == [[0, 1], [0, 1], [2, 3], [2, 3]]


def told_of_differences(rank: int, size: int) -> list[str]:
    texts = []
    last = rank == 3
    two = torch.tensor([[0, 1], [2, 3]])
    wrong = [
        lambda: rt.init_device_mesh("cpu", (4, 1) if last else (2, 2), mesh_dim_names=("dp", "tp")),
        lambda: rt.init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp") if last else ("dp", "tp")),
        lambda: rt.init_device_mesh("cpu", (2, 2), backend_override={1: "gloo"} if last else None),
        lambda: DeviceMesh("cpu", two.t() if last else two),
    ]
    mesh = rt.init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("dp", "cp", "tp"))
    wrong += [
        lambda: mesh["cp", "tp"]._flatten() if last else mesh["dp", "cp"]._flatten(),
        lambda: mesh._unflatten(0, (1, 2) if last else (2, 1), ("a", "b")),
    ]
    for call in wrong:
        with rt.install(), pytest.raises(Disagreement) as caught:
            call()
        assert caught.value.ranks == [3]
        texts.append(str(caught.value))
    assert rt.init_device_mesh("cpu", (2, 2)).get_group(0).size() == 2  # and the world goes on
    dist.barrier()
    return texts


def test_meshes_that_differ_raise_on_every_rank(tmp_path: Path) -> None:
    told = ranks(4, told_of_differences, tmp_path)
    assert told == told[:1] * 4
    head = "the ranks join different plans; every rank must declare the same:"
    said = [
        ("DeviceMesh dp=2 tp=2", "DeviceMesh dp=4 tp=1"),
        ("DeviceMesh dp=2 tp=2", "DeviceMesh tp=2 dp=2"),
        ("DeviceMesh dim_0=2 dim_1=2", "DeviceMesh dim_0=2 dim_1=2, dim_1 on gloo"),
        ("DeviceMesh dim_0=2 dim_1=2", "DeviceMesh dim_0=2 dim_1=2, ranks {0, 2, 1, 3}"),
        ("DeviceMesh dp_cp=2, stride (2)", "DeviceMesh cp_tp=2"),
        ("DeviceMesh a=2 b=1, stride (2, 0)", "DeviceMesh a=1 b=2, stride (0, 2)"),
    ]
    for text, (most, other) in zip(told[0], said, strict=True):
        assert text == f"{head}\n  ranks {{0..2}}: {most}\n  rank 3: {other}"


def one_is_missing(rank: int, size: int, store: str) -> str:
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=1),
    )
    if rank == 2:
        return ""
    with pytest.raises(Timeout) as caught:
        rt.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert (caught.value.arrived, caught.value.missing) == ([0, 1, 3], [2])
    return str(caught.value)


def test_a_missing_rank_is_named_with_its_coordinates(tmp_path: Path) -> None:
    texts = ranks(4, one_is_missing, tmp_path, str(tmp_path / "own"), initialised=False)
    for rank in (0, 1, 3):
        assert texts[rank] == (
            f"the timeout of 1 s expired in DeviceMesh on rank {rank}: arrived ranks {{0, 1, 3}}, missing rank 2; "
            "in mesh dp=2 tp=2 that is rank 2 [dp=1 tp=0]"
        )


def starts_by_environment(rank: int, size: int, environment: dict[str, str]) -> tuple[str, bool]:
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
    with rt.install():
        try:
            mesh = init_device_mesh("cpu", (2, 2) if rank or "RIGHT" in environment else (1, 4))
        except Disagreement as error:
            return str(error), dist.is_initialized()
    total = torch.ones(1)
    dist.all_reduce(total, group=mesh.get_group(1))
    dist.barrier()
    return str(total.item()), dist.is_initialized()


def test_ranks_compare_before_torch_is_initialised(tmp_path: Path) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for text, initialised in ranks(4, starts_by_environment, tmp_path, where, initialised=False):
        assert text.endswith("ranks {1..3}: DeviceMesh dim_0=2 dim_1=2\n  rank 0: DeviceMesh dim_0=1 dim_1=4")
        assert not initialised
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "RIGHT": "1"}
    assert ranks(4, starts_by_environment, tmp_path, where, initialised=False) == [("2.0", True)] * 4


# --- install and uninstall


def torchs_functions() -> list[Any]:
    return [vars(DeviceMesh)[name] for name in ("_init_process_groups", "_setup_world_group_and_device")]


def made_by_members() -> bool:
    with NewGroups() as calls:
        DeviceMesh("cpu", torch.arange(4).reshape(2, 2))
    return all(1 in call for call in calls)


def test_install_and_uninstall_do_so_once() -> None:
    gc.collect()  # meshes of other tests, for whose submeshes our functions would stay
    rt.uninstall()
    before = torchs_functions()
    assert all(function.__module__ == "torch.distributed.device_mesh" for function in before)
    rt.uninstall()
    assert torchs_functions() == before
    with fake_world(1, 4):
        assert not made_by_members()
        rt.install()
        there = torchs_functions()
        rt.install()
        assert torchs_functions() == there != before
        assert made_by_members()
        with rt.install():  # the program has it already
            pass
        assert made_by_members()
        rt.uninstall()
        assert torchs_functions() == before
        assert not made_by_members()
        with pytest.raises(ZeroDivisionError), rt.install():
            _ = 1 / 0
        assert torchs_functions() == before


def test_uninstall_leaves_meshes_of_init_device_mesh() -> None:
    with fake_world(1, 8):
        mesh = rt.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
        rt.install()
        rt.uninstall()
        with NewGroups() as calls:
            mesh["dp", "tp"]._flatten()
            mesh._unflatten(0, (1, 2), ("x", "y"))
        assert calls == [[0, 1, 4, 5], [1]]
        assert not made_by_members()


def test_another_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_init_device_mesh, "_torchs", {})
    monkeypatch.setattr(DeviceMesh, "_init_process_groups", lambda self, options: None)
    for call in (rt.install, lambda: rt.init_device_mesh("cpu", (1,))):
        with pytest.raises(UsageError, match=r"changes how PyTorch 2\.13's DeviceMesh creates groups, which PyTorch"):
            call()


def test_a_torch_with_other_layouts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_init_device_mesh, "_torchs", {})
    monkeypatch.delattr(_mesh_layout, "_FlatLayout", raising=False)  # which PyTorch 2.11 does not have
    for call in (rt.install, lambda: rt.init_device_mesh("cpu", (1,))):
        with pytest.raises(UsageError, match=r"changes how PyTorch 2\.13's DeviceMesh creates groups, which PyTorch"):
            call()
    with pytest.raises(UsageError) as caught:
        _device_mesh._layouts()
    assert str(caught.value) == (
        f"a DeviceMesh with groups of several axes requires PyTorch 2.13 or later, and this is {torch.__version__}; "
        "call device_mesh() of a mesh without them, and group('dp', 'cp') for such a group"
    )


def test_torch_makes_what_members_alone_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_world(1, 4):
        rt.install()
        with pytest.raises(ValueError, match="must not contain duplicate entries"):
            DeviceMesh("cpu", [[0, 1], [2, 1]])
        with pytest.raises(ValueError, match="Rank 7 is out of range"):
            DeviceMesh("cpu", [[0, 1], [2, 7]])
        with NewGroups() as calls:
            monkeypatch.setattr(dist, "get_backend", lambda group=None: "mpi")  # it has no group by members only
            init_device_mesh("cpu", (2, 2))
        assert sorted(calls) == [[0, 1], [0, 2], [1, 3], [2, 3]]


def test_groups_are_split_as_torch_splits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[str] = []
    of_torch = DeviceMesh._init_one_process_group

    def splits(axis: Any, rank_map: Any, name: str, override: Any) -> Any:
        split.append(name)
        return of_torch(axis, rank_map, name, override)

    monkeypatch.setattr(_groups, "can_split", lambda backend: backend != "fake")
    monkeypatch.setattr(DeviceMesh, "_init_one_process_group", staticmethod(splits))
    for rank in (0, 3):
        split.clear()
        with fake_world(rank, 4), rt.install():
            init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
            assert split == ["dp", "tp"]
            init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), backend_override={"a": "fake"})
            DeviceMesh("cpu", [0, 1])  # torch has every rank split, and rank 3, which is outside, knows no group
            DeviceMesh("cpu", [0, 1])
        assert split == ["dp", "tp", "dim_0", "dim_0"]


# --- what is built on meshes


def losses(rank: int, size: int, installed: bool) -> list[float]:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if installed:
        rt.install()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    adam = torch.optim.SGD(model.parameters(), lr=0.1)
    said = []
    for step in range(3):
        inputs = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).chunk(2)[mesh.get_local_rank("dp")]
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        adam.step()
        adam.zero_grad()
        dist.all_reduce(loss, group=mesh["dp", "tp"]._flatten("all").get_group())
        said.append(loss.item())

    whole = torch.arange(60.0).reshape(6, 10)
    spread = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    assert torch.equal(spread.redistribute(mesh, [Shard(1), Replicate()]).full_tensor(), whole)
    sums = DTensor.from_local(torch.ones(2), mesh, [Partial(), Partial()])
    assert torch.equal(sums.full_tensor(), torch.full((2,), 4.0))
    dist.barrier()
    return said


def test_fsdp_tensor_parallel_and_dtensor_train_alike(tmp_path: Path) -> None:
    with_torchs, with_ours = (ranks(4, losses, tmp_path, installed) for installed in (False, True))
    assert with_torchs == with_ours
    assert with_ours[0][-1] < with_ours[0][0]


def test_names_are_those_of_the_package() -> None:
    assert rankmesh.torch is rt
    for name in rt.__all__:
        assert getattr(rt, name).__name__.removeprefix("rankmesh.torch.") == name
    with pytest.raises(AttributeError, match="has no attribute 'to_devicemesh'"):
        _ = rt.to_devicemesh
