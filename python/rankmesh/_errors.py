"""What rankmesh raises: each is also an exception of Python's own of the natural kind."""

from __future__ import annotations

from collections.abc import Iterable


class Error(Exception):
    """Everything that rankmesh raises is an Error; its text says what was asked, what is true, what would work."""

    def __init__(self, text: str = "") -> None:  # inspect.signature finds none of Exception's
        super().__init__(text)

    def __str__(self) -> str:  # KeyError's own would put it in quotes, OSError's expects a number
        return str(self.args[0]) if self.args else ""


class UsageError(Error, ValueError):
    """The call itself is wrong: a bad size, an index outside an axis, a buffer of the wrong length."""


class UnknownName(UsageError, KeyError):
    """No axis has that name, nor anything that was declared; the text names the nearest, if one is near."""


class UsageTypeError(Error, TypeError):
    """An argument is of a type that cannot mean what is asked."""


class _WithRanks(Error):
    ranks: list[int]

    def __init__(self, text: str = "", ranks: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.ranks = list(ranks)

    def __reduce__(self) -> tuple[type, tuple[str, list[int]]]:
        return type(self), (str(self), self.ranks)


class Disagreement(_WithRanks, RuntimeError):
    """Ranks that had to say the same thing said different things; `ranks` are those outside the largest class."""


class PeerLost(_WithRanks, ConnectionError):
    """Peers are gone: they left by an exception, or their process ended; `ranks` are their world ranks."""


class Timeout(Error, TimeoutError):
    """A timeout expired; `arrived` and `missing` are world ranks, both empty where the engine cannot tell."""

    arrived: list[int]
    missing: list[int]

    def __init__(self, text: str = "", arrived: Iterable[int] = (), missing: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.arrived = list(arrived)
        self.missing = list(missing)

    def __reduce__(self) -> tuple[type, tuple[str, list[int], list[int]]]:
        return type(self), (str(self), self.arrived, self.missing)


class EngineFailure(Error, RuntimeError):
    """The engine below reported an error of its own."""


class NotBuilt(Error, NotImplementedError):
    """The engine asked for is not in this build; `rankmesh.engines()` says which are."""


for _kind in (Error, UsageError, UnknownName, UsageTypeError, Disagreement, PeerLost, Timeout, EngineFailure, NotBuilt):
    _kind.__module__ = "rankmesh"  # where users find it
del _kind
