"""rejoin: enters a running job."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import rankmesh._engine
from rankmesh._core import Mesh, duration
from rankmesh._errors import PeerLost, UsageError
from rankmesh._plan import Declaration, Pick, declarations
from rankmesh.torch import _elastic, _start
from rankmesh.torch._default_backend import default_backend
from rankmesh.torch._errors import errors_of_backend
from rankmesh.torch._member import Member
from rankmesh.torch._plan import Axes
from rankmesh.torch._plan_groups import GroupDefaults

GRACE = 60.0  # seconds that this process waits for ranks that hear of a loss at their next step


@errors_of_backend()
def rejoin(
    *plan: str | Mesh | Mapping[str, int | str] | Declaration,
    name: str = "",
    over: Iterable[str | Iterable[str] | Axes] = (),
    picks: Iterable[Pick] = (),
    local: str = "",
    axes: Iterable[str] | None = None,
    placed: Iterable[int] = (),
    partial: bool = False,
    lazy: bool = False,
    timeout: float | datetime.timedelta | None = None,
    backend: str | None = None,
    host: bool = False,
    device: str | torch.device | None = None,
) -> Member:
    """Waits until the ranks of a running job call `grow`, and returns this process's Member of the larger world.

    The plan and the options are those that the ranks passed to `init`. RANKMESH_STORE and RANKMESH_JOB identify the
    job; RANK, if set, is the rank of the first world to replace. Raises Timeout if the job does not take this process
    in before `timeout` (seconds; default: 30 minutes), Disagreement if the plans differ, and UsageError if
    torch.distributed is initialised.

    >>> me = rankmesh.torch.rejoin("dp=* tp=2")  # doctest: +SKIP
    """
    if dist.is_initialized():
        raise UsageError(
            "rejoin was called, but torch.distributed is initialised in this process; call rejoin first, in a new one"
        )
    declared = {"over": over, "picks": picks, "axes": axes, "placed": placed}
    of_groups = duration(timeout)
    device = torch.device(device) if device is not None else None
    settings = _elastic.Settings(
        given=declarations(plan, name=name, local=local, partial=partial, lazy=lazy, **declared),
        backend=repr(c10d.BackendConfig(dist.Backend(backend or default_backend()))),
        patience=of_groups or _start.DEFAULT_TIMEOUT,
        bound=device,
        groups=GroupDefaults(None, device.type if device else None, of_groups, host),
        owned=True,
    )
    world = rankmesh._engine.World.rejoin(timeout=settings.patience)
    try:
        made = _elastic.connect(world, settings)
    except PeerLost:
        made = _elastic.connect_survivors(world, GRACE, settings)
    return Member(_elastic.swap(made, settings))
