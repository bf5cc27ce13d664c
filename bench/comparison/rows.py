"""Times taken in turn become rows: a ratio, the interval of its median, and what the machine alone makes of 1."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and the interval in which that of such values lies at 95 %, by order statistics.

    Of up to five values that is from the least to the largest, which says less.
    """
    ordered, n = sorted(values), len(values)
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach) - 1)
    return statistics.median(ordered), ordered[low], ordered[max(low, high)]


@dataclass(frozen=True)
class Row:
    """What is compared, both sides' medians, ours / theirs with its interval, and the half-width of theirs / theirs."""

    name: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    aa: float
    target: float

    @property
    def curve(self) -> str:
        """What its points share; the point is a number of ranks or bytes, or a name."""
        return self.name.rpartition("/")[0] or self.name

    @property
    def point(self) -> str:
        return self.name.rpartition("/")[2] if "/" in self.name else ""

    @property
    def outcome(self) -> str:
        """`met` or `missed`; `not resolved` where the noise is as large as what is between the ratio and the target."""
        if self.aa > abs(self.target / self.ratio - 1) or self.low <= self.target < self.high:
            return "not resolved"
        return "met" if self.ratio <= self.target else "missed"


def row_of(name: str, ours: Sequence[float], theirs: Sequence[float], again: Sequence[float], target: float) -> Row:
    """The row of times by round, in which ours stand beside the mean of both of theirs."""
    ratio, low, high = interval([2 * a / (b + c) for a, b, c in zip(ours, theirs, again, strict=True)])
    _, least, most = interval([b / c for b, c in zip(theirs, again, strict=True)])
    aa = max(1 - least, most - 1, 0.0)
    return Row(name, statistics.median(ours), statistics.median([*theirs, *again]), ratio, low, high, aa, target)


def rows_of(lines: str, target_of: Callable[[str], float]) -> list[Row]:
    """The rows of the lines that benchmarks wrote."""
    samples = (json.loads(line) for line in lines.splitlines())
    return [
        row_of(each["name"], each["ours"], each["theirs"], each["again"], target_of(each["name"])) for each in samples
    ]


def growth(rows: Sequence[Row], curve: str, name: str, work_of: Callable[[int], float], target: float) -> list[Row]:
    """How a rank's part of a curve's times grows from the curve's first point on, beside how its work does.

    All ranks share the processors of one machine, so a rank's part is the time over the number of ranks.
    """
    points = sorted((int(row.point), row) for row in rows if row.curve == curve)
    found = []
    for size, row in points[1:]:
        first, least = points[0]
        ours = row.ours / size / (least.ours / first)
        theirs = work_of(size) / work_of(first)
        wide = (row.high / row.low * least.high / least.low) ** 0.5
        ratio = ours / theirs
        found.append(Row(f"{name}/{size}", ours, theirs, ratio, ratio / wide, ratio * wide, row.aa + least.aa, target))
    return found


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [asdict(row) | {"outcome": row.outcome} for row in rows]


def from_json(rows: Sequence[dict[str, object]]) -> list[Row]:
    return [Row(**{key: value for key, value in row.items() if key != "outcome"}) for row in rows]  # type: ignore[arg-type]
