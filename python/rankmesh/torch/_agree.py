"""Compares plans on all ranks over torch's store, with four requests per rank in a world of any size; three of them
wait for an answer."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import torch.distributed as dist

from rankmesh._core import Group
from rankmesh.torch._compat import Store
from rankmesh.torch._errors import Disagreement, EngineFailure, Timeout

MOST_CLASSES = 8  # most descriptions in an error
MOST_WAIT = 60.0  # seconds until rank 0 looks at the result itself, if the rank that decided it died before it rang
LINGER = 5.0  # seconds that a rank stays after a failure, because its process may serve the store to others

Where = Callable[[Iterable[int]], str]


def text_of(ranks: Iterable[int]) -> str:
    """Returns ranks in the notation of groups."""
    return str(Group(sorted(ranks)))


def named(ranks: Iterable[int]) -> str:
    """Returns 'rank 3', or 'ranks {0..2}'."""
    ranks = list(ranks)
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {text_of(ranks)}"


def seconds(timeout: datetime.timedelta) -> str:
    whole = timeout / datetime.timedelta(milliseconds=1)
    return f"{whole / 1000:g} s" if whole >= 1000 else f"{whole:g} ms"


def note(store: Any, key: str, line: str) -> None:
    """Appends a line to the lines of all ranks under one key, in one request.

    Lines must differ: FileStore takes an equal value, written by another rank, for its own.
    """
    store.append(key, line + "\n")


def read(store: Any, key: str) -> str:
    """Returns the text under a key, "" if there is none, in one request; `get` takes two, because it waits first.

    A rank may wait for the key only if the key exists: of a missing key, TCPStore then tells it that the key is there.
    """
    text = str(store.compare_set(key, "?", "?"), "utf-8")
    return "" if text == "?" else text


def arrive(store: Store, rank: int, size: int, description: str) -> str:
    """Announces a rank and its plan. The last rank to arrive compares all plans and returns the result, others ""."""
    digest = hashlib.sha256(description.encode()).hexdigest()[:16]
    note(store, "arrived", f"{rank} {digest}")
    if store.add("count", 1) != size:
        return ""
    return _decide(store, _compared(_lines(store)))


def _compared(lines: Sequence[str]) -> str:
    return "agree" if len({line.split()[1] for line in lines}) == 1 else "differ"


def _decide(store: Store, outcome: str) -> str:
    """Returns the result of the comparison: this one, unless another rank has decided before."""
    return str(store.compare_set("outcome", "", outcome), "utf-8")


def hear(store: Store, size: int, timeout: datetime.timedelta, answer: Callable[[float], bool] | None = None) -> str:
    """Returns the result of the comparison, equal on all ranks. The first rank to time out decides who was late.

    If nobody was, it decides in the place of the last one, which is about to. Until then calls `answer`, which returns
    True if a rank asked within as many seconds as it is passed.
    """
    end = time.monotonic() + timeout.total_seconds()
    try:
        while answer is not None and (left := end - time.monotonic()) > 0:
            if not answer(min(left, MOST_WAIT)) and store.check(["outcome"]):
                return read(store, "outcome")
        store.wait(["outcome"], datetime.timedelta(seconds=max(end - time.monotonic(), 0.001)))
    except dist.DistNetworkError as error:
        raise EngineFailure(f"torch's store is gone while the ranks compare their plans: {error}") from None
    except RuntimeError:  # the timeout; each store raises its own type
        lines = _lines(store)
        arrived = " ".join(line.split()[0] for line in lines)
        return _decide(store, _compared(lines) if len(lines) == size else f"late {arrived}")
    return read(store, "outcome")


def late(
    timeout: datetime.timedelta,
    rank: int,
    arrived: list[int],
    missing: list[int],
    where: Where,
    why: str = "",
    what: str = "init",
) -> Timeout:
    return Timeout(
        f"the timeout of {seconds(timeout)} expired in {what} on rank {rank}: {why}arrived {named(arrived)}, "
        f"missing {named(missing)}{where(missing)}",
        arrived,
        missing,
    )


def _lines(store: Store) -> list[str]:
    return read(store, "arrived").splitlines()


def raise_disagreement(store: Store, rank: int, description: str, timeout: datetime.timedelta) -> NoReturn:
    lines = (line.split() for line in _lines(store))
    classes = classes_of((int(number), digest) for number, digest in lines)
    for digest, them in classes:
        if them[0] == rank:
            store.set("text " + digest, description)
    shown = ["text " + digest for digest, _ in classes[:MOST_CLASSES]]
    store.wait(shown, timeout)
    texts = {digest: store.get("text " + digest).decode() for digest, _ in classes[:MOST_CLASSES]}
    linger(store, sum(len(them) for _, them in classes))
    said = [(number, texts.get(digest, digest)) for digest, them in classes for number in them]
    raise disagreement("the ranks join different plans; every rank must declare the same", said)


def classes_of(said: Iterable[tuple[int, str]]) -> list[tuple[str, list[int]]]:
    """Returns each text with the ranks that said it; the text of most ranks comes first."""
    ranks: dict[str, list[int]] = {}
    for rank, text in said:
        ranks.setdefault(text, []).append(rank)
    return sorted(((text, sorted(them)) for text, them in ranks.items()), key=lambda each: (-len(each[1]), each[1]))


def disagreement(what: str, said: Iterable[tuple[int, str]]) -> Disagreement:
    """Returns the error of ranks that said different texts; its `ranks` did not say the text of most."""
    classes = classes_of(said)
    lines = [f"\n  {named(ranks)}: {text}" for text, ranks in classes[:MOST_CLASSES]]
    if further := [rank for _, ranks in classes[MOST_CLASSES:] for rank in ranks]:
        lines.append(f"\n  {named(further)}: further descriptions")
    return Disagreement(f"{what}:{''.join(lines)}", sorted(rank for _, ranks in classes[1:] for rank in ranks))


def linger(store: Store, ranks: int) -> None:
    """Waits until so many ranks know about a failure, because the store ends with its process."""
    with contextlib.suppress(RuntimeError):
        if store.add("heard", 1) >= ranks:
            store.set("all heard", "")
        store.wait(["all heard"], datetime.timedelta(seconds=LINGER))
