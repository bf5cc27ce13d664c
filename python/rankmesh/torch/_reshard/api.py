"""reshard and reshard_plan: the calls on tensors of a running job, and on layouts without processes.

The ranks of a group tell each other the layouts that each needs to know, and all raise if one is wrong."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.tensor import DTensor

from rankmesh._core import Sharding
from rankmesh._errors import UsageError
from rankmesh.torch._agree import disagreement, text_of
from rankmesh.torch._errors import Disagreement
from rankmesh.torch._reshard.describe import Fused, Layouts, Side, Stated, held, stated_twice
from rankmesh.torch._reshard.move import ALIGNED, move
from rankmesh.torch._reshard.plan import Layout, Moves, Window, merged, plan

STAGING = 64 << 20  # bytes
T = TypeVar("T")

MOST_SHOWN = 4  # errors of other ranks that a rank's error lists


@dataclass
class Tables:
    """All parts of all ranks, equal on every rank."""

    before: dict[str, Layout] = field(default_factory=dict)
    after: dict[str, list[Layout]] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    wanted: dict[str, list[torch.dtype | None]] = field(default_factory=dict)

    def dtype(self, name: str, to: int) -> torch.dtype:
        """Returns the type in which elements of a part travel: that of the wanted tensor, or else their own."""
        return self.wanted[name][to] or self.dtypes[name]


def gather(group: dist.ProcessGroup, data: bytes) -> list[bytes]:
    """Returns the data of all ranks, in the order of the group: an all_reduce of sizes, then one of bytes."""
    device = torch.device(c10d._get_object_coll_device(group))
    sizes = torch.zeros(group.size(), dtype=torch.int64, device=device)
    sizes[group.rank()] = len(data)
    dist.all_reduce(sizes, group=group)
    ends = sizes.cumsum(0).tolist()
    if ends[-1] == 0:
        return [b""] * group.size()
    everything = torch.zeros(ends[-1], dtype=torch.uint8, device=device)
    begin = ends[group.rank()] - len(data)
    if data:
        everything[begin : begin + len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device)
    dist.all_reduce(everything, group=group)
    received = everything.cpu().numpy().tobytes()
    return [received[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _packed(content: object) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)


def _said(side: Side) -> list[Any]:
    """Returns what a side states about parts whose first rank is this one: each layout once, then the parts."""
    numbers: dict[int, int] = {}
    layouts: list[tuple[Any, ...]] = []
    parts = []
    for name, layout in side.parts.items():
        if layout.ranks[0] != side.rank:
            continue
        if id(layout) not in numbers:
            numbers[id(layout)] = len(layouts)
            layouts.append((*layout, side.layouts.text(layout)))
        dtype = side.dtypes[name]
        parts.append([name, numbers[id(layout)], str(dtype).removeprefix("torch.") if dtype is not None else ""])
    return [layouts, parts]


def _heard(said: list[Any], layouts: Layouts) -> list[tuple[str, Layout, torch.dtype | None]]:
    known = []
    for ranks, sizes, shape, cuts, multiples, window, text in said[0]:
        cut = tuple(map(tuple, cuts))
        place = Window(*window) if window is not None else None
        layout = Layout(tuple(ranks), tuple(sizes), tuple(shape), cut, tuple(multiples), place)
        known.append(layouts.name(layout, text))
    return [(name, known[number], getattr(torch, dtype) if dtype else None) for name, number, dtype in said[1]]


def together(group: dist.ProcessGroup, make: Callable[[], tuple[T, Any]]) -> tuple[T, list[Any]]:
    """Calls `make` on every rank. Returns the first item of its result, and the second items of all ranks' results.

    If it raises on one rank, every rank raises before data moves.
    """
    own: Exception | None = None
    try:
        result, told = make()
        content = _packed([told, ""]) if told is not None else b""
    except Exception as error:  # any: the other ranks would wait for this rank
        own, content = error, _packed([None, str(error) or type(error).__name__])
    ranks = dist.get_process_group_ranks(group)
    heard = [json.loads(zlib.decompress(each)) if each else [None, ""] for each in gather(group, content)]
    if own is not None:
        try:
            raise own
        finally:
            del own  # its traceback has this frame: the two would keep the group alive after the program destroys it
    errors = {rank: text for rank, (_, text) in zip(ranks, heard, strict=True) if text}
    if errors:
        shown = "; ".join(f"rank {rank}: {text}" for rank, text in list(errors.items())[:MOST_SHOWN])
        more = f"; and on {len(errors) - MOST_SHOWN} more" if len(errors) > MOST_SHOWN else ""
        text = f"reshard failed on ranks {text_of(errors)} before data moved: {shown}{more}"
        raise Disagreement(text, sorted(errors))
    return result, [told for told, _ in heard]


def agreed(heard: list[Any], what: Sequence[str], ranks: Sequence[int]) -> None:
    """Raises Disagreement if ranks passed different values of what must be equal on all of them."""
    for i, word in enumerate(what):
        if len({told[2][i] for told in heard}) > 1:
            said = [(rank, str(told[2][i])) for rank, told in zip(ranks, heard, strict=True)]
            raise disagreement(f"ranks called reshard with different values of {word}; pass one on all ranks", said)


def _left_out(rank: int, name: str, other: int, word: str) -> Disagreement:
    text = f"rank {rank} leaves out '{name}', which rank {other} states; pass it in {word} on every rank of its mesh"
    return Disagreement(text, [rank])


def tables(heard: list[Any], layouts: Layouts, before: Side, after: Side) -> Tables:
    """Returns the tables of what all ranks told. Raises Disagreement if this rank stated something else."""
    both: list[dict[str, list[tuple[Layout, torch.dtype | None]]]] = [{}, {}]
    for told in heard:
        for number in (0, 1):
            for name, layout, dtype in _heard(told[number], layouts):
                both[number].setdefault(name, []).append((layout, dtype))
    members: dict[int, bool] = {}  # of each layout, whether this rank is one
    for side, table, word in ((before, both[0], "from_ or the state dict"), (after, both[1], "to")):
        for name, stated in table.items():
            for layout, _ in stated:
                if id(layout) not in members:
                    members[id(layout)] = side.rank in layout.ranks
                if members[id(layout)] and name not in side.parts:
                    raise _left_out(side.rank, name, layout.ranks[0], word)
        for name, layout in side.parts.items():
            known = [each for each, _ in table.get(name, [])]
            if all(each.ranks[0] != layout.ranks[0] for each in known):
                raise _left_out(layout.ranks[0], name, side.rank, word)
            if all(each is not layout for each in known):
                first = next(each for each in known if each.ranks[0] == layout.ranks[0])
                raise disagreement(
                    f"rank {side.rank} states '{name}' otherwise than rank {layout.ranks[0]}, the first rank of its "
                    f"mesh; pass equal shapes, meshes and splits in {word} on both",
                    [(first.ranks[0], layouts.text(first)), (side.rank, layouts.text(layout))],
                )
    out = Tables()
    for name, stated in both[0].items():
        out.before[name], out.dtypes[name] = _held(name, stated, layouts)
    for name, stated in both[1].items():
        wanted = _wanted(name, stated, layouts)
        out.after[name], out.wanted[name] = [layout for layout, _ in wanted], [dtype for _, dtype in wanted]
    return out


_Stated = list[tuple[Layout, torch.dtype | None]]


def _held(name: str, stated: _Stated, layouts: Layouts) -> tuple[Layout, torch.dtype]:
    layout, dtype = stated[0]
    if len(stated) > 1:
        one = merged([each for each, _ in stated])
        if one is None:
            raise disagreement(
                f"'{name}' is held in layouts that differ; hold replicas in one layout",
                [(each.ranks[0], layouts.text(each)) for each, _ in stated],
            )
        if len({each for _, each in stated}) > 1:
            raise disagreement(
                f"'{name}' is held in dtypes that differ; hold replicas in one dtype",
                [(each.ranks[0], str(dtype)) for each, dtype in stated],
            )
        layout = layouts.one(one)
    assert dtype is not None  # that of a tensor, which the first rank of a mesh has
    return layout, dtype


def _wanted(name: str, stated: _Stated, layouts: Layouts) -> _Stated:
    if len(stated) == 1:
        return stated
    ranks = [rank for layout, _ in stated for rank in layout.ranks]
    if len(set(ranks)) < len(ranks):
        raise disagreement(
            f"'{name}' is wanted in layouts that share ranks, and a rank has one shard; pass one layout on its ranks",
            [(layout.ranks[0], layouts.text(layout)) for layout, _ in stated],
        )
    alike: dict[tuple[Layout, torch.dtype | None], list[Layout]] = {}
    for layout, dtype in stated:
        alike.setdefault((layout._replace(ranks=()), dtype), []).append(layout)
    found = [(merged(replicas), dtype) for (_, dtype), replicas in alike.items()]
    return [(layouts.one(layout), dtype) for layout, dtype in found if layout is not None]


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
        return (before, wanted, after), [_said(before), _said(after), [staging, host]]

    (before, wanted, after), heard = together(world, state)
    device = next((shard.view.device for shard in before.shards.values()), None)
    device = device or next((each.device for each in wanted.tensors.values()), torch.get_default_device())

    def prepare() -> tuple[tuple[Moves, Tables, Side], Any]:
        members = dist.get_process_group_ranks(world)
        agreed(heard, ["staging", "host"], members)
        parts = tables(heard, layouts, before, after)
        for name, layout in [*parts.before.items(), *((n, each) for n, many in parts.after.items() for each in many)]:
            if others := sorted(set(layout.ranks).difference(members)):
                raise UsageError(
                    f"the mesh of '{name}' has rank {others[0]}, which is not in the group; pass a group of all ranks "
                    "of both meshes"
                )
        moves = plan(parts.before, parts.after, rank, host)
        wanted.allocate(after, parts, device)
        final = wanted.side(rank, layouts)
        had = _memory(before)
        for address, name in _memory(final).items():
            if address in had:
                raise UsageError(f"'{name}' would be written over '{had[address]}' of the state dict; pass a copy")
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
