"""Which sizes of a mesh's axes fit a world of another size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rankmesh._core import Mesh
from rankmesh._errors import UsageError
from rankmesh._plan import Declaration

MOST_SHOWN = 4


def unfit(given: Sequence[Declaration], size: int, why: UsageError) -> UsageError:
    """Returns the error of a plan that does not fit the world of this size, with the sizes that do."""
    text = f"the plan does not fit the new world: {why}"
    if len(given) == 1 and (axes := _axes(given[0].mesh)):
        fits = [" ".join(f"{axis}={n}" for axis, n in zip(axes, sizes, strict=True)) for sizes in _nearest(axes, size)]
        if rest := _with_rest(axes, size):
            fits.append(f"{rest} with partial=True")
        text += f"; sizes that fit are {', '.join(fits)}"
    return UsageError(f"{text}; to go on, call rankmesh.torch.init with a plan that fits")


def _axes(mesh: str | Mesh | Mapping[str, int | str]) -> dict[str, int | None]:
    """The sizes of the axes, None for '*'; empty for a mesh that is more than sizes, such as one with strides."""
    text = mesh.text if isinstance(mesh, Mesh) else mesh
    pairs = [each.partition("=")[::2] for each in text.split()] if isinstance(text, str) else list(text.items())
    sizes = {axis: None if str(n) == "*" else int(n) if str(n).isdecimal() else 0 for axis, n in pairs}
    return {} if 0 in sizes.values() or len(sizes) != len(pairs) else sizes


def _factors(size: int, axes: int) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        yield (size,)
        return
    for first in range(1, size + 1):
        if size % first == 0:
            for rest in _factors(size // first, axes - 1):
                yield (first, *rest)


def _nearest(axes: Mapping[str, int | None], size: int) -> list[tuple[int, ...]]:
    """The sizes with this product that change the fewest axes, and those least."""

    def change(sizes: tuple[int, ...]) -> tuple[int, float]:
        ratios = [abs(math.log(n / was)) for n, was in zip(sizes, axes.values(), strict=True) if was not in (None, n)]
        return len(ratios), sum(ratios)

    return sorted(_factors(size, len(axes)), key=change)[:MOST_SHOWN]


def _with_rest(axes: Mapping[str, int | None], size: int) -> str:
    """The mesh with only the axis '*', or the first, made smaller, which leaves ranks out; '' if none fits."""
    free = next((axis for axis, n in axes.items() if n is None), next(iter(axes)))
    others = math.prod(n for axis, n in axes.items() if axis != free and n is not None)
    if others > size or size % others == 0:
        return ""
    return " ".join(f"{axis}={size // others if axis == free else n}" for axis, n in axes.items())
