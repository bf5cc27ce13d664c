"""Megatron-core's HyperCommGrid: the dimensions of some ranks, innermost first, and other ways to factor them.

By hand: a class whose views a program registers, and which keeps the groups that it has made.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from itertools import islice
from operator import index
from typing import Any, NamedTuple, TypeAlias

from rankmesh._core import Mesh, Partition
from rankmesh._originals import original, raises, refuse_if
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
        sizes = [index(size) for size in shape]
        _check_lengths(sizes, dim_names)
        world = _size_of_world() if world_size is None else world_size
        refuse_if(rank_offset < 0, ValueError, f"rank_offset must be non-negative, got {rank_offset}", "out of range")
        self.size = math.prod(sizes)
        text = f"Grid shape {sizes} is over sized with world size {world} and rank offset {rank_offset}"
        refuse_if(self.size > world - rank_offset, RuntimeError, text, "sizes")
        if small := [size for size in sizes if size < 1]:
            text = f"the grid shape {sizes} has a size of {small[0]}; every size is 1 or more"
            raise original(RuntimeError, text, "sizes", "sizes-below-one")
        text = f"the grid has duplicate dim_names: {dim_names}; list each once"
        refuse_if(_repeats(dim_names), ValueError, text, "argument", "axis-twice")
        self._rank = rank
        self.rank_offset = rank_offset
        self.shape = shape[:]
        self.dim_names = dim_names[:]
        self.backend = backend
        self._views = {"base": _RankViewSpec("base", shape[:], dim_names[:], [])}
        self._meshes = {"base": self._mesh(sizes, dim_names)}
        self._pgs: dict[Key, Any] = {}

    def register_view(
        self, name: str, shape: list[int], dim_names: list[str], shared_dims: list[str] | None = None
    ) -> None:
        """Another way to factor the same ranks, whose groups along the shared dimensions are the same in both."""
        sizes, shared = [index(size) for size in shape], list(shared_dims or [])
        refuse_if(name in self._views, ValueError, f"View '{name}' is already registered", "exists")
        _check_lengths(sizes, dim_names)
        refuse_if(_repeats(dim_names), ValueError, f"View '{name}' has duplicate dim_names: {dim_names}", "argument")
        text = f"View '{name}' shape must be positive ints, got {sizes}"
        refuse_if(any(size < 1 for size in sizes), ValueError, text, "sizes")
        text = f"View '{name}' shape {sizes} has size {math.prod(sizes)}, but the grid size is {self.size}"
        refuse_if(math.prod(sizes) != self.size, ValueError, text, "sizes")
        refuse_if(_repeats(shared), ValueError, f"View '{name}' has duplicate shared_dims: {shared}", "argument")
        mesh = self._mesh(sizes, dim_names)
        for dim in shared:
            for names, view in ((self.dim_names, "the base view"), (dim_names, "the view's dim_names")):
                text = f"Shared dim '{dim}' of view '{name}' is not in {view} {names}"
                refuse_if(dim not in names, ValueError, text, "unknown")
            self._check_shared([dim], f"Shared dim '{dim}' has", mesh, name)
        if len(shared) > 1:
            self._check_shared(shared, f"Shared dims {shared} have", mesh, name)
        self._views[name] = _RankViewSpec(name, shape[:], dim_names[:], shared)
        self._meshes[name] = mesh

    def create_pg(self, dims: str | Sequence[str], *, view: str | None = None, **kwargs: Any) -> Any:
        """This rank's group along these dimensions, None outside the grid; KeyError where it was made already.

        It is torch's where torch is and no rank was given, and the keywords are those of its
        new_subgroups_by_enumeration, which all ranks of the grid call.
        """
        key, mesh, names = self._resolve(dims, view)
        if key in self._pgs:
            text = (
                f"Process group {_asked(dims, key)} has already been created. Because there is no way to check "
                "whether options to create process group matches the first, we error out instead of returning the "
                "process group that has already been created before."
            )
            raise original(KeyError, text, "exists")
        if (distributed := self._distributed()) is None:
            rank = self._own_rank()
            self._pgs[key] = mesh.group(rank, *names) if rank in mesh else None
            return self._pgs[key]
        ranks = [list(group) for group in mesh.partition(*names)]
        try:
            self._pgs[key], _ = distributed.new_subgroups_by_enumeration(ranks, backend=self.backend, **kwargs)
        except ValueError:
            self._own_rank()  # says it, if torch.distributed is not initialised
            raise
        if distributed.is_initialized() and distributed.get_rank() == 0:
            import logging

            logging.info("Generated process group for %s with enumeration %s", key, ranks)
        return self._pgs[key]

    def get_pg(self, dims: str | Sequence[str], *, view: str | None = None) -> Any:
        """What create_pg gave for these dimensions, in any order; KeyError where it was not called."""
        key, _, _ = self._resolve(dims, view)
        if key not in self._pgs:
            asked = f"for {key}" if isinstance(key, str) else _asked(dims, key)
            text = f"Process group {asked} hasn't been created. Call create_pg first."
            raise original(KeyError, text, "not initialised")
        return self._pgs[key]

    def destroy(self) -> None:
        """Ends and forgets all groups."""
        if (distributed := self._distributed()) is not None:
            members = [pg for pg in self._pgs.values() if pg not in (None, distributed.GroupMember.NON_GROUP_MEMBER)]
            for pg in {id(pg): pg for pg in members}.values():
                distributed.destroy_process_group(pg)
        self._pgs.clear()

    def get_rank_enum(self, dims: str | Sequence[str], *, view: str | None = None) -> list[list[int]]:
        """All groups along these dimensions, in any order."""
        _, mesh, names = self._resolve(dims, view)
        return [list(group) for group in mesh.partition(*names)]

    def is_current_rank_in_grid(self) -> bool:
        """True if this rank is one of rank_offset .. rank_offset + size - 1."""
        return self._own_rank() in self._meshes["base"]

    def _mesh(self, sizes: list[int], dim_names: list[str]) -> Mesh:
        """The dimensions turned round: the last is outermost."""
        axes = [(_ALONE, 1), *reversed(list(zip(dim_names, sizes, strict=True)))]
        return Mesh(axes).shifted(self.rank_offset)

    def _check_shared(self, dims: list[str], what: str, mesh: Mesh, view: str) -> None:
        own, other = self._meshes["base"].partition(*dims), mesh.partition(*dims)
        text = (
            f"{what} different membership across views: base enumeration {_listed(own)} != "
            f"view '{view}' enumeration {_listed(other)}"
        )
        refuse_if(own != other, ValueError, text, "sizes")

    def _resolve(self, dims: str | Sequence[str], view: str | None) -> tuple[Key, Mesh, list[str]]:
        """Under which a group is kept, that of shared dimensions as the grid's own, and the axes of a mesh."""
        text = f"View '{view}' is not registered. Registered views: {sorted(self._views)}"
        refuse_if(view is not None and view not in self._views, KeyError, text, "unknown")
        of = self._views[view or "base"]
        names = [dims] if isinstance(dims, str) else list(dims)
        if missing := [dim for dim in names if dim not in of.dim_names]:
            text = f"{missing[0]!r} is not in view '{of.name}' with dim_names {of.dim_names}"
            raise original(ValueError, text, "unknown")
        refuse_if(_repeats(names), ValueError, f"the dimensions {names} repeat; name each once", "argument")
        is_own = of.name == "base" or set(names) <= set(of.shared_dims)
        key: Key
        names, key = self._order_dims_for(self.dim_names if is_own else of.dim_names, names)
        if not is_own:
            key = (of.name, tuple(names))
        return key, self._meshes["base" if is_own else of.name], [*names, _ALONE]

    def _distributed(self) -> Any:
        """torch.distributed, which makes the groups of a grid that was given no rank; None where it is not imported."""
        return sys.modules.get("torch.distributed") if self._rank is None else None

    @raises(ValueError)
    def _own_rank(self) -> int:
        return world_of("HyperCommGrid", None, None)[0] if self._rank is None else self._rank

    def _gen_rank_enum(self, dims: list[str]) -> list[list[int]]:
        """All groups along these dimensions, each listed with the first dimension outermost."""
        self._resolve(dims, None)
        return [list(group) for group in self._meshes["base"].partition_in_order(*dims, _ALONE)]

    def _order_dims_for(self, dim_names: list[str], dims: str | Sequence[str]) -> tuple[list[str], str]:
        """The dimensions in the order of the reversed names, and joined."""
        asked = [dims] if isinstance(dims, str) else list(dims)
        if missing := [dim for dim in asked if dim not in dim_names]:
            raise original(ValueError, f"{missing[0]!r} is not in list", "unknown")
        ordered = [name for name in reversed(dim_names) if name in asked]
        return ordered, "-".join(ordered)


_ALONE = "of-one-rank"  # an axis of size 1, of grids and groups without any dimension


def _asked(dims: str | Sequence[str], key: Key) -> str:
    """What was asked for, in errors."""
    said = str(dims[0] if len(dims) == 1 else dims)
    return said if isinstance(key, str) else f"{said} for view '{key[0]}'"


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _check_lengths(sizes: list[int], dim_names: list[str]) -> None:
    text = f"len(shape) {sizes} != len(dim_names) {dim_names}"
    refuse_if(len(sizes) != len(dim_names), ValueError, text, "argument")


def _size_of_world() -> int:
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    if (torch := of_torch()) is not None:
        return torch[1]
    text = (
        "Cannot determine world size: WORLD_SIZE environment variable not set and torch.distributed is not "
        "initialized. Please either set WORLD_SIZE or initialize torch.distributed before creating HyperCommGrid."
    )
    raise original(RuntimeError, text, "missing")


def _listed(groups: Partition) -> str:
    """The groups as lists, the first few of many."""
    first = [list(group) for group in islice(groups, 8)]
    return str(first) if len(first) == len(groups) else f"{str(first)[:-1]}, ...]"
