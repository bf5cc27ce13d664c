"""Moves the elements of a plan over a group, in messages that fit into a bounded staging memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist

from rankmesh.torch._reshard.describe import Shard
from rankmesh.torch._reshard.plan import Box, Move, Moves, elements

ALIGNED = 16  # bytes: the largest element of torch


class Piece(NamedTuple):
    """A box of a part in a message, `offset` bytes after its begin."""

    offset: int
    name: str
    box: Box
    dtype: torch.dtype


class Message(NamedTuple):
    """Pieces that travel together between two ranks."""

    size: int  # bytes
    pieces: list[Piece]


class Step(NamedTuple):
    """One message to and one from a peer. Steps are in one order on all ranks."""

    position: tuple[int, int]  # the stage and the round: how many ranks further the receiver is
    send: Message | None
    to: int
    receive: Message | None
    source: int


def cut(box: Box, most: int) -> Iterator[Box]:
    """Yields boxes of at most `most` elements that make up a box, row-major."""
    if elements(box) <= most:
        yield box
        return
    (begin, end), rest = box[0], box[1:]
    if (rows := most // elements(rest)) > 0:
        for row in range(begin, end, rows):
            yield ((row, min(row + rows, end)), *rest)
    else:
        for row in range(begin, end):
            for inner in cut(rest, most):
                yield ((row, row + 1), *inner)


def messages(moves: Iterable[Move], dtypes: Mapping[tuple[str, int], torch.dtype], most: int) -> Iterator[Message]:
    """Yields the messages of all moves between two ranks: the largest elements first, so that all are aligned."""

    def itemsize(move: Move) -> int:
        return int(dtypes[move.name, move.to].itemsize)

    size = 0
    pieces: list[Piece] = []
    for move in sorted(moves, key=lambda move: (-itemsize(move), move.name, move.box)):
        each = itemsize(move)
        for box in cut(move.box, most // each):
            if size + elements(box) * each > most:
                yield Message(size, pieces)
                size, pieces = 0, []
            pieces.append(Piece(size, move.name, box, dtypes[move.name, move.to]))
            size += elements(box) * each
    if pieces:
        yield Message(size, pieces)


def steps(moves: Moves, ranks: list[int], dtypes: Mapping[tuple[str, int], torch.dtype], most: int) -> Iterator[Step]:
    """Yields the steps of one rank. In round k each rank sends to the rank k further and receives from the rank k
    before."""
    places = {rank: i for i, rank in enumerate(ranks)}
    here, count = places[moves.rank], len(ranks)
    rounds: dict[tuple[int, int], tuple[list[Move], list[Move]]] = {}
    for move in moves.sends:
        rounds.setdefault((move.stage, (places[move.peer] - here) % count), ([], []))[0].append(move)
    for move in moves.receives:
        rounds.setdefault((move.stage, (here - places[move.peer]) % count), ([], []))[1].append(move)
    for position, (sends, receives) in sorted(rounds.items(), key=lambda each: each[0]):
        to, source = ranks[(here + position[1]) % count], ranks[(here - position[1]) % count]
        both = itertools.zip_longest(messages(sends, dtypes, most), messages(receives, dtypes, most))
        for send, receive in both:
            yield Step(position, send, to, receive, source)


def batches(given: Iterator[Step], most: int) -> Iterator[list[Step]]:
    """Yields steps together whose messages in one direction fit into `most` bytes; never steps of both stages.

    No ring of ranks can wait for each other, however each rank groups its steps: the first step that is not complete
    anywhere is in the current batch of both its ranks.
    """
    batch: list[Step] = []
    sent = received = 0
    for step in given:
        more_sent, more_received = (aligned(each.size) if each else 0 for each in (step.send, step.receive))
        other_stage = bool(batch) and batch[0].position[0] != step.position[0]
        if batch and (other_stage or sent + more_sent > most or received + more_received > most):
            yield batch
            batch, sent, received = [], 0, 0
        batch.append(step)
        sent, received = sent + more_sent, received + more_received
    if batch:
        yield batch


def aligned(size: int) -> int:
    """Returns the size rounded up to the alignment of messages."""
    return -(-size // ALIGNED) * ALIGNED


class Memory:
    """One half of the staging memory: allocated as large as the largest batch needs."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._all, self._used = device, torch.empty(0, dtype=torch.uint8, device=device), 0

    def reserve(self, sizes: Iterable[int]) -> None:
        """Forgets the messages of the last batch and makes room for those of the next."""
        needed, self._used = sum(map(aligned, sizes)), 0
        if needed > self._all.numel():
            self._all = torch.empty(0, dtype=torch.uint8, device=self._device)  # frees it before the next is allocated
            self._all = torch.empty(needed, dtype=torch.uint8, device=self._device)

    def take(self, size: int) -> torch.Tensor:
        begin, self._used = self._used, self._used + aligned(size)
        return self._all[begin : begin + size]


def views(
    message: Message, memory: torch.Tensor, shards: Mapping[str, Shard]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields each piece as it lies in the message, and as it lies in this rank's shard."""
    for offset, name, box, dtype in message.pieces:
        shape = [end - begin for begin, end in box]
        staged = memory[offset : offset + elements(box) * dtype.itemsize].view(dtype).view(shape)
        yield staged, shards[name].at(box)


def move(
    group: dist.ProcessGroup,
    moves: Moves,
    before: Mapping[str, Shard],
    after: Mapping[str, Shard],
    dtypes: Mapping[tuple[str, int], torch.dtype],
    device: torch.device,
    staging: int,
) -> None:
    """Copies what this rank keeps, and exchanges all else. Elements travel in the type of the wanted tensor."""
    for kept in moves.keeps:
        after[kept.name].at(kept.box).copy_(before[kept.name].at(kept.box))
    most = staging // 2 // ALIGNED * ALIGNED
    outgoing, incoming = Memory(device), Memory(device)
    for batch in batches(steps(moves, dist.get_process_group_ranks(group), dtypes, most), most):
        source = before if batch[0].position[0] == 0 else after
        outgoing.reserve(step.send.size for step in batch if step.send)
        incoming.reserve(step.receive.size for step in batch if step.receive)
        ops, arrivals = [], []
        for step in batch:
            if step.receive:
                memory = incoming.take(step.receive.size)
                arrivals.append((step.receive, memory))
                ops.append(dist.P2POp(dist.irecv, memory, step.source, group))
            if step.send:
                memory = outgoing.take(step.send.size)
                for staged, tensor in views(step.send, memory, source):
                    staged.copy_(tensor)
                ops.append(dist.P2POp(dist.isend, memory, step.to, group))
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        for message, memory in arrivals:
            for staged, tensor in views(message, memory, after):
                tensor.copy_(staged)
