"""init and rejoin: make process groups from a plan, in a new job and in a running one."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import rankmesh._engine
from rankmesh._core import Mesh, Placement, duration
from rankmesh._errors import Error, PeerLost, UsageError
from rankmesh._plan import Axes, Declaration, Pick, declarations
from rankmesh.torch import _elastic, _start, _variables
from rankmesh.torch._agree import Where, linger, note
from rankmesh.torch._compat import Store
from rankmesh.torch._errors import errors_of_backend
from rankmesh.torch._member import Member
from rankmesh.torch._plan import MeshPlan, read
from rankmesh.torch._plan_groups import GroupDefaults, Groups, PlanGroups
from rankmesh.torch.backend import default_backend, locate

GRACE = 60.0  # seconds that a process in rejoin waits for ranks that hear of a loss at their next step


def init(
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
    init_method: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    store: Store | None = None,
    warm_up: bool = False,
    log: str | None = None,
) -> Member:
    """Creates this process's process groups for a plan: one mesh with its options, or several Declarations.

    Every rank calls it. First the ranks compare their plans. If plans differ, every rank raises Disagreement. If a
    rank does not arrive before the timeout, all others raise Timeout, which names it. Initialises torch.distributed
    unless it is initialised, with `init_method`, `rank`, `world_size` and `store` as in torch. `backend` and
    `timeout` (seconds) are those of the groups. Without `backend` every call is watched: it is `cpu:rankmesh`, beside
    an accelerator `cpu:rankmesh,cuda:rankmesh+nccl`; `backend="gloo"` and the like are torch's own. `host`: also create
    a host group beside each group that accepts only device tensors. `device` is the device of a DeviceMesh; with an
    index, torch binds it to this process. `warm_up` connects all groups, which otherwise may connect, and
    fail, at their first call. `log="info"`, or RANKMESH_LOG=info, has the logger `rankmesh` say which groups were made.
    """
    _variables.log(log)
    of_groups = duration(timeout) or _variables.timeout()
    patience = of_groups or _start.DEFAULT_TIMEOUT
    device = torch.device(device) if device is not None else None
    initialised = dist.is_initialized()
    start = _start.adopt() if initialised else _start.begin(init_method, rank, world_size, store, patience)

    plans: list[MeshPlan] = []
    wrong: Error | None = None
    try:
        declared = {"over": over, "picks": picks, "axes": axes, "placed": placed}
        plans = read(plan, start.size, name=name, local=local, partial=partial, lazy=lazy, **declared)
        said = " | ".join(sorted(mesh.text for mesh in plans))
    except Error as error:  # the error is compared like a plan: no rank waits for a rank that has raised
        wrong, said = error, f"a wrong plan: {error}"
    backend = backend or (None if initialised else default_backend())
    said += (f", on {backend}" if backend not in (None, "rankmesh", "cpu:rankmesh") else "") + (
        ", beside it on the host" if host else ""
    )
    has_local = any(item.local for mesh in plans for item in mesh.items)
    alone = (dist.get_backend() if initialised else backend) == "fake"  # a world of one rank is this process
    if not alone:
        where: Where = plans[0].where if plans else lambda ranks: ""
        start.part_from_earlier(patience, where)
        if has_local:
            note(start.store, "hosts", f"{start.rank} {_variables.host_name()}")
        start.agree(said, patience, where)
    try:
        if wrong is not None:
            raise wrong
        if not initialised:
            _start.initialise(start, backend, device, patience)
    except Exception:
        if not alone:
            linger(start.store, start.size)
        raise

    hosts = [""] * start.size
    if has_local and start.store.check(["hosts"]):
        for line in start.store.get("hosts").decode().splitlines():
            number, _, host_name = line.partition(" ")
            hosts[int(number)] = host_name
    groups = Groups(start.key, start.size, None if alone else start.store, patience, started=not initialised)
    defaults = GroupDefaults(backend if initialised else None, device.type if device else None, of_groups, host)
    planned = PlanGroups(plans, start.rank, hosts, groups, defaults)
    places = plans[0].places
    locate(plans[0].where, plans[0].mesh.text, places.ranks, is_placed=isinstance(places, Placement))
    _variables.tell_unused_by_torch(["RANKMESH_TIMEOUT", "RANKMESH_HOST"])
    planned.connect()
    member = Member(planned)
    if warm_up:
        member.warm_up()
    return member


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
