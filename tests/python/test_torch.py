"""rankmesh.torch: process groups and device meshes of torch for a plan, on processes over Gloo."""

from __future__ import annotations

import datetime
import inspect
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Declaration, Disagreement, Mesh, Pick, Placement, Timeout, UsageError
from rankmesh._core import make_blueprint

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import Axes, _agree, _compat, _groups, _plan, _plan_groups, init  # noqa: E402
from torch_ranks import Counting, NewGroups, example, fake_world, free_port, preload, ranks  # noqa: E402

preload("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.checkpoint", "torch._dynamo")


def every_set(mesh: Mesh) -> list[tuple[str, ...]]:
    return [axes for n in range(2, len(mesh.axes) + 1) for axes in itertools.combinations(mesh.axes, n)]


# --- groups

MESHES: dict[int, list[Declaration]] = {
    1: [Declaration("dp=1 tp=1")],
    2: [Declaration("dp=* tp=1"), Declaration("tp=2", placed=[1, 0])],
    6: [
        Declaration("pp=3 dp=* tp=1"),
        Declaration("b=2:1 a=3:2"),
        Declaration("x=2:1 y=2:3 @1", partial=True),
        Declaration("x=2 y=2", placed=[5, 0, 3, 2], partial=True),
    ],
    8: [
        Declaration("dp=2 cp=2 tp=2"),
        Declaration("c=2:1 a=2:4 b=2:2"),
        Declaration("x=2:1 y=4:2"),
        Declaration("dp=2 tp=2 @3", partial=True),
        Declaration("dp=2 cp=2 tp=2", placed=[7, 2, 5, 0, 1, 6, 4, 3]),
        Declaration(Mesh("pp=2 dp=2 tp=2").flatten("pp", "tp", into="mp").text),
    ],
}


def check_groups(rank: int, size: int) -> None:
    for given in MESHES[size]:
        mesh = make_blueprint([given], size)[0].mesh
        places = Placement(mesh, given.placed) if given.placed else mesh
        declaration = Declaration(mesh, over=every_set(mesh), placed=given.placed, partial=given.partial)
        with NewGroups() as calls:
            me = init(declaration)
        sets = [(axis,) for axis in mesh.axes] + every_set(mesh)
        if rank not in places:
            assert calls == []
            assert not me.inside
            assert me.find("dp" if "dp" in mesh.axes else "x") is None
            with pytest.raises(UsageError, match=f"rank {rank} is outside mesh"):
                _ = me.coord
            dist.barrier()
            me.destroy()
            continue
        expected = {axes: list(places.group(rank, *axes)) for axes in sets}
        everyone = list(range(size))
        assert sorted(calls) == sorted(map(list, {tuple(g) for g in expected.values() if len(g) > 1 and g != everyone}))
        groups = {axes: me.group(*reversed(axes)) for axes in sets}
        for axes, group in groups.items():
            assert (group is dist.group.WORLD) == (expected[axes] == everyone)
            assert dist.get_process_group_ranks(group) == list(me.ranks(*axes)) == expected[axes]
            assert dist.get_rank(group) == expected[axes].index(rank)
            if not given.placed:
                assert expected[axes] == list(mesh.group(rank, *axes))
            total = torch.tensor([float(rank)])
            dist.all_reduce(total, group=group)
            assert total.item() == sum(expected[axes])
            gathered = [torch.zeros(1) for _ in expected[axes]]
            dist.all_gather(gathered, torch.tensor([float(rank)]), group=group)
            assert [int(each) for each in gathered] == expected[axes]
            for other in sets:
                if len(expected[axes]) > 1:
                    assert (groups[other] is group) == (expected[other] == expected[axes])
        assert me.coord == places.coord(rank)
        assert me.rank_at(me.coord) == rank
        for axis in mesh.axes:
            assert me.at(axis) == me.coord[axis]
            assert me.neighbor(axis, 1, "wrap") == places.neighbor(rank, axis, 1, "wrap")
            assert (me.neighbor(axis, -1) is None) == me.is_first(axis)
            assert (me.neighbor(axis, +1) is None) == me.is_last(axis)
        dist.barrier()  # no rank ends groups that others still connect
        me.destroy()
        assert dist.is_initialized()


@pytest.mark.parametrize("size", MESHES)
def test_groups_are_those_of_the_mesh_and_each_rank_makes_its_own_once(size: int, tmp_path: Path) -> None:
    ranks(size, check_groups, tmp_path)


def several_meshes(rank: int, size: int) -> tuple[list[str], int]:
    plan = (
        Declaration(
            "pp=4 dp=1 tp=2",
            name="dense",
            over=[("dp", "tp"), ("tp", "pp"), Axes("tp", separate="gather"), Axes("pp", timeout=7)],
            picks=[Pick("pp", [0, -1], "ends")],
            local="node",
        ),
        Declaration("pp=2 edp=1 ep=4", name="expert"),
        Declaration("late=4:2 @1", name="odd", partial=True, lazy=True),
    )
    with NewGroups() as calls, init(*plan) as me:
        dense, expert = me["dense"], me["expert"]
        assert me.meshes == ["dense", "expert", "odd"]
        assert dense.group("dp", "tp") is dense.group("tp")
        assert dense.group("node") is dense.group("pp", "tp")
        assert dense.group("gather") is not dense.group("tp")
        assert (dense.at("node"), dense.is_last("node")) == (rank, rank == 7)
        assert expert.group("edp") is dense.group("dp")
        assert expert.group("edp").size() == 1
        if rank in (0, 1, 6, 7):
            assert dist.get_process_group_ranks(dense.group("ends")) == [rank % 2, 6 + rank % 2]
            assert dense.find("ends") is dense.group("ends")
        else:
            assert dense.find("ends") is None
            with pytest.raises(UsageError, match=rf"rank {rank} is not in pick 'ends', .* ask find first"):
                dense.group("ends")
        if me["odd"].inside:
            with pytest.raises(UsageError, match=r'is lazy and not made; .* calls prepare\("late"\) first'):
                me["odd"].group("late")
            me["odd"].prepare("late")
            assert dist.get_process_group_ranks(me["odd"].group("late")) == [1, 3, 5, 7]
        # The ranks at the ends have one group more than the others when they make those of the expert mesh.
        for group in (dense.group("pp"), dense.group("gather"), dense.group("node"), expert.group("ep")):
            total = torch.ones(1)
            dist.all_reduce(total, group=group)
            assert total.item() == group.size()
        dist.barrier()
        assert dense.group("pp")._get_backend(torch.device("cpu")).options._timeout == datetime.timedelta(seconds=7)
        descriptions = [expert.group("ep").group_desc, dense.group("gather").group_desc]
    with pytest.raises(UsageError, match="this member was destroyed"):
        dense.group("dp")
    return descriptions, len(calls)


def test_meshes_of_one_plan_share_groups_whatever_a_rank_has_besides(tmp_path: Path) -> None:
    # pp, tp, gather, pp and ep of experts, and this rank alone; at the ends theirs; on odd ranks the lazy one.
    for rank, (descriptions, calls) in enumerate(ranks(8, several_meshes, tmp_path)):
        assert descriptions == ["expert:ep", "dense:gather"]
        assert calls == 6 + (rank in (0, 1, 6, 7)) + rank % 2


def refuse(rank: int, size: int) -> None:
    me = init("dp=2 tp=2", axes=["dp"])
    texts = {
        lambda: me.group("dp", "tp"): "'dp,tp' of mesh dp=2 tp=2 was not declared; "
        'add over=[("dp", "tp")] to the declaration',
        lambda: me.group("tp"): "axis 'tp' of mesh dp=2 tp=2 was declared without a group; add it to axes",
        lambda: me.device_mesh(): "axis 'tp' of mesh dp=2 tp=2 was declared without a group; add it to axes",
        lambda: me.group("pp"): "mesh dp=2 tp=2 has no axis 'pp'; did you mean 'dp'?",
        lambda: me["dense"]: "the plan has no mesh 'dense'; its one mesh has no name",
        lambda: init(): "a plan without meshes; declare at least one",
        lambda: init("dp=2"): "mesh dp=2 covers 2 of the world's 4 ranks; make a size '*', or set partial=True "
        "to leave ranks out",
        lambda: init("dp=8"): "mesh dp=8 needs 8 ranks; the world has 4",
        lambda: init("dp=4 @1"): "mesh dp=4 @1 reaches rank 4; the world has ranks 0..3",
        lambda: init("dp=4", picks=[Pick("dp", [4], "x")]): "pick 'x' asks for index 4 of axis 'dp'; it has -4..3",
        lambda: init("dp=4", picks=[Pick("dp", [0], "dp")]): "the name 'dp' is an axis of mesh dp=4; "
        "choose another name",
        lambda: init("dp=4", over=[()]): "a set of axes of mesh dp=4 is empty; name at least one axis",
        lambda: init(Declaration("dp=4"), over=["dp"]): "the options of a Declaration are its own; give over there",
        lambda: init("dp=4", Declaration("tp=4", name="a")): "mesh dp=4 has no name; each of several meshes needs one: "
        "Declaration(..., name='expert')",
        lambda: init(Declaration("dp=4", name="a"), Declaration("tp=4", name="a")): "two meshes of the plan are named "
        "'a'; give each a name of its own",
        lambda: init("dp=4", over=[Axes("dp", timeout=1), Axes("dp", timeout=2)]): "'dp' of mesh dp=4 was given two "
        "timeouts, 1 s and 2 s",
        lambda: init("dp=4", over=[Axes("dp", backend="gloo"), Axes("dp", backend="nccl")]): "'dp' of mesh dp=4 was "
        "given two of backend: gloo and nccl",
        lambda: init("dp=4", timeout=-1): "the timeout is -1 s; it must be positive and at most 10^9 s",
        lambda: (
            init(Declaration("dp=4", name="a"), Declaration("tp=4", name="b")).mesh
        ): "the plan has 2 meshes ('a', 'b'); say which, as in member['a']",
    }
    for call, text in texts.items():
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == text, caught.value
    assert init("dp=4").group("dp").size() == 4  # and the world goes on


def test_wrong_calls_are_refused_in_words(tmp_path: Path) -> None:
    ranks(4, refuse, tmp_path)


# --- one plan for the engines and for torch

WRONG_PLANS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("dp=8",), {}),
    (("dp=2",), {}),
    (({"dp": "*", "tp": 3},), {}),
    (("dp=4 @1",), {}),
    (("dp=2 dp=2",), {}),
    ((3,), {}),
    (("dp=4",), {"placed": [0, 1, 2, 9]}),
    (("dp=4",), {"placed": [0, 1, 2, 2]}),
    (("dp=4",), {"placed": [0, 1]}),
    (("dp=4",), {"picks": [Pick("dp", [4], "x")]}),
    (("dp=4",), {"picks": [Pick("dp", [], "x")]}),
    (("dp=4",), {"picks": [Pick("tp", [0], "x")]}),
    (("dp=4",), {"picks": [Pick("dp", [0], "dp")]}),
    (("dp=4",), {"picks": [Pick("dp", [0], "x"), Pick("dp", [1], "x")]}),
    (("dp=4",), {"picks": [3]}),
    (("dp=4",), {"local": "dp"}),
    (("dp=4",), {"local": "a b"}),
    (("dp=4",), {"over": [()]}),
    (("dp=4",), {"over": "dp"}),
    (("dp=4",), {"over": 5}),
    (("dp=4",), {"over": [5]}),
    (("dp=4",), {"over": ["tp"]}),
    (("dp=4",), {"over": [Axes("dp", separate="dp")]}),
    (("dp=4",), {"over": [Axes("dp", timeout=1), Axes("dp", timeout=2)]}),
    (("dp=4",), {"over": [Axes("dp", timeout=-1)]}),
    (("dp=4",), {"axes": ["tp"]}),
    (("dp=4",), {"name": "a b"}),
    ((Declaration("dp=4"),), {"over": ["dp"]}),
    (("dp=4", "tp=4"), {}),
    (("dp=4", "tp=4"), {"lazy": True}),
    ((Declaration("dp=4", name="a"), Declaration("tp=4", name="a")), {}),
]


@pytest.mark.parametrize(("plan", "options"), WRONG_PLANS)
def test_wrong_plans_are_refused_as_on_the_engines(plan: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(rankmesh.Error) as on_threads:
        rankmesh.run(4, lambda world: world.join(*plan, **options))
    with pytest.raises(type(on_threads.value)) as on_torch:
        _plan.read(plan, 4, **options)
    assert str(on_torch.value) == str(on_threads.value)


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (("dp=* tp=2",), {"over": [("tp", "dp"), "dp,tp", ("dp", "dp"), Axes("tp", timeout=3)]}),
        (({"dp": 2, "tp": "*"},), {"axes": ["tp"], "local": "node"}),
        (("dp=4",), {"placed": [3, 1, 0, 2], "picks": [Pick("dp", [-1, 0, 0], "ends")]}),
        (("dp=3 @1",), {"partial": True, "over": [Axes("dp", separate="own"), Axes("dp", separate="more")]}),
        ((Declaration("dp=4", name="b"), Declaration("x=2 y=2", name="a", lazy=True)), {}),
    ],
)
def test_groups_are_those_of_the_engines(plan: tuple[Any, ...], options: dict[str, Any]) -> None:
    def joined(world: rankmesh.World) -> dict[str, list[int]]:
        me, found = world.join(*plan, **options), {}
        for mesh in _plan.read(plan, world.size, **options):
            for item in mesh.items:
                expected = mesh.ranks(item, world.rank, ["here"] * world.size)
                there = me[mesh.name]
                assert there.inside == (world.rank in mesh.places)
                if expected is None:
                    assert not there.inside or item.at
                    continue
                found[mesh.label(item)] = list(there.ranks(*([item.name] if item.name else item.axes)))
                assert found[mesh.label(item)] == list(expected)
        return found

    assert any(rankmesh.run(4, joined))


# --- agreement


def disagree(rank: int, size: int, initialised: bool, store: str) -> list[tuple[str, list[int]]]:
    where: dict[str, Any] = {} if initialised else {"store": dist.FileStore(store, size), "rank": rank, "world_size": 5}
    heard = []
    for mesh in ("tp=5" if rank == 2 else "dp=* tp=1", "dp=2" if rank == 1 else "dp=*"):
        with pytest.raises(Disagreement) as caught, NewGroups() as calls:
            init(mesh, timeout=20, **where)
        assert calls == []
        heard.append((str(caught.value), caught.value.ranks))
    assert dist.is_initialized() == initialised
    assert init("dp=*", **where).mesh == Mesh("dp=5")
    return heard


@pytest.mark.parametrize("initialised", [True, False])
def test_plans_that_differ_are_a_disagreement_on_every_rank(initialised: bool, tmp_path: Path) -> None:
    said = "the ranks join different plans; every rank must declare the same:\n  ranks "
    wrong = (
        "a wrong plan: mesh dp=2 covers 2 of the world's 5 ranks; "
        "make a size '*', or set partial=True to leave ranks out"
    )
    for first, second in ranks(5, disagree, tmp_path, initialised, str(tmp_path / "own"), initialised=initialised):
        assert first == (said + "{0, 1, 3, 4}: dp=5 tp=1, over dp; tp\n  rank 2: tp=5, over tp", [2])
        assert second == (said + "{0, 2..4}: dp=5, over dp\n  rank 1: " + wrong, [1])


def options_differ(rank: int, size: int) -> str:
    texts = []
    for one, other in [
        ({"over": [Axes("dp", timeout=5)]}, {"over": [Axes("dp", timeout=0.5)]}),
        ({"over": [Axes("dp", backend="gloo")]}, {"over": [Axes("dp", separate="x")]}),
        ({"placed": [1, 0]}, {"placed": [0, 1]}),
        ({"picks": [Pick("dp", [0], "x")]}, {"picks": [Pick("dp", [-1], "x")]}),
        ({"host": True}, {"backend": "gloo"}),
        ({"lazy": True}, {"local": "node"}),
    ]:
        with pytest.raises(Disagreement) as caught:
            init("dp=2", **(one if rank == 0 else other))  # type: ignore[arg-type]
        texts += [line.partition(": ")[2] for line in str(caught.value).splitlines()[1:]]
    return "\n".join(texts)


def test_what_groups_are_made_with_is_compared_too(tmp_path: Path) -> None:
    for text in ranks(2, options_differ, tmp_path):
        assert text.splitlines() == [
            "dp=2, over dp within 5 s",
            "dp=2, over dp within 500 ms",
            "dp=2, over dp on gloo",
            "dp=2, over dp; dp as x",
            "dp=2 @[1,0], over dp",
            "dp=2 @[0,1], over dp",
            "dp=2, over dp; dp[0] as x",
            "dp=2, over dp; dp[1] as x",
            "dp=2, over dp, beside it on the host",
            "dp=2, over dp, on gloo",
            "dp=2, over dp, lazy",
            "dp=2, over dp; local ranks as node",
        ]


def come_late(rank: int, size: int) -> tuple[float, str, list[int], list[int]]:
    begin = time.monotonic()
    if rank == 1:
        time.sleep(2.0)
    with pytest.raises(Timeout) as caught:
        init("dp=2 tp=2", timeout=0.7)
    took = time.monotonic() - begin
    assert init("dp=2 tp=2", timeout=20).coord == Mesh("dp=2 tp=2").coord(rank)
    return took, str(caught.value), caught.value.arrived, caught.value.missing


def test_a_rank_that_comes_late_is_a_timeout_on_every_rank(tmp_path: Path) -> None:
    for rank, (took, text, arrived, missing) in enumerate(ranks(4, come_late, tmp_path)):
        assert text == (
            f"the timeout of 700 ms expired in init on rank {rank}: arrived ranks {{0, 2, 3}}, missing rank 1; "
            "in mesh dp=2 tp=2 that is rank 1 [dp=0 tp=1]"
        )
        assert (arrived, missing) == ([0, 2, 3], [1])
        assert took > 0.6


def never_come(rank: int, size: int, url: str, environment: dict[str, str]) -> tuple[str, list[int]]:
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
    with pytest.raises(Timeout) as caught:
        init("dp=*", timeout=2, init_method=url)
    assert not dist.is_initialized()
    return str(caught.value), caught.value.missing


def test_ranks_that_never_come_are_named_where_init_starts_torch(tmp_path: Path) -> None:
    found = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for rank, (text, missing) in zip(
        (0, 2), ranks(3, never_come, tmp_path, "env://", found, initialised=False, only=(0, 2)), strict=True
    ):
        assert text.startswith(
            f"the timeout of 2 s expired in init on rank {rank}: arrived ranks {{0, 2}}, missing rank 1"
        )
        assert missing == [1]
    url = f"tcp://127.0.0.1:{free_port()}"
    for text, missing in ranks(2, never_come, tmp_path, url, {}, initialised=False, only=(1,)):
        assert text.startswith(f"rank 1 of 2 found no store at {url[6:]}, where rank 0 keeps it: ")
        assert missing == [0]


def make_late(rank: int, size: int) -> tuple[float, float]:
    make, made = _plan_groups.PlanGroups.make, list[float]()

    def late(world: _plan_groups.PlanGroups, entries: Iterable[_plan_groups.Entry]) -> None:
        make(world, entries)
        time.sleep(0.5 if rank == 1 else 0)
        made.append(time.monotonic())

    _plan_groups.PlanGroups.make = late  # type: ignore[method-assign]
    with init("dp=* tp=2"):
        returned = time.monotonic()
    return made[0], returned


def test_init_returns_when_all_ranks_have_made_their_groups(tmp_path: Path) -> None:
    results = ranks(4, make_late, tmp_path)
    assert min(returned for _, returned in results) > max(made for made, _ in results)


def start_and_end(rank: int, size: int, where: list[str], environment: dict[str, str]) -> None:
    for url in where:
        for _ in range(2):  # a second time over the same store
            os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
            numbers: dict[str, int] = {} if url == "env://" else {"rank": rank, "world_size": size}
            with init("dp=*", init_method=url, backend="gloo", **numbers) as me:  # type: ignore[arg-type]
                total = torch.ones(1)
                dist.all_reduce(total, group=me.group("dp"))
                assert total.item() == size
            assert not dist.is_initialized()
            if url.startswith("file"):
                break  # torch removes the file


def test_init_starts_torch_and_ends_what_it_started(tmp_path: Path) -> None:
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    where = ["env://", f"tcp://127.0.0.1:{free_port()}", f"file://{tmp_path}/store"]
    ranks(2, start_and_end, tmp_path, where, environment, initialised=False)


@pytest.mark.parametrize("size", [1, 8, 64, 2048])
def test_each_rank_asks_the_store_equally_often_in_every_world(size: int) -> None:
    stores = [Counting(dist.HashStore())] * 1
    shared = stores[0].store
    stores = [Counting(shared) for _ in range(size)]
    heard = [_agree.arrive(store, rank, size, "dp=*") for rank, store in enumerate(stores)]  # type: ignore[arg-type]
    assert heard == [""] * (size - 1) + ["agree"]  # the last to arrive compares
    for store in stores[:-1]:
        assert _agree.hear(store, size, datetime.timedelta(seconds=1)) == "agree"  # type: ignore[arg-type]
    assert [store.requests for store in stores] == [4] * size


@pytest.mark.parametrize(
    ("plans", "outcome"), [("aaa", "agree"), ("aba", "differ"), ("aa", "late 0 1"), ("ab", "late 0 1")]
)
def test_a_timeout_when_all_have_arrived_is_no_lateness(plans: str, outcome: str) -> None:
    store = dist.HashStore()
    for rank, plan in enumerate(plans):
        _agree.note(store, "arrived", f"{rank} {plan}")  # the last has not decided yet
    assert [_agree.hear(store, 3, datetime.timedelta(milliseconds=1)) for _ in range(2)] == [outcome] * 2


@pytest.mark.parametrize(("size", "rank"), [(8, 3), (2048, 1027)])
def test_groups_made_do_not_grow_with_the_world(size: int, rank: int) -> None:
    with fake_world(rank, size):
        sets = [("dp", "cp"), ("pp", "tp"), ("cp", "tp"), ("pp", "dp", "cp", "tp")]
        with NewGroups() as calls:
            me = init("pp=2 dp=* cp=2 tp=2", over=sets)
        own = {tuple(me.ranks(*axes)) for axes in [("pp",), ("dp",), ("cp",), ("tp",), *sets]}
        assert sorted(map(tuple, calls)) == sorted(each for each in own if 1 < len(each) < size)
        assert len(calls) <= 7
        assert me.group("pp", "dp", "cp", "tp").size() == size


def test_both_members_have_the_same_names_for_the_same_things() -> None:
    engine, torchs = (
        {name: getattr(member, name) for name in dir(member) if not name.startswith("_")}
        for member in (rankmesh.Member, rankmesh.torch.Member)
    )
    assert engine.keys() ^ torchs.keys() == {
        *("host", "local_size", "split", "communicator_count", "write_record"),
        *("halo", "start_halo", "neighbor_all_to_all", "start_neighbor_all_to_all"),
        *("host_group", "device_mesh", "destroy", "warm_up", "grow", "reconfigure", "standby", "survivors"),
    }
    others = {"group", "suspend", "resume"}  # torch has the first for `on`, and no groups made at run time for the rest
    for name in engine.keys() & torchs.keys() - others:
        assert callable(engine[name]) == callable(torchs[name]), name
        if callable(engine[name]):
            ours, theirs = (
                [(each.name, each.kind) for each in inspect.signature(of[name]).parameters.values()]
                for of in (engine, torchs)
            )
            assert ours == theirs, name


def test_a_mesh_is_a_mapping_too() -> None:
    with fake_world(3, 8):
        me = init({"dp": "*", "tp": 2})
        assert (me.mesh, me.size, me.rank) == (Mesh("dp=4 tp=2"), 8, 3)
        assert me.on("dp") is me.group("dp") is me.find("dp")
        assert init(Declaration({"dp": 8}, name="train"))["train"].size == 8


# --- backends


def on_devices(rank: int, size: int) -> None:
    default = dist.group.WORLD
    assert default is not None
    default.bound_device_id = torch.device("cuda:0")  # has new groups split from it, which needs every rank
    me = init("dp=2 tp=2", over=[("dp", "tp")], backend="cuda:gloo", host=True)
    assert default.bound_device_id == torch.device("cuda:0")
    default.bound_device_id = None
    assert not _groups.is_on_host(me.group("dp"))
    for axes in (("dp",), ("dp", "tp")):
        host = me.host_group(*axes)
        assert host is not me.group(*axes)
        assert host.group_desc == ("dp on the host" if axes == ("dp",) else "default_pg")
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=host)
        assert total.item() == sum(me.ranks(*axes))
    me = init("dp=4", backend="cuda:gloo")
    with pytest.raises(UsageError) as caught:
        me.host_group("dp")
    assert str(caught.value) == "the groups of 'dp' are of devices alone; init with host=True makes others beside"
    assert init("dp=4").host_group("dp") is dist.group.WORLD
    me = init("dp=4", host=True)
    assert me.host_group("dp") is me.group("dp")


def test_a_group_of_devices_has_one_of_the_host_beside_it(tmp_path: Path) -> None:
    ranks(4, on_devices, tmp_path)


def split_like_nccl(calls: list[tuple[str, list[list[int]]]]) -> Any:
    """Stands for `dist.split_group` on NCCL: every rank calls it with equal parts, in which ranks ascend."""

    def split(
        parent: dist.ProcessGroup | None,
        parts: list[list[int]],
        timeout: datetime.timedelta | None = None,
        pg_options: Any = None,
        group_desc: str | None = None,
    ) -> Any:
        said: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(said, (parts, group_desc))
        assert parent is None
        assert said == [said[0]] * len(said)
        assert [sorted(part) for part in parts] == parts
        calls.append((str(group_desc), parts))
        own = next((part for part in parts if dist.get_rank() in part), None)
        if own is None:  # torch 2.13 returns None, and 2.14 the int
            return None if len(calls) % 2 else dist.GroupMember.NON_GROUP_MEMBER
        default = dist.group.WORLD
        assert default is not None
        with _compat.replaced(default, "bound_device_id", None):
            made = dist.new_group(own, timeout=timeout, use_local_synchronization=True, group_desc=group_desc)
        assert isinstance(made, dist.ProcessGroup)
        return made

    return split


def bound_to_a_device(rank: int, size: int) -> None:
    default = dist.group.WORLD
    assert default is not None
    default.bound_device_id = torch.device("cpu:0")
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda *given, **options: torch.device("cpu")
    calls: list[tuple[str, list[list[int]]]] = []
    dist.split_group = split_like_nccl(calls)
    over: list[Any] = [("dp", "cp"), Axes("tp", separate="again")]
    with NewGroups() as made:
        me = init("dp=4 cp=1 tp=2", over=over, picks=[Pick("dp", [0, 3], "ends")], local="host")
    # One call for each set of axes, pick and separate set; none for groups of one rank or of the whole world.
    dp, tp = [[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sorted(calls) == [("again", tp), ("dp", dp), ("ends", [[0, 6], [1, 7]]), ("tp", tp)]
    assert len(made) == (4 if rank in (0, 1, 6, 7) else 3)  # by the stand-in, and no others
    for axes in (("dp",), ("tp",), ("dp", "cp"), ("again",)):
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=me.group(*axes))
        assert total.item() == sum(me.ranks(*axes))
    assert me.group("again") is not me.group("tp")
    assert me.group("dp", "cp") is me.group("dp")
    assert me.group("host") is default
    assert (me.find("ends") is not None) == (rank in (0, 1, 6, 7))
    # A mesh that leaves ranks out: these call as well, and get no group.
    calls.clear()
    part = init("dp=2 tp=2", partial=True)
    assert calls == [("dp", [[0, 2], [1, 3]]), ("tp", [[0, 1], [2, 3]])]
    assert part.inside == (rank < 4)
    for name in ("split 1", "split 2"):
        assert (_groups.split_group(name, name, [[0, 1]], _plan.Options()) is None) == (rank > 1)
    # Ranks that do not ascend: torch would sort them, so the members alone make these groups.
    calls.clear()
    placed = init("dp=4 tp=2", placed=[1, 0, 3, 2, 5, 4, 7, 6])
    assert [description for description, _ in calls] == ["dp"]
    assert list(placed.ranks("tp")) == [rank | 1, rank & ~1]
    for member in (placed, part, me):
        member.destroy()


def test_groups_are_split_from_a_default_group_that_is_bound_to_a_device(tmp_path: Path) -> None:
    ranks(8, bound_to_a_device, tmp_path)


def recorded(rank: int, size: int) -> Any:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    with init(Declaration("dp=2 tp=1", name="dense", over=[("dp", "tp")]), timeout=9) as me:
        dist.all_reduce(torch.ones(1), group=me.group("dp"))
        dist.all_reduce(torch.ones(1), group=me.group("tp"))
        trace = json.loads(torch._C._distributed_c10d._dump_fr_trace_json())
    return [entry["process_group"] for entry in trace["entries"]]


def test_the_flight_recorder_of_torch_prints_the_names_of_groups(tmp_path: Path) -> None:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    for rank, groups in enumerate(ranks(2, recorded, tmp_path)):
        assert groups == [["rankmesh 1/dense:dp/0", "dense:dp"], [f"rankmesh 1/alone/{rank}", "alone"]]


# --- device meshes


def device_meshes(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    for given in (*MESHES[8][:3], MESHES[8][4]):
        mesh = make_blueprint([given], size)[0].mesh
        me = init(mesh, name="dense", over=every_set(mesh), placed=given.placed)
        with NewGroups() as calls:
            device_mesh = me.device_mesh("dense", flatten={"all": mesh.axes})
            assert type(device_mesh) is DeviceMesh
            assert device_mesh is me.device_mesh()
            assert device_mesh.get_coordinate() == tuple(me.coord.values())
            assert device_mesh.mesh.shape == mesh.shape
            for axis in mesh.axes:
                assert device_mesh.get_group(axis) is me.group(axis)
                assert device_mesh[axis].get_group() is me.group(axis)
                assert device_mesh[axis].mesh.tolist() == list(me.ranks(axis))
                assert device_mesh.get_local_rank(axis) == me.at(axis)
            for axes in every_set(mesh):
                part = device_mesh[axes]
                assert part.get_all_groups() == [me.group(axis) for axis in axes]
                flat = part._flatten()
                assert flat.get_group() is me.group(*axes)
                assert flat.mesh.tolist() == list(me.ranks(*axes)) == part.mesh.flatten().tolist()
            assert device_mesh._flatten("all").get_group() is me.group(*mesh.axes)
        assert calls == []
        whole = torch.arange(64.0).reshape(8, 8)
        first, last = mesh.axes[0], mesh.axes[-1]
        part = device_mesh[first, last]
        sharded = distribute_tensor(whole, part, [Shard(0), Shard(1)])
        assert isinstance(sharded, DTensor)
        rows, columns = 8 // part.size(0), 8 // part.size(1)
        row, column = me.at(first) * rows, me.at(last) * columns
        assert torch.equal(sharded.to_local(), whole[row : row + rows, column : column + columns])
        assert torch.equal(sharded.redistribute(placements=[Shard(1), Shard(0)]).full_tensor(), whole)
        assert torch.equal(sharded.redistribute(placements=[Replicate(), Shard(1)]).full_tensor(), whole)
        assert torch.equal((sharded @ sharded).full_tensor(), whole @ whole)
        dist.barrier()
        me.destroy()
    me = init("dp=2 tp=2 @2", partial=True, over=[("dp", "tp")])
    device_mesh = me.device_mesh()
    coordinate = tuple(me.coord.values()) if me.inside else None
    assert device_mesh.get_coordinate() == coordinate == device_mesh["dp", "tp"].get_coordinate()


def test_a_device_mesh_has_the_groups_that_exist_and_makes_none(tmp_path: Path) -> None:
    ranks(8, device_meshes, tmp_path)


def model() -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).double()


def one_step(rank: int, size: int, folder: str) -> float:
    """FSDP2 along dp, a pipeline along pp and a checkpoint of both, against one process."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    from torch.distributed.tensor import DTensor

    def loss_of(output: Any, target: Any) -> Any:
        return torch.nn.functional.mse_loss(output, target)

    def full(tensor: Any) -> Any:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    alone = model()
    inputs, targets = torch.randn(8, 8).double(), torch.randn(8, 4).double()
    expected = loss_of(alone(inputs), targets)
    expected.backward()
    with torch.no_grad():
        for parameter in alone.parameters():
            parameter -= 0.1 * parameter.grad

    with init(Declaration("pp=2 dp=2", name="dense", over=[("pp", "dp")])) as me, NewGroups() as calls:
        mesh = me.device_mesh()
        layers = model()
        part = layers[:2] if me.is_first("pp") else layers[2:]
        fully_shard(part, mesh=mesh["dp"])
        stage = PipelineStage(part, me.at("pp"), 2, torch.device("cpu"), group=me.group("pp"))
        schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss_of)
        rows = slice(4 * me.at("dp"), 4 * me.at("dp") + 4)
        losses: list[Any] = []
        if me.is_first("pp"):
            schedule.step(inputs[rows])
        else:
            schedule.step(target=targets[rows], losses=losses)
        with torch.no_grad():
            for parameter in part.parameters():
                parameter -= 0.1 * parameter.grad

        after = dict(part.named_parameters())
        for name, parameter in alone.named_parameters():
            if name in after:
                assert torch.allclose(full(after[name]), parameter, rtol=0, atol=1e-12), name

        checkpoint.save({"model": after}, checkpoint_id=folder, process_group=me.group("pp", "dp"))
        blank = {name: torch.zeros_like(parameter) for name, parameter in after.items()}
        checkpoint.load({"model": blank}, checkpoint_id=folder, process_group=me.group("pp", "dp"))
        for name, parameter in after.items():
            assert torch.equal(full(blank[name]), full(parameter))
    assert [each for each in calls if len(each) > 1] == []
    return float(expected - sum(losses) / 2) if losses else 0.0


def test_fsdp_a_pipeline_and_a_checkpoint_run_on_it(tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    stores.mkdir()
    results = ranks(4, one_step, stores, str(tmp_path / "checkpoint"))
    assert abs(sum(results)) < 1e-12


# --- where there is no torch


def test_without_torch_the_import_says_so_in_a_sentence() -> None:
    program = "import sys\nsys.modules['torch'] = None\nimport rankmesh.torch"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stderr.splitlines()[-1] == (
        "ImportError: rankmesh.torch requires PyTorch, which is not installed here; pip install torch"
    )


def test_rankmesh_itself_does_not_import_torch() -> None:
    program = "import sys, rankmesh; rankmesh.World; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_description_of_a_long_placement_is_short() -> None:
    order = list(range(4096))[::-1]
    (mesh,) = _plan.read((Declaration("dp=*", placed=order),), 4096)
    (other,) = _plan.read((Declaration("dp=*", placed=[*order[:-2], 0, 1]),), 4096)
    assert len(mesh.text) < 150
    assert mesh.text != other.text
    assert rankmesh.Group(order) == mesh.ranks(mesh.items[0], 0, [])


# --- documents

SOURCE = Path(__file__).parents[2]
EXAMPLE = SOURCE / "examples/python/torch_groups.py"
EXPERTS = SOURCE / "examples/python/moe.py"
TRAIN = SOURCE / "examples/python/train.py"


def blocks(kind: str, document: str = "docs/python-torch.md") -> list[str]:
    """The blocks of this kind in a document."""
    text = (SOURCE / document).read_text()
    return [part.partition("\n")[2].rstrip() for part in text.split("```")[1::2] if part.startswith(kind + "\n")]


@pytest.mark.parametrize("program", [EXAMPLE, EXPERTS], ids=lambda program: program.stem)
def test_an_example_prints_what_the_document_shows(program: Path, tmp_path: Path) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    printed = ranks(4, example, tmp_path, program, where, initialised=False)
    (shown,) = [block for block in blocks("text") if program.name in block]
    assert "".join(printed).splitlines() == shown.splitlines()[1:]


def test_snippets_of_the_document_are_part_of_the_example_or_of_these_tests() -> None:
    sources = [
        [line.strip() for line in path.read_text().splitlines() if line.strip()]
        for path in (
            EXAMPLE,
            EXPERTS,
            TRAIN,
            EXAMPLE.with_name("elastic_torch.py"),
            *Path(__file__).parent.glob("test_torch*.py"),
        )
    ]
    shown = blocks("python")
    assert shown
    for block in shown:
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        assert any(
            lines == source[at : at + len(lines)] for source in sources for at in range(len(source) - len(lines) + 1)
        ), block


def snippet(rank: int, size: int, block: str, environment: dict[str, str]) -> float:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    names = {
        "dist": dist,
        "fully_shard": fully_shard,
        "init_device_mesh": init_device_mesh,
        "timedelta": datetime.timedelta,
    }
    names.update(model=torch.nn.Linear(8, 6), loss=torch.ones(()))
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size))
    exec(block, names)
    assert isinstance(names["model"], FSDPModule)
    return float(names["loss"])


def test_the_snippet_of_the_readme_runs(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("py", "README.md") if "rankmesh.torch" in block]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    assert ranks(4, snippet, tmp_path, block, where, initialised=False) == [2.0] * 4
