"""What one rank sends, receives and keeps when tensors go over to other layouts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rankmesh._errors import UsageError
from rankmesh.torch._reshard.layout import Box, Geometry, Layout


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

    def _sender(self, piece: _Piece, turn: int, request: int) -> int:
        return piece.holders[(turn * len(piece.hosts) + request + self.number) % len(piece.holders)]

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
            moves.receives.append(Move(0, self._sender(piece, turn, number), name, to, piece.box))
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
