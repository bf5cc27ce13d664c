"""Standby: another world, which is connected while the ranks work in theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

import rankmesh._engine
from rankmesh._errors import PeerLost, Timeout, UsageError
from rankmesh.torch import _elastic, _errors
from rankmesh.torch._errors import errors_of_backend
from rankmesh.torch._plan_groups import PlanGroups
from rankmesh.torch.backend._engine_world import EngineWorld

if TYPE_CHECKING:
    from rankmesh.torch._member import Member

MakeWorld = Callable[[], rankmesh._engine.World]


class Standby:
    """A larger world of a member's ranks and of new processes, which a thread connects.

    Meanwhile the member works. It must not make groups.
    """

    def __init__(
        self, planned: PlanGroups, engine: EngineWorld, make: MakeWorld, member_of: Callable[[PlanGroups], Member]
    ) -> None:
        self._planned, self._engine, self._make, self._member_of = planned, engine, make, member_of
        self._settings = _elastic.settings_of(planned)
        self._made: _elastic.Connected | None = None
        self._error: Exception | None = None
        self._all_connected = False
        self._thread = threading.Thread(target=self._connect, name="rankmesh standby", daemon=True)
        planned.standby, engine.grows = self._thread, True
        self._thread.start()

    def _connect(self) -> None:
        try:
            self._made = connect_larger(self._engine, self._make, self._settings)
        except Exception as error:
            self._error = error
        finally:
            self._engine.grows = False

    @errors_of_backend()
    def ready(self) -> bool:
        """Returns True on all ranks if all have connected the new world. All ranks of the member call it.

        It costs one all_reduce of two numbers in the member's world. Raises on all ranks the error of any: Timeout if
        no process has come, and then the member goes on.
        """
        if self._all_connected:
            return True
        ended = not self._thread.is_alive()
        state = torch.tensor([int(ended), int(ended and self._error is None)], dtype=torch.int32)
        dist.all_reduce(state, op=dist.ReduceOp.MIN)
        if not state[0]:
            return False
        if state[1]:
            self._all_connected = True
            return True
        if self._error is not None:
            raise self._error
        raise _errors.PeerLost("another rank has lost a rank of the standby world; call survivors on all ranks")

    def swap(self) -> Member:
        """Ends the member's groups, and returns the Member of the new world. All its ranks call it at the same step.

        Raises UsageError unless `ready()` has returned True.
        """
        self._planned.groups.check_open()
        if not self._all_connected:
            raise UsageError("swap was called on a standby that is not connected on all ranks; call it after ready()")
        assert self._made is not None
        self._planned.standby = None
        return self._member_of(_elastic.swap(self._made, self._settings))


def connect_larger(engine: EngineWorld, make: MakeWorld, settings: _elastic.Settings) -> _elastic.Connected:
    """Connects a larger world. If this fails, survivors are those of the larger world, which others may be in."""
    before = engine.newest
    engine.newest = make()
    try:
        return _elastic.connect(engine.newest, settings)
    except (PeerLost, Timeout):
        raise
    except Exception:  # on all ranks
        engine.newest = before
        raise
