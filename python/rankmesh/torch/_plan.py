"""A plan as all ranks must agree on it: which groups each mesh gets, in one order on every rank."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import rankmesh._plan
from rankmesh._core import Group, Mesh, Placement, mesh_in
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._plan import Declaration, Pick
from rankmesh.torch._agree import seconds

MOST_PLACED = 16  # ranks of a placement that a description lists


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


@dataclass(frozen=True)
class Item:
    """What gets a process group: a set of axes, a part of each group along one axis, or the ranks on one host."""

    axes: tuple[str, ...]
    bits: int
    at: tuple[int, ...] = ()
    name: str = ""
    local: bool = False
    timeout: datetime.timedelta | None = None
    backend: str | None = None
    pg_options: Any = None

    @property
    def text(self) -> str:
        """'dp,tp', or the name of a pick, a separate group or the ranks on one host."""
        return self.name or ",".join(self.axes)

    @property
    def separate(self) -> bool:
        """True if its group is never that of another set of equal ranks."""
        return bool(self.name) and not self.at and not self.local

    @property
    def options(self) -> tuple[object, ...]:
        """What two items must have in common to share a group."""
        return self.timeout, self.backend, id(self.pg_options) if self.pg_options is not None else None

    def same(self, other: Item) -> bool:
        """True if both are the same item, declared twice."""
        return (self.axes, self.at, self.name, self.local) == (other.axes, other.at, other.name, other.local)


@dataclass(frozen=True)
class MeshPlan:
    """One mesh of a plan in a world of known size, its items in one order and without repeats."""

    name: str
    mesh: Mesh
    places: Mesh | Placement
    items: tuple[Item, ...]
    lazy: bool
    timeout: datetime.timedelta | None

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
        """'; in mesh dp=4 that is 0 [dp=0]': the coordinates of ranks, for an error."""
        inside = [f"{rank} [{self.places.coord(rank)}]" for rank in ranks if rank in self.places]
        shown = ", ".join(inside[:MOST_PLACED]) + (", ..." if len(inside) > MOST_PLACED else "")
        return f"; in mesh {self.mesh.text} that is {shown}" if inside else ""

    @property
    def text(self) -> str:
        """One line that is equal exactly if everything that ranks must agree on is equal."""
        text = (f"{self.name}: " if self.name else "") + self.mesh.text
        if isinstance(self.places, Placement):
            ranks = list(self.places.ranks)
            text += " @[" + ",".join(map(str, ranks[:MOST_PLACED]))
            if len(ranks) > MOST_PLACED:
                text += ",... #" + hashlib.sha256(repr(ranks).encode()).hexdigest()[:16]
            text += "]"
        words = []
        for item in self.items:
            word = "local ranks" if item.local else ",".join(item.axes)
            word += f"[{','.join(map(str, item.at))}]" if item.at else ""
            word += f" as {item.name}" if item.name else ""
            word += f" within {seconds(item.timeout)}" if item.timeout is not None else ""
            word += f" on {item.backend}" if item.backend is not None else ""
            word += f" with {type(item.pg_options).__name__}" if item.pg_options is not None else ""
            words.append(word)
        return text + (", over " + "; ".join(words) if words else "") + (", lazy" if self.lazy else "")


def read(
    plan: tuple[str | Mesh | Mapping[str, int | str] | Declaration, ...], options: dict[str, Any], world: int
) -> list[MeshPlan]:
    """The meshes of what `World.join` takes, in a world of this size; raises UsageError for what cannot be."""
    if len(plan) == 1 and not isinstance(plan[0], Declaration):
        declarations = [Declaration(plan[0], **options)]
    else:
        given = [name for name, value in options.items() if value not in ("", (), None, False)]
        if given:
            raise UsageError(f"the options of a Declaration are its own; give {', '.join(given)} there")
        declarations = [each if isinstance(each, Declaration) else Declaration(each) for each in plan]
    if not declarations:
        raise UsageError("a plan without meshes; declare at least one")
    meshes: list[MeshPlan] = []
    for each in declarations:
        if len(declarations) > 1 or each.name:
            Mesh({each.name: 1})  # refuses what is no name
        if any(each.name == other.name for other in meshes):
            raise UsageError(f"two meshes of the plan are named '{each.name}'; give each a name of its own")
        meshes.append(_mesh(each, world))
    return meshes


def duration(given: float | datetime.timedelta | None) -> datetime.timedelta | None:
    """A timeout as torch takes it; None for none."""
    if given is None or isinstance(given, datetime.timedelta):
        made = given
    elif isinstance(given, (int, float)):
        made = datetime.timedelta(seconds=given)
    else:
        kind = type(given).__name__
        raise UsageTypeError(
            f"the timeout is {given!r}, which is {kind}; it must be a number of seconds, or a timedelta"
        )
    if made is not None and made <= datetime.timedelta():
        raise UsageError(f"the timeout is {made.total_seconds():g} s; it must be positive")
    return made


def _mesh(given: Declaration, world: int) -> MeshPlan:
    if not isinstance(given.mesh, (str, Mesh, Mapping)):
        kind = type(given.mesh).__name__
        raise UsageTypeError(
            f"a mesh is {given.mesh!r}, which is {kind}; it must be a str, a mapping, a Mesh or a Declaration"
        )
    mesh = mesh_in(given.mesh, world)
    if mesh.size > world:
        raise UsageError(f"mesh {mesh.text} needs {mesh.size} ranks; the world has {world}")
    placed = list(given.placed)
    places = Placement(mesh, placed) if placed else mesh
    last = max(placed) if placed else mesh.extent - 1
    if last >= world:
        raise UsageError(f"mesh {mesh.text} reaches rank {last}; the world has ranks 0..{world - 1}")
    if mesh.size < world and not given.partial:
        raise UsageError(
            f"mesh {mesh.text} covers {mesh.size} of the world's {world} ranks; make a size '*', "
            "or say partial=True to leave ranks out"
        )
    timeout = duration(given.timeout)
    items = tuple(replace(item, timeout=item.timeout or timeout) for item in _kept(_items(mesh, given), mesh))
    return MeshPlan(given.name, mesh, places, items, given.lazy, timeout)


def _set_of(mesh: Mesh, names: Iterable[str]) -> Item:
    wanted = set(names)
    for name in wanted:
        mesh.size_of(name)
    if not wanted:
        raise UsageError(f"a set of axes of mesh {mesh.text} is empty; name at least one axis")
    found = [(i, axis) for i, axis in enumerate(mesh.axes) if axis in wanted]
    return Item(tuple(axis for _, axis in found), sum(1 << i for i, _ in found))


def _items(mesh: Mesh, given: Declaration) -> Iterator[Item]:
    taken: set[str] = set()

    def named(name: str) -> str:
        Mesh({name: 1})
        if name in mesh.axes:
            raise UsageError(
                f"the name '{name}' of a pick, separate group or local ranks is an axis of mesh {mesh.text}"
            )
        if name in taken:
            raise UsageError(f"two picks, separate groups or local ranks are named '{name}'")
        taken.add(name)
        return name

    for axis in mesh.axes if given.axes is None else given.axes:
        yield _set_of(mesh, [axis])
    for axes in given.over:
        if isinstance(axes, rankmesh._plan.Axes):
            yield replace(
                _set_of(mesh, axes.axes),
                name=named(axes.separate) if axes.separate else "",
                timeout=duration(axes.timeout),
                backend=axes.backend if isinstance(axes, Axes) else None,
                pg_options=axes.pg_options if isinstance(axes, Axes) else None,
            )
        elif isinstance(axes, Iterable):
            yield _set_of(mesh, [axes] if isinstance(axes, str) else axes)
        else:
            raise UsageTypeError(
                f"a set of axes is {axes!r}, which is {type(axes).__name__}; it must be Axes, or names"
            )
    for pick in given.picks:
        yield replace(_set_of(mesh, [pick.of]), at=_picked(mesh, pick), name=named(pick.name))
    if given.local:
        yield Item((), 0, name=named(given.local), local=True)


def _picked(mesh: Mesh, pick: Pick) -> tuple[int, ...]:
    size = mesh.size_of(pick.of)
    given = list(pick.at)
    if not given:
        raise UsageError(f"pick '{pick.name}' of axis '{pick.of}' lists no index")
    for index in given:
        if not -size <= index < size:
            raise UsageError(
                f"pick '{pick.name}' asks for index {index} of axis '{pick.of}'; it has {-size}..{size - 1}"
            )
    return tuple(sorted({index % size for index in given}))


def _kept(items: Iterable[Item], mesh: Mesh) -> list[Item]:
    """The items in one order, each once, with what any of its declarations says."""
    kept: list[Item] = []
    for item in sorted(items, key=lambda item: (item.local, item.at, item.name, item.bits)):
        if not kept or not kept[-1].same(item):
            kept.append(item)
            continue
        for what in ("timeout", "backend", "pg_options"):
            before, now = getattr(kept[-1], what), getattr(item, what)
            if before is not None and now is not None and before != now:
                raise UsageError(f"'{item.text}' of mesh {mesh.text} was given two of {what}: {before} and {now}")
            if now is not None:
                kept[-1] = replace(kept[-1], **{what: now})
    return kept
