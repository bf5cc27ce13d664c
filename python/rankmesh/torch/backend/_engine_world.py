"""The world of rankmesh's engine beneath a default process group."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence

from rankmesh._core import Mesh
from rankmesh._engine import Communicator, Member, World
from rankmesh._errors import UsageError
from rankmesh.torch._compat import Store
from rankmesh.torch._errors import of_backend

_starts = itertools.count(1)  # of worlds that this process has placed as rank 0
PORTS = 8  # that rank 0 tries, one after the other, in case another process takes the first


class EngineWorld:
    """A world that is started once per default process group, and makes a communicator for each process group."""

    def __init__(self, world: World, root: World | None = None) -> None:
        """`root` is the whole world if `world` is a part of one; None: `world` is whole."""
        self.world, self.root = world, root or world
        self.newest = world  # the world that survivors must be asked of: a larger one, if processes have entered it
        self.next: EngineWorld | None = None  # the engine that goes on with the process, where one does
        self.grows = False  # True while a thread makes a larger world; the world then makes no groups
        member = world.join(Mesh([("world", world.size)]))
        self._member: Member | None = member
        self._alone: Communicator | None = member.group([world.rank], name="alone")
        self._prepared: dict[tuple[int, ...], Communicator] = {}
        self._taken = {tuple(range(world.size))}
        self.where: Callable[[Iterable[int]], str] | None = None
        """Returns the coordinates of ranks as the end of an error's text; None: no mesh is known."""

    def whole(self) -> Communicator:
        return self._open().on("world")

    def group(self, ranks: Sequence[int], name: str, timeout: datetime.timedelta) -> Communicator:
        """Returns a communicator of these ranks, in this order. Exactly these ranks call it.

        No two share a channel: c10d's groups of the same ranks may be used by two threads, or in another order on
        each rank. Member.group shares it, so all but the first are of a world of their own.
        """
        if len(ranks) == 1 and self._alone is not None:
            return self._alone.within(timeout)
        prepared = self._prepared.pop(tuple(ranks), None)
        if prepared is not None:
            return prepared.within(timeout)
        if self.grows:
            raise UsageError(
                f"a group of the ranks {list(ranks)} was asked for while a standby connects; make it before "
                "standby(), or after swap()"
            )
        member, name = self._open(), _short(name)
        if self._take(ranks):
            return member.group(ranks, name=name, timeout=timeout)
        name = f"group-{name}"[:31]
        world = self.world.sub(ranks)
        return world.join(Mesh([(name, world.size)])).on(name).within(timeout)

    def prepare(self, ranks: Sequence[int], name: str) -> None:
        """Connects these ranks for the next `group` of them. Exactly these ranks call it."""
        if self._take(ranks):
            self._prepared[tuple(ranks)] = self._open().group(ranks, name=_short(name))

    def _take(self, ranks: Sequence[int]) -> bool:
        """Returns True at the first call with these ranks."""
        members = tuple(sorted(ranks))
        is_new = members not in self._taken
        self._taken.add(members)
        return is_new

    def located(self, error: Exception) -> Exception:
        """Returns an error of the engine as one of the backend, with the coordinates of the ranks that it names."""
        ranks = getattr(error, "missing", None) or getattr(error, "ranks", [])
        if self.where is None:
            return of_backend(error)
        return of_backend(error, self.where(ranks) if ranks else "", without=f" of mesh world={self.world.size}")

    def close(self, *, aborted: bool = False) -> None:
        """Ends this process's part in the world, as soon as its communicators have ended; aborted: at once."""
        self._prepared.clear()
        ends = {id(world): world for world in (self.world, self.root)}
        if self.next is not None and self.next.root is self.root:
            del ends[id(self.root)]
        for world in ends.values():
            if aborted and self.next is None:
                world.__exit__(RuntimeError, RuntimeError("the process group was aborted"), None)
            else:
                world.close()
        self._member = self._alone = None  # whoever still has this object, the connections end

    def _open(self) -> Member:
        if self._member is None:
            raise UsageError("the default process group was destroyed; its groups are over")
        return self._member


def _short(name: str) -> str:
    """Returns c10d's name of a group as a name of rankmesh: at most 31 letters, digits, '_', '-' and '.'."""
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
    return plain if plain == name and len(name) <= 31 else hashlib.sha256(name.encode()).hexdigest()[:31]


def start(store: Store, rank: int, size: int, timeout: datetime.timedelta, checked: bool | None) -> EngineWorld:
    """Starts the engine of RANKMESH_ENGINE, by default Gloo. The ranks find each other over torch's store."""
    engine = os.environ.get("RANKMESH_ENGINE") or "gloo"
    if engine == "mpi":
        world = World.from_environment(engine="mpi", timeout=timeout, multithreaded=True, checked=checked)
        if (world.rank, world.size) != (rank, size):
            raise UsageError(
                f"init_process_group was called as rank {rank} of {size}, but by MPI this is rank {world.rank} of "
                f"{world.size}; pass rank and world_size of MPI"
            )
        return EngineWorld(world)
    if engine != "gloo":
        raise UsageError(f"the backend 'rankmesh' was asked for RANKMESH_ENGINE={engine}; it has gloo and mpi")
    key = f"rankmesh {store.add(f'rankmesh starts of {rank}', 1)}"  # a store may serve one world after the other
    if rank == 0:
        store.set(key, " ".join(_place()))
    else:
        store.wait([key], timeout)
    url, job = str(store.get(key), "utf-8").split(" ")
    secret = "RANKMESH_STORE" not in os.environ  # else the job may be one that other processes can enter
    world = World.from_store(url, rank, size, job=job, job_is_secret=secret, timeout=timeout, checked=checked)
    return EngineWorld(world)


def _place() -> tuple[str, str]:
    """Returns the URL of a store, and the id of the job in it.

    Without RANKMESH_STORE rank 0 serves the store. Without RANKMESH_JOB no other process can guess the id; later worlds
    of the same processes have another, such as JOB.2, because a store takes an id once.
    """
    number, given = next(_starts), os.environ.get("RANKMESH_JOB")
    job = secrets.token_hex(16) if not given else given if number == 1 else f"{given}.{number}"
    if url := os.environ.get("RANKMESH_STORE"):
        return url, job
    host, port = own_address()
    name = f"[{host}]" if ":" in host else host
    return f"tcp://{name}:{port}-{min(port + PORTS - 1, 65535)}", job


def own_address() -> tuple[str, int]:
    """Returns a name of this machine that other ranks know, and a port that is free there."""
    for host in (os.environ.get("MASTER_ADDR"), socket.gethostname(), "127.0.0.1"):
        if host and (port := _free_port(host)):
            return host, port
    raise UsageError("this rank can listen neither on MASTER_ADDR nor on its host name; set RANKMESH_STORE")


def _free_port(host: str) -> int | None:
    """Returns a port that is free on a host name of this machine; None if the name is another machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.bind(address)
            return int(listener.getsockname()[1])
    except OSError:
        return None
