"""A plan as all ranks must agree on it: which groups each mesh gets, in one order on every rank."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import rankmesh._plan
from rankmesh._core import Group, Item, Mesh, Placement, duration, make_blueprint
from rankmesh._errors import UsageError
from rankmesh._plan import Declaration, declarations
from rankmesh.torch._agree import seconds

MOST_SHOWN = 16  # ranks whose coordinates an error lists


class Axes(rankmesh._plan.Axes):
    """A set of axes as in `rankmesh.Axes`, whose process group has a backend, and options for it, of its own.

    `pg_options` is what `torch.distributed.new_group` takes: one object makes one group.
    """

    def __init__(
        self,
        *axes: str,
        separate: str = "",
        timeout: float | datetime.timedelta | None = None,
        backend: str | None = None,
        pg_options: Any = None,
    ) -> None:
        super().__init__(*axes, separate=separate, timeout=timeout)
        self.backend = backend
        self.pg_options = pg_options


class Options(NamedTuple):
    """What torch makes a group with, besides its ranks. Groups with another `own` are not shared."""

    timeout: datetime.timedelta | None = None
    backend: str | None = None
    pg_options: Any = None
    own: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for groups that are one if their ranks are equal."""
        return self.own, self.timeout, self.backend, id(self.pg_options) if self.pg_options is not None else None

    @property
    def text(self) -> str:
        """' within 5 s on gloo', or '' without options."""
        text = f" within {seconds(self.timeout)}" if self.timeout is not None else ""
        text += f" on {self.backend}" if self.backend is not None else ""
        return text + (f" with {type(self.pg_options).__name__}" if self.pg_options is not None else "")


@dataclass(frozen=True)
class MeshPlan:
    """One mesh of a plan in a world of known size, with the options of each item's groups."""

    name: str
    mesh: Mesh
    places: Mesh | Placement
    items: list[Item]
    options: list[Options]
    lazy: bool
    text: str  # equal exactly if everything that ranks must agree on is equal
    given: Declaration  # with the sizes '*' that were given

    def label(self, item: Item) -> str:
        """'dense:dp,cp': the description under which torch knows the group of an item."""
        return f"{self.name}:{item.text}" if self.name else item.text

    def ranks(self, item: Item, rank: int, hosts: list[str]) -> Group | None:
        """The ranks of a rank's group of an item; None if it is in none."""
        if rank not in self.places:
            return None
        group = self._along(item, rank, hosts)
        if item.at:
            group = group.pick(*item.at)
        return group if rank in group else None

    def parts(self, item: Item, hosts: list[str]) -> list[Group]:
        """The ranks of all groups of an item, in one order on every rank."""
        parts: list[Group] = []
        seen: set[int] = set()
        for rank in self.places.ranks:
            if rank in seen:
                continue
            group = self._along(item, rank, hosts)
            seen.update(group)
            parts.append(group.pick(*item.at) if item.at else group)
        return parts

    def _along(self, item: Item, rank: int, hosts: list[str]) -> Group:
        if item.local:
            return Group([each for each in self.places.ranks if hosts[each] == hosts[rank]])
        return self.places.group(rank, *item.axes)

    def where(self, ranks: Iterable[int]) -> str:
        """'; in mesh dp=4 that is rank 0 [dp=0]': the coordinates of ranks, for an error."""
        inside = [f"{rank} [{self.places.coord(rank)}]" for rank in ranks if rank in self.places]
        shown = ", ".join(inside[:MOST_SHOWN]) + (", ..." if len(inside) > MOST_SHOWN else "")
        return f"; in mesh {self.mesh.text} that is rank{'s' * (len(inside) > 1)} {shown}" if inside else ""


def read(
    plan: Iterable[str | Mesh | Mapping[str, int | str] | Declaration], world: int, **options: Any
) -> list[MeshPlan]:
    """The meshes of what `init` takes, in a world of this size; raises UsageError for an invalid plan."""
    given = []
    for declared in declarations(plan, **options):
        values = {name: getattr(declared, name) for name in ("over", "picks", "axes", "placed")}
        # The core reads what iterates, then `_options`, and later worlds of the plan.
        lists: dict[str, Any] = {
            name: list(it) for name, it in values.items() if isinstance(it, Iterable) and not isinstance(it, str)
        }
        given.append(replace(declared, **lists))
    plans = []
    for of, said in zip(make_blueprint(given, world), given, strict=True):
        items = of.items
        made = [_options(item, of.mesh, said) for item in items]
        text = of.description([each.text for each in made])
        plans.append(MeshPlan(of.name, of.mesh, of.places, items, made, of.lazy, text, said))
    return plans


def _options(item: Item, mesh: Mesh, given: Declaration) -> Options:
    """The options that any declaration of an item says; raises UsageError where two say different ones."""
    sets = [axes for axes in given.over if isinstance(axes, Axes)]
    own = [axes for axes in sets if axes.separate == item.name and set(axes.axes) == set(item.axes)]

    def one(what: str) -> Any:
        said = [value for axes in own if (value := getattr(axes, what)) is not None]
        for other in said[1:]:
            if other != said[0]:
                raise UsageError(f"'{item.text}' of mesh {mesh.text} was given two of {what}: {said[0]} and {other}")
        return said[0] if said else None

    return Options(item.timeout or duration(given.timeout), one("backend"), one("pg_options"))
