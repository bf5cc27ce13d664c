"""reshard and reshard_plan: the calls on tensors of a running job, and on layouts without processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from rankmesh._core import Sharding
from rankmesh._errors import UsageError
from rankmesh.torch._reshard.describe import Fused, Layouts, Side, Stated, held, stated_twice
from rankmesh.torch._reshard.move import ALIGNED, move
from rankmesh.torch._reshard.plan import Layout, Moves, plan
from rankmesh.torch._reshard.share import Tables, agreed, said, tables, together

STAGING = 64 << 20  # bytes


def _target(stated: Stated) -> DTensor | None:
    """Returns the DTensor that a statement fills in place."""
    target = stated.of if isinstance(stated, Fused) else stated
    return target if isinstance(target, DTensor) else None


@dataclass
class _Wanted:
    """What this rank wants: statements by name, and the tensors of this rank."""

    to: Mapping[str, Stated]
    tensors: dict[str, torch.Tensor]  # those that are there; the others are allocated

    @classmethod
    def of(cls, to: Mapping[str, Stated], out: Mapping[str, torch.Tensor]) -> _Wanted:
        for name in out:
            if name not in to:
                raise UsageError(f"out has '{name}', but `to` does not say its layout; add it to `to`")
            if _target(to[name]) is not None:
                raise UsageError(f"'{name}' is a DTensor in `to`, which is filled in place; leave it out of out")
        tensors = {name: target for name, stated in to.items() if (target := _target(stated)) is not None}
        return cls(to, {**tensors, **out})

    def side(self, rank: int, layouts: Layouts) -> Side:
        """Returns the layouts; tensors that are not there are on the device meta."""
        side = Side(layouts, rank)
        for name, stated in self.to.items():
            there = self.tensors.get(name)
            tensor = there
            if tensor is None and (shape := side.local_shape(name, stated)) is not None:
                tensor = torch.empty(shape, device="meta")
            side.state(name, stated, tensor, there.dtype if there is not None else None)
        return side

    def allocate(self, side: Side, all_parts: Tables, device: torch.device) -> None:
        """Allocates this rank's tensors that are not there, in the dtype of their elements before."""
        for name, stated in self.to.items():
            if name in self.tensors or (shape := side.local_shape(name, stated)) is None:
                continue
            dtypes = {all_parts.dtypes[part] for part in (stated.parts if isinstance(stated, Fused) else [name])}
            if len(dtypes) > 1:
                raise UsageError(f"the parts of '{name}' have the dtypes {dtypes}; pass the tensor of one dtype in out")
            self.tensors[name] = torch.empty(shape, dtype=dtypes.pop(), device=device)


def _memory(side: Side) -> dict[int, str]:
    storages = ((shard.view.untyped_storage(), name) for name, shard in side.shards.items())
    return {storage.data_ptr(): name for storage, name in storages if storage.nbytes() > 0}


def _check_apart(before: Side, after: Side) -> None:
    had = _memory(before)
    for address, name in _memory(after).items():
        if address in had:
            raise UsageError(f"'{name}' would be written over '{had[address]}' of the state dict; pass a copy")


def _check_members(parts: Tables, ranks: Iterable[int]) -> None:
    members = set(ranks)
    for name, layout in [*parts.before.items(), *((name, each) for name, many in parts.after.items() for each in many)]:
        if others := sorted(set(layout.ranks) - members):
            raise UsageError(
                f"the mesh of '{name}' has rank {others[0]}, which is not in the group; pass a group of all ranks of "
                "both meshes"
            )


def reshard(
    state_dict: Mapping[str, Any],
    to: Mapping[str, Sharding | Fused | DTensor],
    *,
    from_: Mapping[str, Sharding | Fused] | None = None,
    out: Mapping[str, torch.Tensor] | None = None,
    group: dist.ProcessGroup | None = None,
    host: int | None = None,
    staging: int = STAGING,
) -> dict[str, torch.Tensor]:
    """Moves the tensors of a state dict to other layouts, and returns this rank's tensors in them.

    Every rank of `group` calls it: the ranks that hold the tensors, those that want them, and those that do both.

    `state_dict` has this rank's tensors: DTensors, and plain tensors whose layout `from_` states. A plain tensor
    without a statement is replicated over the ranks of the DTensors. `to` states the wanted layouts. A Sharding or a
    Fused gives a new tensor, or fills that of `out`. A DTensor is filled in place. A rank states each tensor whose mesh
    contains the rank; it may leave out the others. All ranks that state a tensor state the same. Elements become the
    dtype of the wanted tensor, before they travel.

    `host` is the number of consecutive ranks that share a host, by default LOCAL_WORLD_SIZE, else 1. Each element is
    read from the same rank, else from the same host, else from one of the replicas in turn; a host receives it once.
    Besides the new tensors the call uses `staging` bytes of memory, and the tables of all names.

    Raises UsageError or Disagreement on all ranks, before data moves, if statements are wrong or differ.

        # trainers are ranks 0 to 3 with DTensors, rollout ranks 4 and 5 hold plain shards
        rollout = {"w": Sharding("tp=2 @4", (4096, 4096), "1=tp")}
        weights = rankmesh.torch.reshard(model.state_dict() if rank < 4 else {}, to=rollout)
    """
    world = group if group is not None else dist.group.WORLD
    if world is None:
        raise UsageError("reshard moves over a group of torch.distributed, which is not initialised; initialise it")
    host = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if host is None else host
    rank, layouts = dist.get_rank(), Layouts()

    def state() -> tuple[tuple[Side, _Wanted, Side], Any]:
        if staging < 2 * ALIGNED or host < 1:
            raise UsageError(f"staging is {staging} bytes and host {host}; give {2 * ALIGNED} or more, and 1 or more")
        for name, each in (("state_dict", state_dict), ("to", to)):
            if not isinstance(each, Mapping):
                raise UsageError(f"{name} is of type {type(each).__name__}; pass a dict, such as model.state_dict()")
        before = held(state_dict, from_ or {}, rank, layouts)
        wanted = _Wanted.of(to, out or {})
        after = wanted.side(rank, layouts)
        return (before, wanted, after), said(before, after, [staging, host])

    (before, wanted, after), heard = together(world, state)
    device = next((shard.view.device for shard in before.shards.values()), None)
    device = device or next((each.device for each in wanted.tensors.values()), torch.get_default_device())

    def prepare() -> tuple[tuple[Moves, Tables, Side], Any]:
        agreed(heard, ["staging", "host"], dist.get_process_group_ranks(world))
        parts = tables(heard, layouts, before, after)
        _check_members(parts, dist.get_process_group_ranks(world))
        moves = plan(parts.before, parts.after, rank, host)
        wanted.allocate(after, parts, device)
        final = wanted.side(rank, layouts)
        _check_apart(before, final)
        return (moves, parts, final), None

    (moves, parts, final), _ = together(world, prepare)
    dtypes = {(name, i): parts.dtype(name, i) for name, many in parts.after.items() for i in range(len(many))}
    move(world, moves, before.shards, final.shards, dtypes, device, staging)
    return {name: wanted.tensors[name] for name in to if name in wanted.tensors}


def reshard_plan(
    from_: Mapping[str, Sharding | Fused], to: Mapping[str, Sharding | Fused], *, rank: int, host: int = 1
) -> Moves:
    """Returns what one rank of `reshard` sends, receives and keeps for these layouts, without processes.

    Raises UsageError like `reshard`.

    >>> from rankmesh import Sharding
    >>> moves = reshard_plan({"w": Sharding("tp=2", (8,), "0=tp")}, {"w": Sharding("tp=4", (8,), "0=tp")}, rank=2)
    >>> moves.receives
    [Move(stage=0, peer=1, name='w', to=0, box=((4, 6),))]
    """
    layouts = Layouts()
    before: dict[str, Layout] = {}
    after: dict[str, Layout] = {}
    for given, parts in ((from_, before), (to, after)):
        side = Side(layouts, rank)
        for name, stated in given.items():
            for part, layout in side.parts_of(name, stated, None).items():
                if part in parts:
                    raise stated_twice(part)
                parts[part] = layout
    return plan(before, {name: [layout] for name, layout in after.items()}, rank, host)
