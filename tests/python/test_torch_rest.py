"""Idle groups of torch: what they hold, that they release it and come back, and that first use can be paid at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from rankmesh import Declaration, Timeout, UnknownName, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import Axes, Member, _plan_groups, init  # noqa: E402
from torch_ranks import NewGroups, ranks  # noqa: E402


def sockets() -> int:
    """The sockets of this process."""
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return sum(os.readlink(each).startswith("socket:") for each in links if os.path.islink(each))


def sums(me: Member) -> dict[str, float]:
    """What an all-reduce of the ranks gives along each axis."""
    found = {}
    for axis in me.mesh.axes:
        total = torch.tensor([float(me.rank)])
        dist.all_reduce(total, group=me.group(axis))
        found[axis] = total.item()
    return found


def hold_and_release(rank: int, size: int) -> None:
    me = init("dp=2 tp=2", over=[Axes("tp", separate="again"), ("dp", "tp")])
    expected = {axis: float(sum(me.ranks(axis))) for axis in me.mesh.axes}
    assert sums(me) == expected
    held, usage = sockets(), me.usage()
    assert [(each.axes, each.size, each.connections) for each in usage.communicators] == [
        *(("dp", 2, 1), ("tp", 2, 1), ("dp,tp", 4, 3), ("again", 2, 1)),
    ]
    assert usage.connections == 6
    assert not any(each.suspended or each.memory for each in usage.communicators)

    me.suspend("tp")
    assert [each.axes for each in me.usage().communicators if each.suspended] == ["tp"]
    assert (me.usage().connections, sockets()) == (5, held - 1)
    me.suspend("tp")  # again: nothing
    me.suspend()
    assert [each.axes for each in me.usage().communicators if each.suspended] == ["dp", "tp", "again"]
    assert (me.usage().connections, sockets()) == (3, held - 3)  # torch's default group stays
    assert me.group("dp", "tp") is dist.group.WORLD

    me.resume("dp")
    assert [each.axes for each in me.usage().communicators if each.suspended] == ["tp", "again"]
    me.resume()
    me.resume()
    assert (me.usage(), sockets()) == (usage, held)
    assert sums(me) == expected
    me.destroy()


def test_usage_and_sockets_fall_and_come_back(tmp_path: Path) -> None:
    ranks(4, hold_and_release, tmp_path)


def share_groups(rank: int, size: int) -> None:
    plan = Declaration("dp=2 cp=1 tp=2", name="train", over=[("cp", "tp")]), Declaration("a=2 b=2", name="act")
    me = init(*plan)
    train, act = me["train"], me["act"]
    assert train.group("cp", "tp") is train.group("tp") is act.group("b")
    train.suspend("tp")
    for view, axes in ((train, ("tp",)), (train, ("cp", "tp")), (act, ("b",))):
        with pytest.raises(UsageError, match="is suspended"):
            view.group(*axes)
    act.resume("b")  # by another name of the same group
    assert train.group("cp", "tp") is train.group("tp") is act.group("b")
    assert sums(act) == {axis: float(sum(act.ranks(axis))) for axis in "ab"}
    act.suspend()
    assert {each.axes for each in me.usage().communicators if each.suspended} == {"a", "b"}
    me.resume()
    assert not any(each.suspended for each in me.usage().communicators)
    assert sums(train)["dp"] == sum(train.ranks("dp"))
    me.destroy()


def without_a_device(rank: int, size: int, store: str) -> None:
    backend = "cpu:rankmesh,cuda:nccl"  # no call makes NCCL's groups
    me = init("dp=2 tp=2", backend=backend, init_method=f"file://{store}", rank=rank, world_size=size)
    before = sums(me)
    assert [each.size for each in me.usage().communicators] == [2, 2]
    me.suspend()
    me.resume()
    assert sums(me) == before
    me.destroy()


def test_a_device_without_calls_has_nothing_to_release(tmp_path: Path) -> None:
    ranks(4, without_a_device, tmp_path, str(tmp_path / "own"), initialised=False)


def test_sets_that_share_a_group_rest_together(tmp_path: Path) -> None:
    ranks(4, share_groups, tmp_path)


def train(rank: int, size: int) -> None:
    """A layer whose columns are dealt out along tp, with gradients that are averaged along dp."""

    def losses(rests: bool) -> list[float]:
        torch.manual_seed(7)
        found = []
        weight = torch.randn(6, 4, dtype=torch.float64).chunk(2, dim=1)[me.at("tp")].clone().requires_grad_()
        for step in range(4):
            if rests:
                me.suspend()  # generation, evaluation, or whatever needs the memory
                assert me.usage().connections == 0
                me.resume()  # groups that were taken before have ended; take them anew
            torch.manual_seed(100 * step + me.at("dp"))
            inputs = torch.randn(5, 6, dtype=torch.float64)
            loss = (inputs @ weight).square().mean()
            loss.backward()
            assert weight.grad is not None
            dist.all_reduce(weight.grad, group=me.group("dp"))
            with torch.no_grad():
                weight -= 0.05 * weight.grad
                weight.grad = None
            total = loss.detach().clone()
            for axis in ("tp", "dp"):
                dist.all_reduce(total, group=me.device_mesh()[axis].get_group())
            found.append(total.item())
        return found

    with init("dp=2 tp=2") as me:
        assert losses(True) == losses(False)


def test_training_that_suspends_between_steps_is_equal(tmp_path: Path) -> None:
    ranks(4, train, tmp_path)


def use_wrongly(rank: int, size: int) -> None:
    me = init(Declaration("dp=2 tp=2", over=[("dp", "tp")], lazy=True))
    me.suspend("dp")  # not made yet: nothing to release
    me.prepare("dp")
    me.prepare("tp")
    me.prepare("dp", "tp")
    taken, mesh = me.group("dp"), me.device_mesh()
    me.suspend("dp")
    said = "'dp' of mesh dp=2 tp=2 is suspended; every rank of its group calls resume({}) first"  # as `me.resume("dp")`
    for call in (me.group, me.on, me.find, me.host_group, me.prepare, me.warm_up):
        with pytest.raises(UsageError) as caught:
            call("dp")
        assert str(caught.value) == said.format('"dp"')
    for whole in (me.warm_up, me.device_mesh):
        with pytest.raises(UsageError) as caught:
            whole()
        assert str(caught.value) == said.format("" if whole == me.warm_up else '"dp"')
    one = torch.ones(1)
    for dead in (
        lambda: dist.all_reduce(one, group=taken),
        lambda: dist.barrier(group=taken),
        lambda: dist.all_gather([one, one], one, group=taken),
    ):
        with pytest.raises((ValueError, RuntimeError), match=r"not initialized in the world group map|error_on_coll"):
            dead()
    with pytest.raises(RuntimeError, match="Could not resolve the process group"):
        mesh["dp"].get_group()
    me.resume("dp")
    assert me.group("dp") is not taken
    assert me.device_mesh() is not mesh
    with pytest.raises(UnknownName):
        me.suspend("pp")
    me.suspend("dp")
    me.destroy()  # also while a group is suspended
    for ended in (me.suspend, me.resume, me.usage, me.warm_up):
        with pytest.raises(UsageError, match="this member was destroyed"):
            ended()


def test_wrong_use_of_a_suspended_group_says_what_to_do(tmp_path: Path) -> None:
    ranks(4, use_wrongly, tmp_path)


def one_does_not_suspend(rank: int, size: int) -> None:
    me = init("dp=2 tp=2", over=[Axes("dp", timeout=0.3)])
    if rank == 3:
        return
    if rank == 1:
        with pytest.raises(Timeout) as caught:
            me.suspend("dp")
        assert str(caught.value) == (
            "the timeout of 300 ms expired in suspend on rank 1: arrived rank 1, missing rank 3; "
            "in mesh dp=2 tp=2 that is rank 3 [dp=1 tp=1]"
        )
        assert (caught.value.arrived, caught.value.missing) == ([1], [3])
    else:
        me.suspend("dp")


def test_a_rank_that_does_not_suspend_is_named(tmp_path: Path) -> None:
    ranks(4, one_does_not_suspend, tmp_path)


def suspend_like_nccl(rank: int, size: int) -> None:
    called: list[str] = []

    def stand_in(backend: Any, name: str) -> Any:
        called.append(name)
        return {"bytes": 7} if name == "memory_stats" else True

    _plan_groups._called = stand_in
    me = init("dp=2 tp=2")
    taken = me.group("tp")
    assert me.usage().communicators[1].memory == {"bytes": 7}
    called.clear()
    me.suspend("tp")
    with pytest.raises(UsageError, match="is suspended"):
        me.group("tp")
    assert me.usage().communicators[1].suspended
    me.resume("tp")
    assert me.group("tp") is taken
    assert [each for each in called if each != "memory_stats"] == ["suspend", "resume"]
    assert sums(me) == {axis: float(sum(me.ranks(axis))) for axis in me.mesh.axes}


def test_a_backend_that_can_suspend_keeps_its_groups(tmp_path: Path) -> None:
    ranks(2 * 2, suspend_like_nccl, tmp_path)


def pay_at_once(rank: int, size: int) -> None:
    me = init(Declaration("dp=4 tp=1 cp=1", name="a"), Declaration("x=2 y=2", name="b", lazy=True))
    me.warm_up()
    with NewGroups() as calls:
        assert [me["a"].group(axis).size() for axis in ("dp", "tp", "cp")] == [4, 1, 1]
        assert [me["b"].group(axis).size() for axis in ("x", "y")] == [2, 2]
    assert calls == []
    me.destroy()


def test_groups_exist_after_warm_up(tmp_path: Path) -> None:
    ranks(4, pay_at_once, tmp_path)
