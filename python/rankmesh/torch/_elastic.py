"""Connects another world of ranks while their processes go on, and makes it torch's, at once or from a standby."""

from __future__ import annotations

import datetime
import inspect
import math
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import rankmesh._engine
from rankmesh._core import Mesh
from rankmesh._engine import Communicator
from rankmesh._errors import PeerLost, Timeout, UsageError
from rankmesh._plan import Declaration
from rankmesh.torch import _errors, _start, _variables
from rankmesh.torch._agree import disagreement, text_of
from rankmesh.torch._compat import Store, TCPStore
from rankmesh.torch._errors import EngineFailure, errors_of_backend
from rankmesh.torch._plan import MeshPlan, read
from rankmesh.torch._plan_groups import GroupDefaults, Groups, PlanGroups
from rankmesh.torch.backend import on
from rankmesh.torch.backend._engine_world import EngineWorld, own_address
from rankmesh.torch.backend._process_group import ProcessGroup

if TYPE_CHECKING:
    from rankmesh.torch._member import Member

LONGEST_CONNECT = 30.0  # seconds in which a rank that lives accepts a connection
MOST_SHOWN = 4  # sizes that fit
MakeWorld = Callable[[], rankmesh._engine.World]
ATTEMPT = datetime.timedelta(seconds=10)  # torch also asks for the name of the address, which may take 5 s


@dataclass
class Settings:
    """What torch.distributed and the groups are made with, in every world."""

    given: Sequence[Declaration]
    backend: str  # of the default group, such as 'cpu:rankmesh,cuda:rankmesh+nccl'
    patience: datetime.timedelta  # the timeout of the default group
    bound: torch.device | None  # the device that the default group is bound to
    groups: GroupDefaults
    owned: bool  # True if the member destroys torch.distributed


@dataclass
class Connected:
    """A world whose ranks are connected and have compared their plans. torch does not know it yet."""

    engine: EngineWorld
    store: Store
    hosts: list[str]
    plans: list[MeshPlan]
    wrong: UsageError | None  # why the plan does not fit the world


def engine_of(planned: PlanGroups, asked: str, lacks: str = "groups cannot lose or gain a rank") -> EngineWorld:
    """Returns the engine of a member's world; raises UsageError if torch's backend is another, whose groups lack it."""
    planned.groups.check_open()
    default = dist.group.WORLD
    if isinstance(default, ProcessGroup):
        return default.engine
    backend = dist.get_backend()
    raise UsageError(
        f"{asked} was called on the backend '{backend}', whose {lacks}; call rankmesh.torch.init without backend="
    )


def growing(planned: PlanGroups, asked: str) -> EngineWorld:
    """Returns the engine of a member's world if processes can enter it."""
    engine = without_standby(planned, asked)
    if not (os.environ.get("RANKMESH_STORE") and os.environ.get("RANKMESH_JOB")):
        raise UsageError(
            f"{asked} was called, but no new process can find this job; start its processes with RANKMESH_STORE and "
            "RANKMESH_JOB set"
        )
    if engine.world is not engine.root:
        raise UsageError(
            f"{asked} was called in a part of the world of {engine.root.size} ranks; call "
            f"reconfigure(range({engine.root.size})) on all of them first"
        )
    return engine


def without_standby(planned: PlanGroups, asked: str) -> EngineWorld:
    """Returns the engine of a member's world if no standby connects."""
    engine = engine_of(planned, asked)
    if engine.grows:
        raise UsageError(f"{asked} was called while a standby connects; call its ready() and swap() first")
    return engine


def settings_of(planned: PlanGroups) -> Settings:
    default = dist.group.WORLD
    assert isinstance(default, ProcessGroup)
    return Settings(
        given=[plan.given for plan in planned.meshes.values()],
        backend=dist.get_backend_config(),
        patience=default.options._timeout,
        bound=default.bound_device_id,
        groups=planned.defaults,
        owned=planned.groups.started,
    )


def connect(world: rankmesh._engine.World, settings: Settings, root: rankmesh._engine.World | None = None) -> Connected:
    """Connects the ranks of a new world and the groups of the plan. Every rank calls it; torch is not touched.

    Raises PeerLost if a rank ends meanwhile, and Disagreement on every rank if plans or backends differ.
    """
    engine = EngineWorld(world, root)
    plans: list[MeshPlan] = []
    wrong: UsageError | None = None
    try:
        plans = read(settings.given, world.size)
    except UsageError as error:
        wrong = unfit(settings.given, world.size, error)
    said = " | ".join(sorted(mesh.text for mesh in plans)) if wrong is None else str(wrong)
    said += f", on {settings.backend}" + (", beside it on the host" if settings.groups.host else "")
    store, place = _store(engine.whole(), world.local_size == world.size, settings.patience)
    hosts = _compare(engine.whole(), said, store is not None, place)
    assert store is not None
    for plan in sorted(plans, key=lambda plan: plan.name):
        for item in plan.items if not plan.lazy else ():
            ranks = plan.ranks(item, world.rank, hosts)
            if ranks is not None and len(ranks) > 1 and list(ranks) != list(range(world.size)):
                engine.prepare(list(ranks), plan.label(item).replace(",", "-").replace(":", "."))
    return Connected(engine, store, hosts, plans, wrong)


def _store(whole: Communicator, local: bool, timeout: datetime.timedelta) -> tuple[Store | None, str]:
    """Returns a store that rank 0 serves, None if this rank does not reach it, and its place."""
    served: TCPStore | None = None
    if whole.rank == 0:
        host = "127.0.0.1" if local else own_address()[0]
        served = TCPStore(host, 0, None, is_master=True, timeout=timeout, wait_for_workers=False)
    host, port = whole.broadcast_object((served.host, served.port) if served is not None else None)
    place = f"{host}:{port}"
    return _client(host, port, timeout) if served is None else served, place


def _client(host: str, port: int, timeout: datetime.timedelta) -> Store | None:
    """Returns the store at a place; None if nobody serves it, because its rank has ended or is not reached."""
    end = time.monotonic() + LONGEST_CONNECT
    while time.monotonic() < end:
        try:
            with socket.create_connection((host, port), LONGEST_CONNECT):
                pass
            store = TCPStore(host, port, None, is_master=False, timeout=ATTEMPT, wait_for_workers=False)
        except dist.DistNetworkError:  # its rank ends now, perhaps: TCPStore alone would try until its timeout
            continue
        except OSError:
            return None
        store.set_timeout(timeout)
        return store
    return None


def _compare(whole: Communicator, said: str, reached: bool, place: str) -> list[str]:
    """Returns the ranks' hosts; raises unless all passed equal plans and reach the store."""
    lines = whole.all_gather_object((said, reached, _variables.host_name()))
    if lost := [rank for rank, (_, there, _) in enumerate(lines) if not there]:
        raise EngineFailure(
            f"ranks {text_of(lost)} do not reach torch's new store, which rank 0 serves at {place}; set MASTER_ADDR on "
            "every rank to a name of its own host that the others reach"
        )
    texts = [(rank, text) for rank, (text, _, _) in enumerate(lines)]
    if len({text for _, text in texts}) > 1:
        raise disagreement("the ranks of the new world join different plans; every rank must declare the same", texts)
    return [host for _, _, host in lines]


def connect_survivors(
    world: rankmesh._engine.World, grace: float | datetime.timedelta, settings: Settings
) -> Connected:
    """Connects the ranks that are left of a world. If one ends meanwhile, those that are left of these."""
    while True:
        world = world.survivors(grace)
        try:
            return connect(world, settings)
        except PeerLost:
            continue


def swap(made: Connected, settings: Settings, *, broken: bool = False) -> PlanGroups:
    """Ends torch's groups, and makes those of the plan in a connected world.

    `broken`: a rank was lost, so torch must not wait for operations that run.
    """
    default = dist.group.WORLD
    if isinstance(default, ProcessGroup):
        # The frames of a failed step may hold a DistributedDataParallel, which would reduce gradients beside a new one.
        traceback.clear_frames(sys.exc_info()[2])
        default.engine.next = made.engine
        if broken:
            c10d._abort_process_group()
        else:
            dist.destroy_process_group()
        if sys.excepthook.__qualname__.endswith("_distributed_excepthook"):  # it would print the rank in the old world
            sys.excepthook = inspect.getclosurevars(sys.excepthook).nonlocals["old_hook"]
    world = made.engine.world
    start = _start.Start(world.rank, world.size, made.store, "rankmesh 0", made.store)
    with on(made.engine):
        _start.initialise(start, settings.backend, settings.bound, settings.patience)
    if made.wrong is not None:
        raise made.wrong
    groups = Groups(start.key, world.size, None, settings.patience, started=settings.owned)
    result = PlanGroups(made.plans, world.rank, made.hosts, groups, settings.groups)
    result.connect()
    return result


class Standby:
    """A larger world of a member's ranks and of new processes, which a thread connects.

    Meanwhile the member works. It must not make groups.
    """

    def __init__(self, planned: PlanGroups, engine: EngineWorld, make: MakeWorld) -> None:
        self._planned, self._engine, self._make = planned, engine, make
        self._settings = settings_of(planned)
        self._made: Connected | None = None
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
        self._all_connected = bool(state[1])
        if self._all_connected or not state[0]:
            return self._all_connected
        if self._error is not None:
            raise self._error
        raise _errors.PeerLost("another rank has lost a rank of the standby world; call survivors on all ranks")

    def swap(self) -> Member:
        """Ends the member's groups, and returns the Member of the new world. All its ranks call it at the same step.

        Raises UsageError unless `ready()` has returned True.
        """
        from rankmesh.torch._member import Member

        self._planned.groups.check_open()
        if not self._all_connected:
            raise UsageError("swap was called on a standby that is not connected on all ranks; call it after ready()")
        assert self._made is not None
        self._planned.standby = None
        return Member(swap(self._made, self._settings))


def connect_larger(engine: EngineWorld, make: MakeWorld, settings: Settings) -> Connected:
    """Connects a larger world. If this fails, survivors are those of the larger world, which others may be in."""
    before = engine.newest
    engine.newest = make()
    try:
        return connect(engine.newest, settings)
    except (PeerLost, Timeout):
        raise
    except Exception:  # on all ranks
        engine.newest = before
        raise


def unfit(given: Sequence[Declaration], size: int, why: UsageError) -> UsageError:
    """Returns the error of a plan that does not fit the world of this size, with the sizes that do."""
    text = f"the plan does not fit the new world: {why}"
    if len(given) == 1 and (axes := _axes(given[0].mesh)):
        fits = [" ".join(f"{axis}={n}" for axis, n in zip(axes, sizes, strict=True)) for sizes in _nearest(axes, size)]
        if rest := _with_rest(axes, size):
            fits.append(f"{rest} with partial=True")
        text += f"; sizes that fit are {', '.join(fits)}"
    return UsageError(f"{text}; to go on, call rankmesh.torch.init with a plan that fits")


def _axes(mesh: str | Mesh | Mapping[str, int | str]) -> dict[str, int | None]:
    """The sizes of the axes, None for '*'; empty for a mesh that is more than sizes, such as one with strides."""
    text = mesh.text if isinstance(mesh, Mesh) else mesh
    pairs = [each.partition("=")[::2] for each in text.split()] if isinstance(text, str) else list(text.items())
    sizes = {axis: None if str(n) == "*" else int(n) if str(n).isdecimal() else 0 for axis, n in pairs}
    return {} if 0 in sizes.values() or len(sizes) != len(pairs) else sizes


def _factors(size: int, axes: int) -> list[tuple[int, ...]]:
    if axes == 1:
        return [(size,)]
    return [(n, *rest) for n in range(1, size + 1) if size % n == 0 for rest in _factors(size // n, axes - 1)]


def _nearest(axes: Mapping[str, int | None], size: int) -> list[tuple[int, ...]]:
    """The sizes with this product that change the fewest axes, and those least."""

    def change(sizes: tuple[int, ...]) -> tuple[int, float]:
        ratios = [abs(math.log(n / was)) for n, was in zip(sizes, axes.values(), strict=True) if was not in (None, n)]
        return len(ratios), sum(ratios)

    return sorted(_factors(size, len(axes)), key=change)[:MOST_SHOWN]


def _with_rest(axes: Mapping[str, int | None], size: int) -> str:
    """The mesh with only the axis '*', or the first, made smaller, which leaves ranks out; '' if none fits."""
    free = next((axis for axis, n in axes.items() if n is None), next(iter(axes)))
    others = math.prod(n for axis, n in axes.items() if axis != free and n is not None)
    if others > size or size % others == 0:
        return ""
    return " ".join(f"{axis}={size // others if axis == free else n}" for axis, n in axes.items())
