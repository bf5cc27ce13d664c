"""Curves of both sides over ranks, processes or bytes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from .document import size
from .families import family_of
from .rows import Row

# The file, and its panels: a title and the curve that it shows. What rankmesh stands beside is named as in the tables.
PICTURES = {
    "compare-queries.svg": (
        ("coordinate round trip", "coordinate round trip"),
        ("group of a rank", "group of a rank"),
        ("membership", "membership"),
        ("list of all groups", "list of all groups"),
        ("join's bookkeeping", "join's bookkeeping"),
        ("join's memory", "join's memory in bytes"),
    ),
    "compare-bring-up.svg": (
        ("bring-up by join", "bring-up by join beside init_device_mesh"),
        ("start of a world", "start of a world beside TCPStore"),
        ("bring-up on Gloo", "bring-up beside Gloo alone"),
        ("join on MPI", "join on MPI, axes"),
        ("bring-up of threads", "bring-up of threads"),
    ),
    "compare-collectives.svg": (
        ("all_reduce on Gloo from Python, 2 processes", "c10d: all_reduce on 2"),
        ("all_gather on Gloo from Python, 2 processes", "c10d: all_gather on 2"),
        ("broadcast on Gloo from Python, 2 processes", "c10d: broadcast on 2"),
        ("all_reduce on MPI, 2 processes", "MPI: all_reduce on 2"),
        ("all_gather on MPI, 2 processes", "MPI: all_gather on 2"),
        ("all_reduce on Gloo, 2 processes", "Gloo: all_reduce, ring on 2"),
    ),
}
# Curves have a contrast of at least 3 with the page, text of 4.5; theirs is dashed, for who does not see the colour.
STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}"
    ".dim{fill:#59636e}.title{font-weight:bold}"
    ".axis{stroke:#59636e;fill:none}.grid{stroke:#d1d9e0;fill:none}.curve{fill:none;stroke-width:2.5}"
    ".ours{stroke:#0072b2}.theirs{stroke:#c77700;stroke-dasharray:7 4}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}.axis{stroke:#9198a1}.grid{stroke:#3d444d}"
    ".ours{stroke:#4aa8e0}.theirs{stroke:#e69f00}}"
)
WIDE, HIGH, LEFT, HEAD, FOOT, COLUMNS = 380, 160, 78, 66, 52, 2
PITCH = WIDE + LEFT + 24


def label(value: float, unit: str) -> str:
    """A time in nanoseconds, or bytes."""
    units = ("ns", "us", "ms", "s") if unit == "ns" else ("B", "kB", "MB", "GB")
    step = min(int(math.log10(value) + 1e-9) // 3, 3) if value >= 1 else 0
    return f"{value / 1000**step:g} {units[step]}"


def heights(low: float, high: float) -> list[float]:
    """Round numbers from below `low` to above `high`: powers of ten, or where those are few also 2 and 5 times them."""
    for factors in ((1,), (1, 2, 5)):
        first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
        steps = [factor * 10.0**decade for decade in range(first, last + 1) for factor in factors]
        begin = max(i for i, step in enumerate(steps) if step <= low)
        end = min(i for i, step in enumerate(steps) if step >= high)
        if end - begin >= 3:
            every = -(-(end - begin) // 6)
            return steps[end - every * -(-(end - begin) // every) : end + 1 : every]
    begin -= (3 - (end - begin)) // 2
    return steps[begin : begin + 4]


def short(value: float) -> str:
    """1,024, 35.7k or 100M."""
    for one, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= one:
            return f"{value / (1e3 if name == 'k' else one):.3g}{name}"
    return f"{value:,.0f}"


def places(points: Sequence[float], unit: str) -> list[tuple[float, str]]:
    """Where the lines up stand, and what is written there: at points, or over a long way at round numbers."""
    low, high = points[0], points[-1]
    if unit == "bytes":
        at = [2.0**exponent for exponent in range(0, 60, 4) if low <= 2**exponent <= high]
        return [(value, size(f"{value:.0f}", unit)) for value in at]
    if high / low > 1e6:
        at = [10.0**decade for decade in range(0, 19, 2) if low <= 10**decade <= high]
    else:
        at = list(points[:: -(-len(points) // 8)])
    return [(value, short(value)) for value in at]


def legend(x: int, y: int, side: str, name: str) -> str:
    return f'<path d="M{x} {y - 4}h28" class="curve {side}"/><text x="{x + 36}" y="{y}">{escape(name)}</text>\n'


def panel(title: str, rows: Sequence[Row], x0: int, top: int) -> str:
    """Both sides' medians, on logarithmic scales."""
    family = family_of(rows[0].name)
    points = sorted(((max(float(row.point), 1), row) for row in rows), key=lambda point: point[0])
    values = [value for row in rows for value in (row.ours, row.theirs)]
    steps = heights(min(values), max(values))
    y0 = top + HEAD + HIGH

    def across(x: float) -> float:
        whole = math.log(points[-1][0] / points[0][0]) or 1
        return x0 + WIDE * math.log(x / points[0][0]) / whole

    def up(value: float) -> float:
        return y0 - HIGH * math.log(value / steps[0]) / math.log(steps[-1] / steps[0])

    shown = f'<text x="{x0}" y="{top + 12}" class="title">{escape(title)}</text>\n'
    shown += legend(x0, top + 32, "ours", "rankmesh") + legend(x0, top + 50, "theirs", family.theirs)
    for step in steps:
        text = label(step, "bytes" if "bytes" in rows[0].curve else "ns")
        shown += f'<path d="M{x0} {up(step):.1f}h{WIDE}" class="grid"/>'
        shown += f'<text x="{x0 - 8}" y="{up(step) + 4:.1f}" text-anchor="end" class="dim">{text}</text>\n'
    for x, text in places([x for x, _ in points], family.unit):
        shown += f'<path d="M{across(x):.1f} {y0}v-{HIGH}" class="grid"/>'
        shown += f'<text x="{across(x):.1f}" y="{y0 + 18}" text-anchor="middle" class="dim">{text}</text>\n'
    shown += f'<path d="M{x0} {y0 - HIGH}V{y0}H{x0 + WIDE}" class="axis"/>\n'
    shown += f'<text x="{x0 + WIDE / 2:.0f}" y="{y0 + 36}" text-anchor="middle">{family.unit}</text>\n'
    for side in ("theirs", "ours"):
        line = " ".join(f"{across(x):.1f},{up(getattr(row, side)):.1f}" for x, row in points)
        shown += f'<polyline points="{line}" class="curve {side}"/>\n'
    return shown


def picture(panels: Sequence[tuple[str, Sequence[Row]]]) -> str:
    lines = -(-len(panels) // COLUMNS)
    wide, high = COLUMNS * PITCH + 48, lines * (HEAD + HIGH + FOOT) + 12
    titles = escape("; ".join(title for title, _ in panels))
    shown = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    shown += f' role="img">\n<title>Medians on logarithmic scales: {titles}</title>\n<style>{STYLE}</style>\n'
    for number, (title, rows) in enumerate(panels):
        line, column = divmod(number, COLUMNS)
        shown += panel(title, rows, LEFT + column * PITCH, 8 + line * (HEAD + HIGH + FOOT))
    return shown + "</svg>\n"


def draw(folder: Path, rows: Sequence[Row]) -> list[str]:
    """Each picture of which a curve of two points or more was taken; gives their names."""
    drawn = []
    for name, wanted in PICTURES.items():
        panels = [
            (title, [row for row in rows if row.curve == curve and row.point.isdigit()]) for title, curve in wanted
        ]
        panels = [(title, found) for title, found in panels if len(found) > 1]
        if panels:
            (folder / name).write_text(picture(panels), encoding="utf-8")
            drawn.append(name)
    return drawn
