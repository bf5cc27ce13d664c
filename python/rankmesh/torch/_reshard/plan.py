"""Where the parts of a tensor lie, and what one rank sends, receives and keeps when their layouts change."""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from rankmesh._errors import UsageError

Box = tuple[tuple[int, int], ...]  # for each dimension the first index and the index after the last


def elements(box: Box) -> int:
    """Returns the number of elements of a box; 1 without dimensions."""
    return math.prod(end - begin for begin, end in box)


@functools.cache
def chunks(size: int, counts: tuple[int, ...], multiple: int) -> list[tuple[int, int]]:
    """Returns the ranges into which a dimension is cut, as torch's Shard does: ceil(size / count) each, the last ones
    shorter or empty; then each range again for the next count.

    With a `multiple` the counts cut once, and each length is a multiple of it, as in Megatron's vocabulary.
    """
    counts = (math.prod(counts),) if multiple > 1 else counts
    ranges = [(0, size)]
    for count in counts:
        cut = []
        for begin, end in ranges:
            each = -(-(end - begin) // (count * multiple)) * multiple
            cut += [(min(begin + i * each, end), min(begin + (i + 1) * each, end)) for i in range(count)]
        ranges = cut
    return ranges


class Window(NamedTuple):
    """The rows `begin` to `end` of one dimension: the place of a part in a tensor of several."""

    dim: int
    begin: int
    end: int


class Layout(NamedTuple):
    """One part of a tensor over a mesh, as it is announced to other ranks."""

    ranks: tuple[int, ...]  # of the mesh, row-major
    sizes: tuple[int, ...]  # of the mesh
    shape: tuple[int, ...]  # of the whole tensor
    cuts: tuple[tuple[int, ...], ...]  # for each dimension of the tensor the dimensions of the mesh that cut it
    multiples: tuple[int, ...]  # for each dimension: 1, or the multiple of Megatron's padding
    window: Window | None = None

    @property
    def part(self) -> tuple[int, ...]:
        if self.window is None:
            return self.shape
        dim, begin, end = self.window
        return (*self.shape[:dim], end - begin, *self.shape[dim + 1 :])


def merged(layouts: Sequence[Layout]) -> Layout | None:
    """Returns the layout of all replicas of equal layouts on disjoint meshes; None if the layouts differ."""
    first = layouts[0]
    if any(each._replace(ranks=first.ranks) != first for each in layouts):
        return None
    if len(layouts) == 1:
        return first
    ranks = tuple(itertools.chain.from_iterable(each.ranks for each in sorted(layouts)))
    cuts = tuple(tuple(1 + axis for axis in cut) for cut in first.cuts)
    return first._replace(ranks=ranks, sizes=(len(layouts), *first.sizes), cuts=cuts)


class Geometry:
    """The boxes and the holders of a layout, in indices of the part."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.place = {rank: i for i, rank in enumerate(layout.ranks)}
        if len(self.place) != len(layout.ranks):
            raise UsageError(f"a mesh has a rank twice: {list(layout.ranks)}; a rank holds one shard of a tensor")
        self._strides = [math.prod(layout.sizes[i + 1 :]) for i in range(len(layout.sizes))]
        self._counts = [tuple(layout.sizes[axis] for axis in cut) for cut in layout.cuts]
        used = set(itertools.chain.from_iterable(layout.cuts))
        free = (range(size) for axis, size in enumerate(layout.sizes) if axis not in used)
        strides = [stride for axis, stride in enumerate(self._strides) if axis not in used]
        self._replicas = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*free)]
        self._holders: dict[tuple[int, ...], tuple[int, ...]] = {}

    def __contains__(self, rank: int) -> bool:
        return rank in self.place

    def chunk(self, rank: int) -> tuple[int, ...]:
        """Returns the number of a rank's chunk in each dimension."""
        place, layout = self.place[rank], self.layout
        numbers = []
        for cut in layout.cuts:
            number = 0
            for axis in cut:
                number = number * layout.sizes[axis] + place // self._strides[axis] % layout.sizes[axis]
            numbers.append(number)
        return tuple(numbers)

    def whole(self, chunk: Sequence[int]) -> Box:
        """Returns the box of a chunk in indices of the whole tensor."""
        layout = self.layout
        cuts = zip(layout.shape, self._counts, layout.multiples, chunk, strict=True)
        return tuple(chunks(size, counts, multiple)[number] for size, counts, multiple, number in cuts)

    def box(self, chunk: Sequence[int]) -> Box:
        """Returns the box of a chunk, which may be empty."""
        box = self.whole(chunk)
        if self.layout.window is None:
            return box
        dim, first, last = self.layout.window
        begin, end = (min(max(edge, first), last) - first for edge in box[dim])
        return (*box[:dim], (begin, end), *box[dim + 1 :])

    def span(self, box: Box) -> list[tuple[int, int]]:
        """Returns for each dimension the first chunk that overlaps a box, and the chunk after the last."""
        spans = []
        for dim, (begin, end) in enumerate(box):
            first, ranges = self._along(dim)
            low = bisect_right(ranges, begin + first, key=itemgetter(1))
            spans.append((low, bisect_left(ranges, end + first, key=itemgetter(0))))
        return spans

    def _along(self, dim: int) -> tuple[int, list[tuple[int, int]]]:
        """Returns where the part begins in a dimension of the whole tensor, and the chunks of the dimension."""
        shape, window, multiples = self.layout.shape, self.layout.window, self.layout.multiples
        first = window.begin if window is not None and window.dim == dim else 0
        return first, chunks(shape[dim], self._counts[dim], multiples[dim])

    def cover(self, box: Box) -> Iterator[tuple[tuple[int, ...], Box]]:
        """Yields the chunks that overlap a box, row-major, each with the elements that both have."""
        if elements(box) == 0:
            return
        along: list[list[tuple[int, tuple[int, int]]]] = []
        for dim, ((begin, end), (low, high)) in enumerate(zip(box, self.span(box), strict=True)):
            first, ranges = self._along(dim)
            common = [(n, (max(ranges[n][0] - first, begin), min(ranges[n][1] - first, end))) for n in range(low, high)]
            along.append([each for each in common if each[1][0] < each[1][1]])
        for each in itertools.product(*along):
            yield tuple(number for number, _ in each), tuple(common for _, common in each)

    def holders(self, chunk: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the ranks that hold a chunk, in ascending order."""
        if chunk not in self._holders:
            layout, place = self.layout, 0
            for number, cut in zip(chunk, layout.cuts, strict=True):
                for axis in reversed(cut):
                    place += number % layout.sizes[axis] * self._strides[axis]
                    number //= layout.sizes[axis]
            self._holders[chunk] = tuple(sorted(layout.ranks[place + more] for more in self._replicas))
        return self._holders[chunk]


class Move(NamedTuple):
    """Elements of a part that this rank exchanges with a peer, or keeps if the peer is the rank itself."""

    stage: int  # 0: from a rank that held the elements; 1: inside a host, after stage 0
    peer: int
    name: str  # of the part
    to: int  # the number of the wanted layout of this part
    box: Box  # in indices of the part


@dataclass
class Moves:
    """The moves of one rank, in the order of names."""

    rank: int
    keeps: list[Move] = field(default_factory=list)
    sends: list[Move] = field(default_factory=list)
    receives: list[Move] = field(default_factory=list)
    looked_at: int = 0  # pieces that were considered; what planning costs


@dataclass
class _Piece:
    """Elements that one chunk before and one chunk after the move have in common, as one rank sees them."""

    box: Box
    number: int  # among the pieces of the chunk before
    of: int  # the number of those pieces
    holders: tuple[int, ...]
    near: list[int]  # holders on this rank's host
    local: list[int]  # ranks on this rank's host that want the piece and have no copy
    hosts: list[list[int]]  # for each host without a copy: the ranks that want the piece


class Kind:
    """The pieces of one rank for all tensors with one pair of layouts."""

    def __init__(self, number: int, before: Geometry, after: Geometry, rank: int, host: int) -> None:
        self.number, self.rank, self.tensors = number, rank, 0
        self._before, self._after, self._host = before, after, host
        self.wanted: list[_Piece] = []
        self.held: list[_Piece] = []
        if rank in after:
            mine = after.chunk(rank)
            self.wanted = [self._piece(chunk, mine, box) for chunk, box in before.cover(after.box(mine))]
        if rank in before:
            mine = before.chunk(rank)
            self.held = [self._piece(mine, chunk, box) for chunk, box in after.cover(before.box(mine))]

    def _piece(self, had: tuple[int, ...], wanted: tuple[int, ...], box: Box) -> _Piece:
        number, of = 0, 1
        for (first, last), chunk in zip(self._after.span(self._before.box(had)), wanted, strict=True):
            number, of = number * (last - first) + chunk - first, of * (last - first)
        holders, here = self._before.holders(had), self.rank // self._host
        known = set(holders)
        with_copy = {rank // self._host for rank in holders}
        by_host = [
            (host, list(ranks))
            for host, ranks in itertools.groupby(self._after.holders(wanted), lambda rank: rank // self._host)
        ]
        local = [rank for host, ranks in by_host if host == here for rank in ranks if rank not in known]
        near = [rank for rank in holders if rank // self._host == here]
        hosts = [ranks for host, ranks in by_host if host not in with_copy]
        return _Piece(box, number, of, holders, near, local, hosts)

    def add(self, name: str, to: int, moves: Moves) -> None:
        """Adds the moves of the next tensor. Requests go to the holders in turn, over all tensors of a kind."""
        turn, self.tensors = self.tensors, self.tensors + 1
        moves.looked_at += len(self.wanted) + len(self.held)
        for piece in self.wanted:
            self._receive(piece, turn * piece.of + piece.number, name, to, moves)
        for piece in self.held:
            self._send(piece, turn * piece.of + piece.number, name, to, moves)

    def _receive(self, piece: _Piece, turn: int, name: str, to: int, moves: Moves) -> None:
        rank = self.rank
        if rank in piece.near:
            moves.keeps.append(Move(0, rank, name, to, piece.box))
        elif piece.near:
            request = turn * len(piece.local) + piece.local.index(rank)
            moves.receives.append(Move(0, piece.near[request % len(piece.near)], name, to, piece.box))
        else:
            number = next(i for i, ranks in enumerate(piece.hosts) if rank in ranks)
            ranks = piece.hosts[number]
            gateway = ranks[turn % len(ranks)]
            if gateway != rank:
                moves.receives.append(Move(1, gateway, name, to, piece.box))
                return
            sender = piece.holders[(turn * len(piece.hosts) + number + self.number) % len(piece.holders)]
            moves.receives.append(Move(0, sender, name, to, piece.box))
            moves.sends += [Move(1, peer, name, to, piece.box) for peer in ranks if peer != rank]

    def _send(self, piece: _Piece, turn: int, name: str, to: int, moves: Moves) -> None:
        rank, count = self.rank, len(piece.holders)
        for i, peer in enumerate(piece.local):
            if piece.near[(turn * len(piece.local) + i) % len(piece.near)] == rank:
                moves.sends.append(Move(0, peer, name, to, piece.box))
        first = (piece.holders.index(rank) - turn * len(piece.hosts) - self.number) % count
        for number in range(first, len(piece.hosts), count):
            ranks = piece.hosts[number]
            moves.sends.append(Move(0, ranks[turn % len(ranks)], name, to, piece.box))


def plan(before: Mapping[str, Layout], after: Mapping[str, Iterable[Layout]], rank: int, host: int) -> Moves:
    """Returns the moves of one rank. `before` and `after` are equal on all ranks; equal layouts are one object.

    The cost grows with the number of tensors, the pieces of this rank's shards, and the replicas of each layout. Each
    rank receives each element that it does not hold once. The sender is on the same host if a rank there holds the
    element. Otherwise one rank of the host receives the element from another host and passes it on.
    """
    moves = Moves(rank)
    kinds: dict[tuple[int, int], Kind | None] = {}  # None: this rank has no part in it
    geometries: dict[int, Geometry] = {}
    for name in sorted(after):
        had = before.get(name)
        if had is None:
            raise UsageError(f"'{name}' is wanted, but no rank passed it in its state dict; check the name")
        for to, wanted in enumerate(after[name]):
            key = id(had), id(wanted)
            if key not in kinds:
                if had.part != wanted.part:
                    raise UsageError(
                        f"'{name}' has the shape {list(had.part)} and is wanted with the shape {list(wanted.part)}; "
                        "state both with one shape"
                    )
                kinds[key] = None
                if rank in had.ranks or rank in wanted.ranks:
                    for layout in (had, wanted):
                        if id(layout) not in geometries:
                            geometries[id(layout)] = Geometry(layout)
                    number = len(kinds) - 1
                    kinds[key] = Kind(number, geometries[key[0]], geometries[key[1]], rank, host)
            if (kind := kinds[key]) is not None:
                kind.add(name, to, moves)
    return moves
