"""The world of rankmesh's engine beneath a default process group."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Sequence

from torch._C._distributed_c10d import Store

from rankmesh._core import Mesh
from rankmesh._engine import Communicator, World
from rankmesh._errors import UsageError

PORTS = 8  # that rank 0 tries, one after the other, in case another process takes the first


class Engine:
    """A world that is started once per default process group, and makes a communicator for each process group."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._member = world.join(Mesh([("world", world.size)]))
        self._taken = {tuple(range(world.size))}

    def whole(self) -> Communicator:
        """Returns the communicator of all ranks."""
        return self._member.on("world")

    def group(self, ranks: Sequence[int], name: str, timeout: datetime.timedelta) -> Communicator:
        """Returns a communicator of these ranks, in this order. Exactly these ranks call it.

        No two share a channel: c10d's groups of the same ranks may be used by two threads, or in another order on
        each rank. Member.group shares it, so all but the first are of a world of their own.
        """
        members, name = tuple(sorted(ranks)), _short(name)
        if members not in self._taken:
            self._taken.add(members)
            return self._member.group(ranks, name=name, timeout=timeout)
        world = self.world.sub(ranks)
        return world.join(Mesh([(f"group-{name}"[:31], world.size)])).on(f"group-{name}"[:31]).within(timeout)

    def close(self, *, aborted: bool = False) -> None:
        """Ends this process's part in the world, as soon as its communicators have ended; aborted: at once."""
        if aborted:
            self.world.__exit__(RuntimeError, RuntimeError("the process group was aborted"), None)
        else:
            self.world.close()


def _short(name: str) -> str:
    """Returns c10d's name of a group as a name of rankmesh: at most 31 letters, digits, '_', '-' and '.'."""
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
    return plain if plain == name and len(name) <= 31 else hashlib.sha256(name.encode()).hexdigest()[:31]


def start(store: Store, rank: int, size: int, timeout: datetime.timedelta) -> Engine:
    """Starts the engine of RANKMESH_ENGINE, by default Gloo. The ranks find each other over torch's store."""
    engine = os.environ.get("RANKMESH_ENGINE", "gloo")
    if engine == "mpi":
        return Engine(_checked(World.from_environment(engine="mpi", timeout=timeout, multithreaded=True), rank, size))
    if engine != "gloo":
        raise UsageError(f"the backend 'rankmesh' was asked for RANKMESH_ENGINE={engine}; it has gloo and mpi")
    key = f"rankmesh {store.add(f'rankmesh starts of {rank}', 1)}"  # a store may serve one world after the other
    if rank == 0:
        store.set(key, " ".join(_place()))
    else:
        store.wait([key], timeout)
    url, job = str(store.get(key), "utf-8").split(" ")
    return Engine(World.from_store(url, rank, size, job=job, timeout=timeout))


def _checked(world: World, rank: int, size: int) -> World:
    if (world.rank, world.size) != (rank, size):
        raise UsageError(
            f"init_process_group was called as rank {rank} of {size}, but by MPI this is rank {world.rank} of "
            f"{world.size}; pass rank and world_size of MPI"
        )
    return world


def _place() -> tuple[str, str]:
    """Returns the URL of a store that rank 0 can serve, and a job id that no other process can guess."""
    job = secrets.token_hex(16)
    if url := os.environ.get("RANKMESH_STORE"):
        return url, job
    for host in (os.environ.get("MASTER_ADDR", ""), socket.gethostname(), "127.0.0.1"):
        if port := _free_port(host):
            name = f"[{host}]" if ":" in host else host
            return f"tcp://{name}:{port}-{min(port + PORTS - 1, 65535)}", job
    raise UsageError("rank 0 can listen neither on MASTER_ADDR nor on its host name; set RANKMESH_STORE")


def _free_port(host: str) -> int | None:
    """Returns a port that is free on a host name of this machine; None if the name is another machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.bind(address)
            return int(listener.getsockname()[1]) if host else None
    except OSError:
        return None
