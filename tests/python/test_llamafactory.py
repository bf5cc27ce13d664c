"""LlamaFactory's names where the recorded cases say nothing."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import rankmesh
from rankmesh import llamafactory
from rankmesh.llamafactory import Dim, DistributedInterface, DistributedStrategy, ReduceOp
from signatures import signature


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(DistributedInterface, "_instance", None)


def test_signatures_are_the_originals() -> None:
    own = ("rank", "world_size", "local_rank", "local_world_size")
    assert signature(DistributedInterface.__init__, *own) == "(self, training_args=None)"
    assert (
        signature(DistributedStrategy, "world_size")
        == "(mp_replicate_size=1, mp_shard_size=None, dp_size=None, cp_size=1)"
    )
    for ours in (
        DistributedInterface.get_device_mesh,
        DistributedInterface.get_group,
        DistributedInterface.get_rank,
        DistributedInterface.get_world_size,
    ):
        assert signature(ours) == "(self, dim=None)"
    assert [*Dim] == ["mp_replicate", "mp_shard", "dp", "cp"]
    assert str(Dim.DP) == f"{Dim.DP}" == "dp"
    assert [*ReduceOp] == ["sum", "mean", "max", "min"]


def test_interfaces_of_all_ranks_stand_in_one_process() -> None:
    args = SimpleNamespace(mp_replicate_size=2, mp_shard_size=None, dp_size=None, cp_size=3, dist_timeout=60)
    world = [DistributedInterface(args, rank=rank, world_size=12, local_world_size=4) for rank in range(12)]
    assert len(set(map(id, world))) == 12
    for rank, place in enumerate(world):
        assert (place.get_rank(), place.get_world_size(), place.get_local_world_size()) == (rank, 12, 4)
        assert place.timeout == 60
        for dim, size in zip(Dim, (2, 6, 4, 3), strict=True):
            group = place.get_group(dim)
            assert group is not None
            assert (len(group), group.index(rank)) == (size, place.get_rank(dim))
            mesh = place.get_device_mesh(dim)
            assert mesh is not None
            assert (mesh.get_group(), mesh.get_local_rank(), mesh.size()) == (group, place.get_rank(dim), size)
    assert world[0].model_device_mesh == world[11].model_device_mesh != world[0].data_device_mesh


def test_the_launchers_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DistributedStrategy(cp_size=2, dp_size=9) == DistributedStrategy(cp_size=2, world_size=None)
    assert DistributedInterface().get_rank(Dim.CP) == 0
    monkeypatch.setattr(DistributedInterface, "_instance", None)
    for name, value in {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    place = DistributedInterface()
    assert DistributedInterface() is place
    assert (place.get_rank(), place.get_world_size(Dim.DP), place.get_local_rank()) == (3, 8, 1)
    assert DistributedStrategy(cp_size=4) == DistributedStrategy(cp_size=4, world_size=8)
    with pytest.raises(rankmesh.Error, match="all_reduce of rank 3 of 8 needs the other ranks"):
        place.all_reduce(1)
    monkeypatch.setenv("WORLD_SIZE", "eight")
    with pytest.raises(rankmesh.Error, match="WORLD_SIZE='eight' is no whole number"):
        DistributedStrategy()


def test_errors_are_the_originals_and_rankmeshs() -> None:
    for kind, text, call in (
        (ValueError, "dp_size * cp_size must equal", lambda: DistributedStrategy(dp_size=3, cp_size=2, world_size=8)),
        (ValueError, "must be divisible by cp_size (3)", lambda: DistributedStrategy(cp_size=3, world_size=8)),
        (ZeroDivisionError, "sizes are 1 or more", lambda: DistributedStrategy(cp_size=0, world_size=8)),
        (RuntimeError, "sizes are 1 or more", lambda: DistributedStrategy(cp_size=-2, world_size=8)),
        (ValueError, "dim must be specified.", lambda: DistributedInterface().get_device_mesh()),
        (ValueError, "give both", lambda: DistributedInterface(rank=3)),
        (RuntimeError, "ranks are 0..7", lambda: DistributedInterface(rank=8, world_size=8)),
        (TypeError, "must be an int", lambda: DistributedStrategy(cp_size="2", world_size=8)),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)
    with pytest.raises(AttributeError):
        DistributedInterface(rank=0, world_size=8).get_rank("dp")  # type: ignore[arg-type]


def test_nothing_is_distributed_in_a_process_that_no_launcher_started() -> None:
    alone = llamafactory.DistributedInterface()
    alone.sync()
    alone.barrier()
    alone.destroy()
    assert alone.all_gather([1, 2]) == [1, 2]
    assert alone.get_device_mesh(Dim.DP) is alone.get_group(Dim.DP) is None
