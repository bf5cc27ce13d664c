"""What a program declares before it joins a world."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankmesh._errors import UsageError

if TYPE_CHECKING:
    from rankmesh._core import Mesh


class Axes:
    """A set of axes that gets a communicator, with what is its own; their order does not matter.

    `separate` names a communicator of its own, found as `member.on(separate)`, for overlap with the one that other
    sets of equal ranks share; `timeout`, in seconds, is for its blocking calls.
    """

    def __init__(self, *axes: str, separate: str = "", timeout: float | datetime.timedelta | None = None) -> None:
        self.axes = axes
        self.separate = separate
        self.timeout = timeout

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.axes))
        return f"Axes({names}, separate={self.separate!r}, timeout={self.timeout!r})"


@dataclass(frozen=True)
class Pick:
    """A part of each group along the axis `of`, by index, negative ones from the end: found as `member.on(name)`."""

    of: str
    at: Iterable[int]
    name: str


@dataclass(frozen=True)
class Declaration:
    """One mesh of a plan, and which communicators it gets besides those of single axes.

    `over`: sets of axes; `picks`: parts of groups; `local`: the name under which the ranks on one host are found;
    `axes`: the single axes that get a communicator, all of them unless said; `placed`: the world rank at each place,
    where strides do not say it; `partial`: ranks of the world may be left out; `lazy`: nothing is connected before
    `member.prepare`; `timeout`, in seconds, for every blocking call on this mesh.
    """

    mesh: str | Mesh | Mapping[str, int | str]
    name: str = ""
    over: Iterable[str | Iterable[str] | Axes] = ()
    picks: Iterable[Pick] = ()
    local: str = ""
    axes: Iterable[str] | None = None
    placed: Iterable[int] = ()
    partial: bool = False
    lazy: bool = False
    timeout: float | datetime.timedelta | None = None


def declarations(
    plan: Iterable[str | Mesh | Mapping[str, int | str] | Declaration], options: Mapping[str, Any]
) -> list[Declaration]:
    """The meshes that `join` is given: one with the options of a Declaration, or Declarations."""
    meshes = list(plan)
    if len(meshes) == 1 and not isinstance(meshes[0], Declaration):
        return [Declaration(meshes[0], **options)]
    given = [name for name, value in options.items() if value not in ("", (), None, False)]
    if given:
        raise UsageError(f"the options of a Declaration are its own; give {', '.join(given)} there")
    return [each if isinstance(each, Declaration) else Declaration(each) for each in meshes]
