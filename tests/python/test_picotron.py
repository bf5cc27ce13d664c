"""picotron's names where the recorded cases say nothing."""

from __future__ import annotations

import re
import sys

import pytest
import rankmesh
from rankmesh import Mesh
from rankmesh.picotron import process_group_manager as pgm
from signatures import signature


def test_signatures_are_the_originals() -> None:
    for ours in (pgm.ProcessGroupManager, pgm.setup_process_group_manager):
        assert signature(ours, "rank", "world_size") == "(tp_size, cp_size, pp_size, dp_size)"


def test_managers_of_all_ranks_stand_in_one_process() -> None:
    managers = [pgm.ProcessGroupManager(2, 3, 2, 2, rank=rank, world_size=24) for rank in range(24)]
    for rank, manager in enumerate(managers):
        assert manager.grid == Mesh(dp=2, pp=2, cp=3, tp=2)
        for axis in ("tp", "cp", "pp", "dp"):
            ids = getattr(manager, f"{axis}_group_ids")
            assert list(getattr(manager, f"{axis}_group")) == ids
            assert ids[getattr(manager, f"{axis}_rank")] == rank
            assert len(ids) == getattr(manager, f"{axis}_world_size")
            assert (ids[0], ids[-1]) == tuple(getattr(manager, f"{axis}_{end}_rank") for end in ("first", "last"))
        assert managers[manager.cp_send_rank].cp_recv_rank == rank
        if manager.pp_next_rank is None:
            assert manager.pp_is_last_stage
        else:
            assert managers[manager.pp_next_rank].pp_prev_rank == rank
        assert list(manager.world_group) == list(range(24))


def test_errors_are_the_originals_and_rankmeshs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    for kind, text, call in (
        (AssertionError, "World size (8) != TP (3)", lambda: pgm.ProcessGroupManager(3, 1, 1, 1, rank=0, world_size=8)),
        (RuntimeError, "every size is 1 or more", lambda: pgm.ProcessGroupManager(-2, -1, 1, 1, rank=0, world_size=2)),
        (ValueError, "ranks are 0..1", lambda: pgm.ProcessGroupManager(2, 1, 1, 1, rank=2, world_size=2)),
        (ValueError, "give rank= and world_size=", lambda: pgm.setup_process_group_manager(2, 1, 1, 1)),
    ):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)


def test_the_module_keeps_the_manager_of_this_process() -> None:
    pgm.setup_process_group_manager(tp_size=2, cp_size=1, pp_size=2, dp_size=1, rank=1, world_size=4)
    assert pgm.process_group_manager.global_rank == 1
    assert str(pgm.process_group_manager) == "TP(2)-CP(1)-PP(2)-DP(1)-Rank(1)"
