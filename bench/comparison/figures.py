"""What runs of ./bench/compare have taken on one machine, and the file that holds it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .rows import Row, as_json, from_json

Run = dict[str, str]  # the machine that a run was on, the versions of what it compared, and its day


def counted(rows: int) -> str:
    return f"{rows} row{'' if rows == 1 else 's'}"


def together(runs: Sequence[Run]) -> Run:
    """What is true of all of these runs: each thing's values, of numbers the least and the greatest."""
    found: Run = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [*dict.fromkeys(run[name] for run in runs if run.get(name))]
        try:
            ordered = sorted(values, key=float)
            found[name] = f"{ordered[0]} to {ordered[-1]}" if len(ordered) > 1 else "".join(ordered)
        except ValueError:
            found[name] = ", ".join(values)
    return found


@dataclass
class Figures:
    """Rows by name, each with the run that took it."""

    quick: bool = False
    rows: dict[str, tuple[Row, Run]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    """the parts that were taken to their end"""
    absent: dict[str, str] = field(default_factory=dict)
    """the parts that were not, and why"""

    @property
    def values(self) -> list[Row]:
        return [row for row, _ in self.rows.values()]

    @property
    def runs(self) -> list[Run]:
        distinct: list[Run] = []
        for _, run in self.rows.values():
            if run not in distinct:
                distinct.append(run)
        return distinct

    @property
    def processors(self) -> str:
        """How many of which model: what makes a machine another one."""
        return together(self.runs).get("processors", "")

    def drop_others(self, run: Run, quick: bool) -> str:
        """Drops what was taken on another machine, or in a quick run where this one is none; says so, or nothing."""
        if self.rows and self.processors != run["processors"]:
            said = (
                f"dropped {counted(len(self.rows))} of another machine, {self.processors}: this is {run['processors']}"
            )
        elif self.rows and self.quick and not quick:
            said = f"dropped {counted(len(self.rows))} that --quick took"
        else:
            said = ""
        if said or not self.rows:
            self.rows, self.ended, self.absent, self.quick = {}, [], {}, quick
        return said

    def add(self, part: str, taken: Sequence[Row], run: Run, why: str = "") -> None:
        """Puts a part's rows in the place of those of the same names; `why` it came to no end, or nothing."""
        self.rows.update({row.name: (row, run) for row in taken})
        if not why and part not in self.ended:
            self.ended.append(part)
        if part in self.ended:
            self.absent.pop(part, None)
        else:
            self.absent[part] = why

    def add_all(self, other: Figures) -> None:
        """Puts the rows of later runs in the place of those of the same names."""
        self.rows.update(other.rows)
        self.ended += [part for part in other.ended if part not in self.ended]
        self.absent = {part: why for part, why in (self.absent | other.absent).items() if part not in self.ended}

    def as_json(self) -> dict[str, Any]:
        runs = self.runs
        rows = zip(as_json(self.values), (runs.index(run) for _, run in self.rows.values()), strict=True)
        return {
            "machine": together(runs),
            "quick": self.quick,
            "absent": [f"{part}: {why}" for part, why in self.absent.items()],
            "ended": self.ended,
            "runs": runs,
            "rows": [row | {"run": run} for row, run in rows],
        }

    def write(self, file: Path) -> None:
        """At once: who stops it leaves what was there."""
        made = self.as_json()
        rows = ",\n".join(f"  {json.dumps(row)}" for row in made.pop("rows"))
        head = json.dumps(made, indent=1).removesuffix("\n}")
        beside = file.with_name(f"{file.name}.{os.getpid()}")
        beside.write_text(f'{head},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
        beside.replace(file)


def read(file: Path) -> Figures:
    """What the file holds; nothing where there is none."""
    if not file.is_file():
        return Figures()
    try:
        made = json.loads(file.read_text(encoding="utf-8"))
        runs = made.get("runs", [made["machine"]])
        of = [runs[row.pop("run", 0)] for row in made["rows"]]
        rows = {row.name: (row, run) for row, run in zip(from_json(made["rows"]), of, strict=True)}
        absent = {part: why for part, _, why in (each.partition(": ") for each in made["absent"])}
        return Figures(made["quick"], rows, made.get("ended", []), absent)
    except (ValueError, LookupError, TypeError, AttributeError) as why:
        raise SystemExit(
            f"{file} is not what ./bench/compare writes ({why!r}); delete it, or give another --out"
        ) from why
