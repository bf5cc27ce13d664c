"""Megatron-core's HyperCommGrid: the dimensions of some ranks, innermost first, and other ways to factor them.

By hand: a class whose views a program registers, and which keeps the groups that it has made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from rankmesh._dialects import megatron as _native
from rankmesh._originals import original, raises
from rankmesh._world import of_torch, world_of

Key: TypeAlias = "str | tuple[str, tuple[str, ...]]"
"""`dp-cp`, or `('expert', ('ep',))` for a view's own."""


class _RankViewSpec(NamedTuple):
    """A way to factor the ranks of a grid."""

    name: str
    shape: list[int]
    dim_names: list[str]
    shared_dims: list[str]


class HyperCommGrid:
    """A grid over a range of ranks, with process groups along any of its dimensions.

    >>> grid = HyperCommGrid([2, 2, 2], ["tp", "cp", "dp"], rank=5, world_size=8)
    >>> grid.create_pg(["dp", "cp"])
    Group('{1, 3, 5, 7}')
    """

    @raises(ValueError, missing=RuntimeError, sizes=RuntimeError)
    def __init__(
        self,
        shape: list[int],
        dim_names: list[str],
        rank_offset: int = 0,
        backend: str | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self._rank = rank
        if world_size is None and "WORLD_SIZE" not in os.environ and (torch := of_torch()):
            world_size = torch[1]
        self._native = _native.Grid(shape, dim_names, world_size, rank_offset)
        self.rank_offset = rank_offset
        self.size = self._native.size
        self.shape = shape[:]
        self.dim_names = dim_names[:]
        self.backend = backend
        self._views = {"base": _RankViewSpec("base", shape[:], dim_names[:], [])}
        self._pgs: dict[Key, Any] = {}

    @raises(ValueError)
    def register_view(
        self, name: str, shape: list[int], dim_names: list[str], shared_dims: list[str] | None = None
    ) -> None:
        """Another way to factor the same ranks, whose groups along the shared dimensions are the same in both."""
        shared = list(shared_dims) if shared_dims is not None else []
        self._native.register_view(name, shape, dim_names, shared)
        self._views[name] = _RankViewSpec(name, shape[:], dim_names[:], shared)

    @raises(ValueError, exists=KeyError)
    def create_pg(self, dims: str | Sequence[str], *, view: str | None = None, **kwargs: Any) -> Any:
        """This rank's group along these dimensions, None outside the grid; KeyError where it was made already.

        It is torch's where torch is and no rank was given, and the keywords are those of its
        new_subgroups_by_enumeration, which all ranks of the grid call.
        """
        key = self._key(dims, view)
        group = None if key in self._pgs else self._make(dims, view, **kwargs)
        self._native.create_pg(dims, view)  # raises where it was made already
        self._pgs[key] = group
        return group

    @raises(ValueError, not_initialised=KeyError)
    def get_pg(self, dims: str | Sequence[str], *, view: str | None = None) -> Any:
        """What create_pg gave for these dimensions, in any order; KeyError where it was not called."""
        key = self._key(dims, view)
        self._native.get_pg(dims, view)  # raises where it was not made
        return self._pgs[key]

    def destroy(self) -> None:
        """Ends and forgets all groups."""
        if (distributed := self._distributed()) is not None:
            members = [pg for pg in self._pgs.values() if pg not in (None, distributed.GroupMember.NON_GROUP_MEMBER)]
            for pg in {id(pg): pg for pg in members}.values():
                distributed.destroy_process_group(pg)
        self._native.destroy()
        self._pgs.clear()

    @raises(ValueError)
    def get_rank_enum(self, dims: str | Sequence[str], *, view: str | None = None) -> list[list[int]]:
        """All groups along these dimensions, in any order."""
        self._check_view(view)
        return self._native.get_rank_enum(dims, view)

    def is_current_rank_in_grid(self) -> bool:
        """True if this rank is one of rank_offset .. rank_offset + size - 1."""
        return self._native.is_rank_in_grid(self._own_rank())

    def _distributed(self) -> Any:
        """torch.distributed, which makes the groups of a grid that was given no rank; None where it is not imported."""
        return sys.modules.get("torch.distributed") if self._rank is None else None

    def _make(self, dims: str | Sequence[str], view: str | None, **kwargs: Any) -> Any:
        if (distributed := self._distributed()) is None:
            return self._native.group(dims, view, self._own_rank())
        ranks = self._native.get_rank_enum(dims, view)
        try:
            group, _ = distributed.new_subgroups_by_enumeration(ranks, backend=self.backend, **kwargs)
        except ValueError:
            self._own_rank()  # says it, if torch.distributed is not initialised
            raise
        if distributed.is_initialized() and distributed.get_rank() == 0:
            import logging

            logging.info("Generated process group for %s with enumeration %s", self._key(dims, view), ranks)
        return group

    def _own_rank(self) -> int:
        return world_of("HyperCommGrid", None, None)[0] if self._rank is None else self._rank

    @raises(KeyError)
    def _check_view(self, view: str | None) -> None:
        self._native.mesh(view)

    def _key(self, dims: str | Sequence[str], view: str | None) -> Key:
        self._check_view(view)
        own, names = self._native.key(dims, view)
        return (own, tuple(names)) if own else "-".join(names)

    @raises(ValueError)
    def _gen_rank_enum(self, dims: list[str]) -> list[list[int]]:
        """All groups along these dimensions, each listed with the first dimension outermost."""
        return self._native.gen_rank_enum(dims)

    def _order_dims_for(self, dim_names: list[str], dims: str | Sequence[str]) -> tuple[list[str], str]:
        """The dimensions in the order of the reversed names, and joined."""
        asked = [dims] if isinstance(dims, str) else list(dims)
        if missing := [dim for dim in asked if dim not in dim_names]:
            raise original(ValueError, f"{missing[0]!r} is not in list", "unknown")
        ordered = [name for name in reversed(dim_names) if name in asked]
        return ordered, "-".join(ordered)
