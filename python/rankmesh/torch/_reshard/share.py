"""Tells all ranks of a group the layouts that each needs to know, and raises on all of them if one is wrong."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh.torch._agree import classes_of, disagreement, text_of
from rankmesh.torch._errors import Disagreement
from rankmesh.torch._reshard.describe import Layouts, Side
from rankmesh.torch._reshard.plan import Layout, Window, merged

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


def _fail(errors: dict[int, str]) -> NoReturn:
    shown = "; ".join(f"rank {rank}: {text}" for rank, text in list(errors.items())[:MOST_SHOWN])
    more = f"; and on {len(errors) - MOST_SHOWN} more" if len(errors) > MOST_SHOWN else ""
    raise Disagreement(f"reshard failed on ranks {text_of(errors)} before data moved: {shown}{more}", sorted(errors))


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
        _fail(errors)
    return result, [told for told, _ in heard]


def said(before: Side, after: Side, same: list[Any]) -> list[Any]:
    """Returns what this rank tells all others. `same` is what must be equal on all ranks."""
    return [_said(before), _said(after), same]


def _differ(what: str, stated: Iterable[tuple[int, str]]) -> Disagreement:
    """Returns the error of ranks that state different texts."""
    return disagreement(what, classes_of(stated))


def agreed(heard: list[Any], what: Sequence[str], ranks: Sequence[int]) -> None:
    """Raises Disagreement if ranks passed different values of what must be equal on all of them."""
    for i, word in enumerate(what):
        if len({told[2][i] for told in heard}) > 1:
            said = [(rank, str(told[2][i])) for rank, told in zip(ranks, heard, strict=True)]
            raise _differ(f"ranks called reshard with different values of {word}; pass one on all ranks", said)


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
                    raise Disagreement(
                        f"rank {side.rank} leaves out '{name}', which rank {layout.ranks[0]} states; pass it in {word} "
                        "on every rank of its mesh",
                        [side.rank],
                    )
        for name, layout in side.parts.items():
            known = [each for each, _ in table.get(name, [])]
            if all(each.ranks[0] != layout.ranks[0] for each in known):
                raise Disagreement(
                    f"rank {layout.ranks[0]} leaves out '{name}', which rank {side.rank} states; pass it in {word} on "
                    "every rank of its mesh",
                    [layout.ranks[0]],
                )
            if all(each is not layout for each in known):
                first = next(each for each in known if each.ranks[0] == layout.ranks[0])
                raise _differ(
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
            raise _differ(
                f"'{name}' is held in layouts that differ; hold replicas in one layout",
                [(each.ranks[0], layouts.text(each)) for each, _ in stated],
            )
        if len({each for _, each in stated}) > 1:
            raise _differ(
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
        raise _differ(
            f"'{name}' is wanted in layouts that share ranks, and a rank has one shard; pass one layout on its ranks",
            [(layout.ranks[0], layouts.text(layout)) for layout, _ in stated],
        )
    alike: dict[tuple[Layout, torch.dtype | None], list[Layout]] = {}
    for layout, dtype in stated:
        alike.setdefault((layout._replace(ranks=()), dtype), []).append(layout)
    found = [(merged(replicas), dtype) for (_, dtype), replicas in alike.items()]
    return [(layouts.one(layout), dtype) for layout, dtype in found if layout is not None]
