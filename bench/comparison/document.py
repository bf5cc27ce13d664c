"""The tables of docs/performance.md, which stand between two comments of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .families import FAMILIES, PARTS, Family, family_of, listed
from .figures import Figures, together
from .rows import Row

BEGIN, END = "<!-- what ./bench/compare --write-docs writes: begin -->", "<!-- end -->"


def number(point: str) -> float:
    return float(point) if point.isdigit() else 0


def size(point: str, unit: str) -> str:
    """8, 512 KiB, 2^20 or a name."""
    if not point.isdigit():
        return point
    value = int(point)
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if unit == "bytes" and value >= 1 << shift:
            return f"{value >> shift} {name}"
    return f"{value} B" if unit == "bytes" else f"{value:,}"


def cell(row: Row) -> str:
    """The ratio with half of its interval; in brackets where it is not resolved, marked where the target is missed."""
    text = f"{row.ratio:.2g}" if row.ratio < 0.01 else f"{row.ratio:.2f}"
    if row.outcome == "not resolved":
        return f"({text}; ±{100 * row.aa:.0f} %)"
    return f"**{text}**" if row.outcome == "missed" else text


def table(family: Family, rows: Sequence[Row]) -> str:
    """A line for each curve, a column for each point."""
    curves = list(dict.fromkeys(row.curve for row in rows))
    points = sorted({row.point for row in rows}, key=lambda point: (number(point), point))
    at = {(row.curve, row.point): cell(row) for row in rows}
    promised = f"at most {family.target:g}"
    if family.from_1_mib is not None:
        promised += f", from 1 MiB on {family.from_1_mib:g}"
    lines = [
        f"**{family.name.rstrip(': ')}**, beside {family.theirs}: {promised}. Lower bound: {family.limit}.",
        "",
        "| | " + " | ".join(size(point, family.unit) or "ratio" for point in points) + " |",
        "|---" * (len(points) + 1) + "|",
    ]
    for curve in curves:
        cells = " | ".join(at.get((curve, point), "") for point in points)
        lines.append(f"| {curve.removeprefix(family.name).strip(' ,') or family.unit or 'ratio'} | {cells} |")
    return "\n".join(lines) + "\n"


def text_of(figures: Figures, pictures: Sequence[str]) -> str:
    about = "; ".join(f"{name} {value or 'absent'}" for name, value in together(figures.runs).items())
    parts = [f"Taken on this machine: {about}.\n"]
    if left := [part for part in PARTS if part.name in figures.absent]:
        parts.append(f"Absent, or not taken to the end: {listed(left)}.\n")
    for name in pictures:
        what = name.removeprefix("compare-").removesuffix(".svg")
        parts.append(f"![Times of rankmesh and of what it stands beside: {what}](pictures/{name})\n")
    for family in FAMILIES:
        if found := [row for row in figures.values if family_of(row.name) is family]:
            parts.append(table(family, found))
    return "\n".join(parts)


def in_document(path: Path, figures: Figures, pictures: Sequence[str]) -> None:
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} lacks the lines '{BEGIN}' and '{END}'")
    path.write_text(f"{before}{BEGIN}\n\n{text_of(figures, pictures)}\n{END}{after}", encoding="utf-8")
