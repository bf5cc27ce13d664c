"""The exceptions of rankmesh. Each is also a matching built-in exception."""

from __future__ import annotations

from collections.abc import Iterable


class Error(Exception):
    """The base class of all exceptions of rankmesh. The text says what was asked, what is true and what to do."""

    def __init__(self, text: str = "") -> None:  # because inspect.signature finds no signature of Exception
        super().__init__(text)

    def __str__(self) -> str:  # KeyError's would add quotes, OSError's expects a number
        return str(self.args[0]) if self.args else ""


class UsageError(Error, ValueError):
    """The arguments are wrong: a bad size, an index outside an axis, a buffer of the wrong length."""


class UnknownName(UsageError, KeyError):
    """No axis and nothing declared has that name. The text suggests the nearest name if one is near."""


class UsageTypeError(Error, TypeError):
    """An argument has a type that the call does not accept."""


class _WithRanks(Error):
    ranks: list[int]

    def __init__(self, text: str = "", ranks: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.ranks = list(ranks)

    def __reduce__(self) -> tuple[type, tuple[str, list[int]]]:
        return type(self), (str(self), self.ranks)


class Disagreement(_WithRanks, RuntimeError):
    """Ranks that must pass the same arguments passed different ones. `ranks` are outside the largest set that
    agrees."""


class PeerLost(_WithRanks, ConnectionError):
    """Peers are gone: an exception left their program, or their process ended. `ranks` are their world ranks."""


class Timeout(Error, TimeoutError):
    """A timeout expired. `arrived` and `missing` are world ranks; both are empty if the engine does not know them."""

    arrived: list[int]
    missing: list[int]

    def __init__(self, text: str = "", arrived: Iterable[int] = (), missing: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.arrived = list(arrived)
        self.missing = list(missing)

    def __reduce__(self) -> tuple[type, tuple[str, list[int], list[int]]]:
        return type(self), (str(self), self.arrived, self.missing)


class EngineFailure(Error, RuntimeError):
    """The engine (MPI, Gloo, NCCL, the system) reported an error."""


class NotBuilt(Error, NotImplementedError):
    """This build does not have the requested engine. `rankmesh.engines()` lists the engines of this build."""


for _kind in (Error, UsageError, UnknownName, UsageTypeError, Disagreement, PeerLost, Timeout, EngineFailure, NotBuilt):
    _kind.__module__ = "rankmesh"  # where users find it
del _kind
