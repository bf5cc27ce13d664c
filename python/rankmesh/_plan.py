"""The declarations of a plan: what a program passes to join."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankmesh._errors import UsageError

if TYPE_CHECKING:
    from rankmesh._core import Mesh


class Axes:
    """A set of axes that gets a communicator, with its own options. The order of axes does not matter.

    `separate` names a separate communicator, found as `member.on(separate)`, so that calls can overlap with the
    communicator that sets with equal ranks share. `timeout`, in seconds, applies to its blocking calls.
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
    """Some ranks of each group along the axis `of`, by index (negative: from the end); found as `member.on(name)`."""

    of: str
    at: Iterable[int]
    name: str


@dataclass(frozen=True)
class Declaration:
    """One mesh of a plan, and the communicators that it gets.

    `over`: sets of axes with a communicator, in addition to single axes. `picks`: parts of groups. `local`: a name
    for the group of ranks on one host. `axes`: the single axes with a communicator; default: all. `placed`: the
    world rank at each position, for layouts that strides cannot express. `partial`: the mesh may omit ranks of the
    world. `lazy`: join connects nothing; `member.prepare` connects each set. `timeout`: seconds, for every blocking
    call on this mesh.
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
    plan: Iterable[str | Mesh | Mapping[str, int | str] | Declaration], **options: Any
) -> list[Declaration]:
    """The meshes that `join` is given: one with the options of a Declaration, or Declarations."""
    meshes = list(plan)
    if len(meshes) == 1 and not isinstance(meshes[0], Declaration):
        return [Declaration(meshes[0], **options)]
    given = [name for name, value in options.items() if value not in ("", (), None, False)]
    if given:
        raise UsageError(f"the options of a Declaration are its own; give {', '.join(given)} there")
    return [each if isinstance(each, Declaration) else Declaration(each) for each in meshes]
