"""The frameworks that are described by rows: their groups and answers for any rank, without processes.

>>> state("vllm", rank=3, world_size=8, tensor_model_parallel_size=2).groups["tp"]
[2, 3]
"""

from __future__ import annotations

import contextlib
from typing import Any

from rankmesh._core import Mesh
from rankmesh._errors import UsageError
from rankmesh._frameworks import rows as _rows


def names() -> list[str]:
    """Returns the names of these frameworks."""
    return _rows.names()


class State:
    """The answers of a framework's accessors on one rank, made by `state`."""

    def __init__(self, framework: str, rank: int, world_size: int, settings: dict[str, Any]) -> None:
        self._state = _rows.State(_rows.Groups(framework, settings, world_size), rank)

    @property
    def mesh(self) -> Mesh:
        """The framework's own axes, outermost first."""
        return self._state.groups.mesh

    @property
    def groups(self) -> dict[str, list[int] | None]:
        """This rank's group of each kind, in the framework's order; None if it is in no group."""
        groups, rank = self._state.groups, self._state.rank
        return {kind: None if (own := groups.of(kind, rank)) is None else list(own) for kind in groups.kinds()}

    def partition(self, kind: str) -> list[list[int]]:
        """Returns all groups of a kind, in the order in which the framework creates them."""
        return self._state.groups.partition(kind)

    def ask(self, accessor: str, **options: Any) -> Any:
        """Returns the answer of an accessor. Raises UsageError if the original raises."""
        return self._state.ask(accessor, options)

    def answers(self) -> dict[str, Any]:
        """The answers of all accessors by name, without options. Accessors for which the original raises are
        omitted."""
        found = {}
        for accessor in self._state.accessors():
            with contextlib.suppress(UsageError):
                found[accessor] = self.ask(accessor)
        return found


def state(framework: str, *, rank: int, world_size: int, **settings: Any) -> State:
    """Returns the state of a rank for the framework's settings. Raises UsageError for settings that the framework
    refuses."""
    return State(framework, rank, world_size, settings)
