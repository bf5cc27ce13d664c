"""The names that a member has on every engine, and what the error of another name says."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Axes, Pick, UsageError
from rankmesh._member_names import Size


def asked(me: Any, record: str, world: Any) -> dict[str, object]:
    """What a member of dp=2 tp=2 answers under the names of both kinds."""
    me.barrier()
    world.write_record(record)
    size = me.size
    return {
        "device": str(me.device),
        "get_group": me.get_group("tp").size if isinstance(me, rankmesh.Member) else me.get_group("tp").size(),
        "sizes": [size, size(), size("dp"), size("tp"), size("dp", "tp"), size("tp", "tp"), size("pair")],
        "arithmetic": [size + 1, list(range(size))[-1], f"{size:d}", json.dumps(size), repr(size)],
        "pickled": type(pickle.loads(pickle.dumps(size))).__name__,
        "world_size": me.world_size,
        "record": json.loads(Path(record).read_text())["rank"] == me.rank,
        "local": me.local_rank,
    }


def expected(rank: int) -> dict[str, object]:
    return {
        "device": "cpu",
        "get_group": 2,
        "sizes": [4, 4, 2, 2, 4, 2, 4],
        "arithmetic": [5, 3, "4", "4", "4"],
        "pickled": "int",
        "world_size": 4,
        "record": True,
        "local": rank,
    }


def test_a_member_of_an_engine_has_them(tmp_path: Path) -> None:
    def program(world: rankmesh.World) -> None:
        me = world.join("dp=2 tp=2", over=[Axes("dp", "tp", separate="pair")])
        assert asked(me, str(tmp_path / f"{me.rank}.json"), world) == expected(me.rank)

    rankmesh.run(4, program)


def on_torch(rank: int, size: int, folder: str, backend: str | None, launched: bool) -> dict[str, object]:
    import rankmesh.torch

    if launched:
        os.environ["LOCAL_RANK"] = str(rank)
    over = [rankmesh.torch.Axes("dp", "tp", separate="pair")]
    where = {"rank": rank, "world_size": size, "init_method": f"file://{folder}/store"}
    with rankmesh.torch.init("dp=2 tp=2", over=over, backend=backend, **where) as me:  # type: ignore[arg-type]
        return asked(me, f"{folder}/{rank}.json", me)


@pytest.mark.parametrize(("backend", "launched"), [(None, False), ("rankmesh+gloo", True)])
def test_a_member_of_torch_has_them(backend: str | None, launched: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch_ranks import ranks

    found = ranks(4, on_torch, tmp_path, str(tmp_path), backend, launched, initialised=False)
    assert found == [expected(rank) for rank in range(4)]


def test_what_a_backend_lacks_is_refused() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import rankmesh.torch
    from torch_ranks import fake_world

    with fake_world(3, 4):
        me = rankmesh.torch.init("dp=2 tp=2")
        assert (me.size("dp"), me.world_size) == (2, 4)
        with pytest.raises(UsageError, match=r"write_record was called on the backend 'fake', whose calls are not"):
            me.write_record("nowhere")
        with pytest.raises(RuntimeError, match="LOCAL_RANK"):
            _ = me.local_rank


RIGHT = {
    "get_rank": "me.rank",
    "get_world_size": "me.world_size",
    "size_of": 'me.size("dp")',
    "get_local_rank": 'me.at("dp")',
    "coordinate": "me.coord",
    "axes": "me.mesh.axes",
    "shape": "me.mesh.shape",
    "process_group": 'me.on("dp")',
    "peers": 'me.ranks("dp")',
    "next": 'me.neighbor("pp", +1)',
    "neighbour": "me.neighbor",
    "is_frist": "me.is_first",
}


def check_wrong_names(me: Any, others: dict[str, str]) -> None:
    for name, right in {**RIGHT, **others}.items():
        with pytest.raises(AttributeError) as caught:
            getattr(me, name)
        assert str(caught.value) == f"a Member has no '{name}'; it is {right}"
        assert (caught.value.name, hasattr(me, name)) == (name, False)
    with pytest.raises(AttributeError, match=r"^a Member has no 'qqqq'$"):
        me.qqqq  # noqa: B018
    for right in {**RIGHT, **others}.values():
        path = right.partition("(")[0].removeprefix("me.").split(".")
        if right.startswith("me."):
            assert hasattr(type(me), path[0]), right


def test_the_error_of_a_wrong_name_says_the_right_one() -> None:
    def program(world: rankmesh.World) -> None:
        with world:
            others = {
                "all_reduce": 'me.on("dp").all_reduce(...)',
                "close": "world.close()",
                "write_record": "world.write_record(path)",
            }
            check_wrong_names(world.join("dp=*"), others)

    rankmesh.run(1, program)


def test_so_does_that_of_torch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import rankmesh.torch
    from torch_ranks import fake_world

    with fake_world(0, 2):
        me = rankmesh.torch.init("dp=*")
        others = {
            "all_reduce": 'torch.distributed.all_reduce(..., group=me.group("dp"))',
            "close": "me.destroy()",
            "deivce_mesh": "me.device_mesh",
        }
        check_wrong_names(me, others)


def test_a_size_along_what_is_not_there_is_an_error() -> None:
    def program(world: rankmesh.World) -> None:
        me = world.join("dp=2 tp=1", picks=[Pick("dp", [0], "first")])
        assert isinstance(me.size, Size)
        with pytest.raises(rankmesh.UnknownName, match="dq"):
            me.size("dq")
        if me.rank == 0:
            assert me.size("first") == 1
        else:
            with pytest.raises(UsageError, match="first"):
                me.size("first")

    rankmesh.run(2, program)


def test_it_is_known_whether_install_holds() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import rankmesh.torch

    assert not rankmesh.torch.is_installed()
    with rankmesh.torch.install():
        assert rankmesh.torch.is_installed()
    assert not rankmesh.torch.is_installed()
