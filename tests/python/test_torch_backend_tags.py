"""Messages of torch's groups match by their tags, on rankmesh as on torch's Gloo."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch_ranks  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

MESSAGES, ROUNDS = 12, 8


def exchanged(group: Any, rank: int, size: int, seed: int, how: str) -> list[list[float]]:
    """What a rank receives, in the order of sending, from each other one; all ranks know all messages by the seed."""
    plan = random.Random(seed)
    sent = {
        (source, to): [(plan.randrange(4) * 4095, plan.randrange(1, 5)) for _ in range(MESSAGES)]
        for source in range(size)
        for to in range(size)
        if source != to
    }
    works, received = [], {}
    outgoing = [(to, number) for to in range(size) if to != rank for number in range(MESSAGES)]
    incoming = [(source, number) for source in range(size) if source != rank for number in range(MESSAGES)]

    def shuffled(messages: list[tuple[int, int]], key: Any) -> list[tuple[int, int]]:
        """In any order, but the messages of one tag between two ranks keep theirs."""
        lanes: dict[Any, list[tuple[int, int]]] = {}
        for each in messages:
            lanes.setdefault((each[0], key(each)[0]), []).append(each)
        order = [lane for lane, each in lanes.items() for _ in each]
        plan.shuffle(order)
        return [lanes[lane].pop(0) for lane in order]

    for to, number in shuffled(outgoing, lambda each: sent[rank, each[0]][each[1]]):
        tag, length = sent[rank, to][number]
        works.append(dist.isend(torch.full((length,), 100.0 * rank + number), group_dst=to, group=group, tag=tag))
    for source, number in shuffled(incoming, lambda each: sent[each[0], rank][each[1]]):
        tag, length = sent[source, rank][number]
        into = received[source, number] = torch.zeros(length)
        if how == "blocking":
            dist.recv(into, group_src=source, group=group, tag=tag)
        else:
            works.append(dist.irecv(into, group_src=source, group=group, tag=tag))
    plan.shuffle(works)
    for work in works:
        work.wait()
    return [received[key].tolist() for key in sorted(received)]


def from_any(group: Any, rank: int, size: int, seed: int) -> list[list[Any]]:
    """Rank 0 receives from any rank, and from some by name, in another order of tags than that of sending."""
    plan = random.Random(seed)
    tags = plan.sample(range(6), 6)
    if rank > 0:
        works = [dist.isend(torch.tensor([100.0 * rank + tag]), group_dst=0, group=group, tag=tag) for tag in range(6)]
        for work in works:
            work.wait()
        dist.barrier(group=group)  # the messages of the next round are none of this one's
        return []
    found: list[list[Any]] = []
    for tag in tags:
        values, named = [], plan.randrange(1, size)
        x = torch.zeros(1)
        dist.recv(x, group_src=named, group=group, tag=tag)
        values.append(x.item())
        for _ in range(size - 2):
            source = dist.recv(x, None, group=group, tag=tag)
            assert x.item() // 100 == source
            values.append(x.item())
        found.append([tag, *sorted(values)])
    dist.barrier(group=group)
    return found


def started_from_any(group: Any, rank: int, size: int) -> list[float]:
    """A receive from any rank whose message comes last lets receives of other tags pass, also from the same rank."""
    x, y, z = torch.zeros(1), torch.zeros(1), torch.zeros(1)
    if rank == 1:
        dist.send(torch.tensor([2.0]), group_dst=0, group=group, tag=2)
        dist.send(torch.tensor([3.0]), group_dst=0, group=group, tag=3)
        dist.send(torch.tensor([1.0]), group_dst=0, group=group, tag=1)
    if rank == 0:
        works = [group.recv_anysource([x], 1), group.recv([y], 1, 2), group.recv_anysource([z], 3)]
        for work in reversed(works):
            work.wait()
        assert works[0]._source_rank() == 1
    return [x.item(), y.item(), z.item()]


def check(rank: int, size: int, folder: str, backend: str) -> list[Any]:
    store, timeout = dist.FileStore(f"{folder}/{backend}", size), datetime.timedelta(seconds=30)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    group = dist.group.WORLD
    return [
        [exchanged(group, rank, size, seed, how) for seed in range(ROUNDS) for how in ("started", "blocking")],
        [from_any(group, rank, size, seed) for seed in range(ROUNDS)],
        started_from_any(group, rank, size),
    ]


@pytest.mark.parametrize("size", [2, 3])
def test_messages_match_by_tag_as_on_gloo(size: int, tmp_path: Path) -> None:
    expected, got = (
        torch_ranks.ranks(size, check, tmp_path, str(tmp_path), each, initialised=False)
        for each in ("gloo", "rankmesh")
    )
    assert got == expected
