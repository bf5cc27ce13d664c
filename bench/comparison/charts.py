"""Curves of both sides over ranks, processes or bytes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from .families import family_of
from .rows import Row

# The file, and its panels: a title and the curve that it shows.
PICTURES = {
    "compare-queries.svg": (
        ("coordinate round trip, beside MPI_Cart", "coordinate round trip"),
        ("group of a rank, beside its coordinate", "group of a rank"),
        ("membership, beside a coordinate", "membership"),
        ("list of all groups, beside memset", "list of all groups"),
        ("join's bookkeeping, beside 8 ranks'", "join's bookkeeping"),
        ("join's memory in bytes", "join's memory in bytes"),
    ),
    "compare-bring-up.svg": (
        ("join, beside init_device_mesh", "bring-up by join beside init_device_mesh"),
        ("start of a world, beside TCPStore", "start of a world beside TCPStore"),
        ("bring-up, beside Gloo alone", "bring-up beside Gloo alone"),
        ("join on MPI, beside its own calls", "join on MPI, axes"),
        ("threads, beside std::thread", "bring-up of threads"),
    ),
    "compare-collectives.svg": (
        ("all_reduce on 2, beside c10d", "c10d: all_reduce on 2"),
        ("all_gather on 2, beside c10d", "c10d: all_gather on 2"),
        ("broadcast on 2, beside c10d", "c10d: broadcast on 2"),
        ("all_reduce on 2, beside MPI", "MPI: all_reduce on 2"),
        ("all_gather on 2, beside MPI", "MPI: all_gather on 2"),
        ("all_reduce on 2, beside bare Gloo", "Gloo: all_reduce, ring on 2"),
    ),
}
STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}.dim{fill:#656d76}"
    ".axis{stroke:#656d76;stroke-width:1;fill:none}.curve{fill:none;stroke-width:2.5}.ours{stroke:#0072b2}.theirs{stroke:#e69f00}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#8b949e}.axis{stroke:#8b949e}}"
)
WIDE, HIGH, LEFT, TOP, COLUMNS = 270, 150, 70, 56, 2


def label(value: float, unit: str) -> str:
    """A power of ten in nanoseconds or bytes."""
    units = ("ns", "us", "ms", "s") if unit == "ns" else ("B", "kB", "MB", "GB")
    step = min(int(math.log10(value) // 3), 3) if value >= 1 else 0
    return f"{value / 1000**step:g} {units[step]}"


def panel(title: str, rows: Sequence[Row], x0: int, y0: int) -> str:
    """Both sides' medians, on logarithmic scales."""
    unit = family_of(rows[0].name).unit
    points = sorted((max(float(row.point), 1), row) for row in rows)
    xs = [math.log(x) for x, _ in points]
    values = [value for row in rows for value in (row.ours, row.theirs)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)

    def place(x: float, value: float) -> str:
        across = (x - xs[0]) / ((xs[-1] - xs[0]) or 1)
        return f"{x0 + WIDE * across:.1f},{y0 - HIGH * (math.log10(value) - low) / (high - low):.1f}"

    shown = f'<text x="{x0}" y="{y0 - HIGH - 12}">{title}</text>\n'
    shown += f'<path d="M{x0} {y0 - HIGH}V{y0}H{x0 + WIDE}" class="axis"/>\n'
    for decade in range(low, high + 1, max(1, (high - low) // 4)):
        y = y0 - HIGH * (decade - low) / (high - low)
        text = label(10.0**decade, "bytes" if "bytes" in rows[0].curve else "ns")
        shown += f'<text x="{x0 - 8}" y="{y + 4:.0f}" text-anchor="end" class="dim">{text}</text>\n'
    for anchor, x, (at, _) in (("start", x0, points[0]), ("end", x0 + WIDE, points[-1])):
        shown += f'<text x="{x}" y="{y0 + 18}" text-anchor="{anchor}" class="dim">{at:,.0f}</text>\n'
    shown += f'<text x="{x0 + WIDE / 2:.0f}" y="{y0 + 18}" text-anchor="middle" class="dim">{unit}</text>\n'
    for side in ("theirs", "ours"):
        line = " ".join(place(x, getattr(row, side)) for x, (_, row) in zip(xs, points, strict=True))
        shown += f'<polyline points="{line}" class="curve {side}"/>\n'
    return shown


def picture(panels: Sequence[tuple[str, Sequence[Row]]]) -> str:
    lines = -(-len(panels) // COLUMNS)
    wide, high = 20 + COLUMNS * (WIDE + LEFT + 20), 30 + lines * (HIGH + TOP + 30)
    shown = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    shown += ' role="img">\n'
    shown += f"<title>{'; '.join(title for title, _ in panels)}</title>\n<style>{STYLE}</style>\n"
    for number, (side, name) in enumerate((("ours", "rankmesh"), ("theirs", "the other"))):
        x = LEFT + 130 * number
        shown += f'<path d="M{x} 16h24" class="curve {side}"/><text x="{x + 32}" y="20">{name}</text>\n'
    for number, (title, rows) in enumerate(panels):
        x0 = LEFT + 10 + number % COLUMNS * (WIDE + LEFT + 20)
        shown += panel(title, rows, x0, 30 + TOP + HIGH + number // COLUMNS * (HIGH + TOP + 30) - 16)
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
