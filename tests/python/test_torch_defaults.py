"""What holds without an option: the backend of groups for which a program names none."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Disagreement
from rankmesh.torch import _groups
from rankmesh.torch.backend import default_backend, put_default, take_back_default
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import init_process_group  # a name that was imported before install()
from torch.distributed.device_mesh import init_device_mesh
from torch_ranks import free_port, ranks

OWN = "cpu:rankmesh"
BACKENDS = dist.Backend.default_device_backend_map


def started(rank: int, size: int, port: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def by_init(**options: Any) -> None:
    rankmesh.torch.init("dp=*", **options)


def by_install(*arguments: Any, **options: Any) -> None:
    rankmesh.torch.install()
    init_process_group(*arguments, **options)


def by_its_mesh() -> None:
    rankmesh.torch.install()
    init_device_mesh("cpu", (2,))


def by_our_mesh() -> None:
    rankmesh.torch.init_device_mesh("cpu", (2,))


WAYS: list[tuple[Any, dict[str, Any]]] = [
    (by_init, {}),
    (by_init, {"backend": None}),
    (by_install, {}),
    (by_install, {"backend": None}),
    (by_install, {"backend": None, "timeout": timedelta(seconds=9)}),
    (by_its_mesh, {}),
    (by_our_mesh, {}),
]


def differing(rank: int, size: int, port: int, way: Any, options: dict[str, Any]) -> list[object]:
    """What a call raises that the ranks make with different sizes."""
    started(rank, size, port)
    way(**options)
    with pytest.raises(Disagreement, match=r"is not the same on all its ranks"):
        dist.all_reduce(torch.ones(1 + rank))
    return [dist.get_backend()]


@pytest.mark.parametrize(("way", "options"), WAYS)
def test_the_default_watches_every_call(way: Any, options: dict[str, Any], tmp_path: Path) -> None:
    assert ranks(2, differing, tmp_path, free_port(), way, options, initialised=False) == [[OWN]] * 2


def named(rank: int, size: int, port: int, way: Any, options: dict[str, Any]) -> str:
    started(rank, size, port)
    way(**options)
    return dist.get_backend()


@pytest.mark.parametrize("way", [by_init, by_install])
def test_a_backend_that_is_named_is_torchs(way: Any, tmp_path: Path) -> None:
    assert ranks(2, named, tmp_path, free_port(), way, {"backend": "gloo"}, initialised=False) == ["gloo"] * 2


@pytest.mark.parametrize(
    ("device", "backend", "is_there", "expected"),
    [
        ("cuda", "nccl", True, "cpu:rankmesh,cuda:rankmesh+nccl"),
        ("cuda", "nccl", False, OWN),
        ("xpu", "xccl", True, "cpu:rankmesh,xpu:rankmesh+xccl"),
        ("npu", "hccl", True, "cpu:rankmesh,npu:rankmesh+hccl"),
        ("hpu", None, True, OWN),
        ("hpu", "fake", True, OWN),
    ],
)
def test_an_accelerator_gets_its_own_backend_watched(
    device: str, backend: str | None, is_there: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Accelerator:
        type = device

    before = dict(BACKENDS)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", Accelerator)
    monkeypatch.setattr(dist, "is_backend_available", lambda name: is_there and name == backend)
    monkeypatch.setitem(BACKENDS, device, backend)  # also "hccl", which came after the import of rankmesh.torch
    if backend is None:
        monkeypatch.delitem(BACKENDS, device)
    assert default_backend() == expected
    put_default()
    try:
        assert BACKENDS["cpu"] == "rankmesh"
        assert default_backend() == expected
        if expected != OWN:
            assert BACKENDS[device] == expected.rpartition(":")[2]  # of init_process_group(device_id=...)
    finally:
        take_back_default()
    assert BACKENDS.get(device) == backend
    assert {name: BACKENDS[name] for name in before if name != device} == {
        name: before[name] for name in before if name != device
    }


def test_torchcomms_keeps_its_own_default() -> None:
    with dist.config.patch(use_torchcomms=True):
        assert default_backend() == dist.Backend.UNDEFINED
    assert default_backend() == OWN


def test_a_backend_that_comes_later_is_wrapped_and_keeps_its_device() -> None:
    before = dict(BACKENDS)
    dist.Backend.register_backend("later", lambda *_: None, extended_api=True, devices=["privateuseone"])
    try:
        assert BACKENDS["privateuseone"] == "later"  # no backend around another one has taken the device
        default_backend()
        assert "rankmesh+later" in dist.Backend.backend_list
        assert BACKENDS["privateuseone"] == "later"
    finally:
        BACKENDS.clear()
        BACKENDS.update(before)


def taken_over(rank: int, size: int, port: int, backend: str | None) -> list[str]:
    started(rank, size, port)
    dist.init_process_group(backend)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        by_init()
        by_our_mesh()
    return [str(each.message) for each in warned if "init_process_group" in str(each.message)]


@pytest.mark.parametrize("backend", [None, "gloo", "cpu:rankmesh"])
def test_groups_that_nobody_chose_are_said_to_be_unwatched(backend: str | None, tmp_path: Path) -> None:
    told, other = ranks(2, taken_over, tmp_path, free_port(), backend, initialised=False)
    assert other == []
    assert [text.partition(" (")[0] for text in told] == (
        [] if backend else ["init_process_group without a backend made torch's own groups"]
    )


def mixed(rank: int, size: int, store: str) -> list[object]:
    from torch.testing._internal.distributed import fake_pg  # noqa: F401 (registers the backend 'fake')

    backend = "cpu:rankmesh,cuda:rankmesh+fake"
    rankmesh.torch.init("dp=2", backend=backend, rank=rank, world_size=size, init_method=f"file://{store}")
    found: list[object] = [dist.get_backend()]
    for group in (dist.group.WORLD, dist.new_group([0, 1])):
        assert isinstance(group, dist.ProcessGroup)
        on_host = torch.ones(2)
        dist.all_reduce(on_host, group=group)
        with FakeTensorMode():
            group.allreduce([torch.empty(2, device="cuda")], dist.AllreduceOptions())
        found += [on_host.tolist(), type(group._get_backend(torch.device("cuda"))).__name__]
    dist.barrier()
    return found


def beside(rank: int, size: int, store: str, backend: str) -> list[str]:
    """The backend of the group on the host beside one that takes tensors of a device only."""
    _groups.is_on_host = lambda group: not dist.get_backend(group).startswith("cuda:")  # as with NCCL
    where = {"rank": rank, "world_size": size, "init_method": f"file://{store}"}
    me = rankmesh.torch.init("dp=2", backend=backend, host=True, **where)  # type: ignore[arg-type]
    total = torch.ones(1)
    dist.all_reduce(total, group=me.host_group("dp"))
    assert total.item() == 2
    return [dist.get_backend(me.host_group("dp"))]


@pytest.mark.parametrize(("backend", "expected"), [("cuda:rankmesh+gloo", OWN), ("cuda:gloo", "gloo")])
def test_the_groups_of_the_host_are_watched_where_the_others_are(backend: str, expected: str, tmp_path: Path) -> None:
    assert ranks(2, beside, tmp_path, str(tmp_path / "own"), backend, initialised=False) == [[expected]] * 2


def test_host_and_device_are_both_watched(tmp_path: Path) -> None:
    found = ranks(2, mixed, tmp_path, str(tmp_path / "own"), initialised=False)
    assert found == [["cpu:rankmesh,cuda:rankmesh+fake", *[[2.0, 2.0], "FakeProcessGroup"] * 2]] * 2
