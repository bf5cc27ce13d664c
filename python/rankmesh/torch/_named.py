"""Process groups under the names of another framework."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from rankmesh._core import Group, Partition
from rankmesh.torch._agree import agree
from rankmesh.torch._start import DEFAULT_TIMEOUT, adopt
from rankmesh.torch._world import Groups


@dataclass(frozen=True)
class Named:
    """A group of this rank under the framework's name for it; `apart` from others of equal ranks.

    `parts` are the groups of all ranks, where every rank of the world asks for its own: torch may split them. `made`
    is called with the group before the next one is made.
    """

    name: str
    ranks: Group
    backend: str | None = None
    apart: bool = False
    parts: Partition | None = None
    pg_options: Any = None
    made: Callable[[dist.ProcessGroup], object] | None = None


@contextlib.contextmanager
def errors_reach_peers(
    said: str, timeout: datetime.timedelta | None = None, *, compared: bool = True
) -> Iterator[None]:
    """Compares an exception raised within like a call, before it goes on: no rank waits for the one that raises."""
    try:
        yield
    except Exception as error:
        if compared:
            NamedGroups(f"{said}, which is wrong: {error}", [], timeout=timeout)
        raise


class NamedGroups:
    """This rank's process groups of a framework on an initialised torch.distributed, compared before they are made.

    `said` is equal on all ranks that mean the same, and each rank wants its groups in an order that they share. Where
    only some ranks of the world make theirs, `compared` is false.
    """

    def __init__(
        self,
        said: str,
        wanted: Iterable[Named],
        *,
        timeout: datetime.timedelta | None = None,
        compared: bool = True,
    ) -> None:
        start = adopt()
        self._default = dist.get_backend()
        compared = compared and self._default != "fake"  # such a world is this process
        patience = timeout or DEFAULT_TIMEOUT
        if compared:

            def where(_: Iterable[int]) -> str:
                return f"; this rank says {said}"

            start.part_from_earlier(patience, where)
            agree(start.store, start.rank, start.size, said, patience, where, start.answer)
        self._timeout = timeout
        self._groups = Groups(start.key, start.size, start.store if compared else None, patience)
        self._named: dict[str, dist.ProcessGroup] = {}
        try:
            for each in wanted:
                self.add(each)
            self._groups.connected()
        except BaseException:
            self._groups.destroy(wait=False)
            raise

    def add(self, wanted: Named) -> dist.ProcessGroup:
        """Makes one more, with all of its ranks."""
        label = wanted.name if len(wanted.ranks) > 1 else "alone"
        options: dict[str, Any] = {
            "own": wanted.name if wanted.apart else "",
            "timeout": self._timeout,
            "backend": None if self._default in (wanted.backend, "fake") else wanted.backend,
            "pg_options": wanted.pg_options,
        }
        if (parts := wanted.parts) is not None:
            self._groups.split(label, lambda: parts, **options)
        group = self._named[wanted.name] = self._groups.get(label, wanted.ranks, **options)
        if wanted.made is not None:
            wanted.made(group)
        return group

    def __getitem__(self, name: str) -> dist.ProcessGroup:
        self._groups.check_open()
        return self._named[name]

    @property
    def ended(self) -> bool:
        """True after `destroy`, here or of all of torch.distributed."""
        return self._groups.ended

    @property
    def groups(self) -> list[dist.ProcessGroup]:
        """All of them, each once."""
        return list({id(group): group for group in self._named.values()}.values())

    def destroy(self) -> None:
        """Ends the groups."""
        self._groups.destroy()
