"""Where the parts of a tensor lie: the boxes of a mesh's ranks, and the ranks that hold a box."""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rankmesh._errors import UsageError

Box = tuple[tuple[int, int], ...]
"""For each dimension the first index and the index after the last."""


def elements(box: Box) -> int:
    """Returns the number of elements of a box; 1 without dimensions."""
    return math.prod(end - begin for begin, end in box)


@functools.cache
def chunks(size: int, counts: tuple[int, ...], multiple: int) -> list[tuple[int, int]]:
    """Returns the ranges into which a dimension is cut, as torch's Shard does: ceil(size / count) each, the last ones
    shorter or empty; then each range again for the next count.

    With a `multiple` the counts cut once, and each length is a multiple of it, as in Megatron's vocabulary.
    """
    counts = (math.prod(counts),) if multiple > 1 else counts
    ranges = [(0, size)]
    for count in counts:
        cut = []
        for begin, end in ranges:
            each = -(-(end - begin) // (count * multiple)) * multiple
            cut += [(min(begin + i * each, end), min(begin + (i + 1) * each, end)) for i in range(count)]
        ranges = cut
    return ranges


@functools.cache
def _edges(size: int, counts: tuple[int, ...], multiple: int) -> tuple[list[int], list[int]]:
    ranges = chunks(size, counts, multiple)
    return [begin for begin, _ in ranges], [end for _, end in ranges]


class Window(NamedTuple):
    """The rows `begin` to `end` of one dimension: the place of a part in a tensor of several."""

    dim: int
    begin: int
    end: int


class Layout(NamedTuple):
    """One part of a tensor over a mesh, as it is announced to other ranks."""

    ranks: tuple[int, ...]  # of the mesh, row-major
    sizes: tuple[int, ...]  # of the mesh
    shape: tuple[int, ...]  # of the whole tensor
    cuts: tuple[tuple[int, ...], ...]  # for each dimension of the tensor the dimensions of the mesh that cut it
    multiples: tuple[int, ...]  # for each dimension: 1, or the multiple of Megatron's padding
    window: Window | None = None

    @property
    def part(self) -> tuple[int, ...]:
        """The shape of the part."""
        if self.window is None:
            return self.shape
        dim, begin, end = self.window
        return (*self.shape[:dim], end - begin, *self.shape[dim + 1 :])


def merged(layouts: Sequence[Layout]) -> Layout | None:
    """Returns the layout of all replicas of equal layouts on disjoint meshes; None if the layouts differ."""
    first = layouts[0]
    if any(each._replace(ranks=first.ranks) != first for each in layouts):
        return None
    if len(layouts) == 1:
        return first
    ranks = tuple(itertools.chain.from_iterable(each.ranks for each in sorted(layouts)))
    cuts = tuple(tuple(1 + axis for axis in cut) for cut in first.cuts)
    return first._replace(ranks=ranks, sizes=(len(layouts), *first.sizes), cuts=cuts)


class Geometry:
    """The boxes and the holders of a layout, in indices of the part."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.place = {rank: i for i, rank in enumerate(layout.ranks)}
        if len(self.place) != len(layout.ranks):
            raise UsageError(f"a mesh has a rank twice: {list(layout.ranks)}; a rank holds one shard of a tensor")
        self._strides = [math.prod(layout.sizes[i + 1 :]) for i in range(len(layout.sizes))]
        self._counts = [tuple(layout.sizes[axis] for axis in cut) for cut in layout.cuts]
        used = set(itertools.chain.from_iterable(layout.cuts))
        free = (range(size) for axis, size in enumerate(layout.sizes) if axis not in used)
        strides = [stride for axis, stride in enumerate(self._strides) if axis not in used]
        self._replicas = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in itertools.product(*free)]
        self._holders: dict[tuple[int, ...], tuple[int, ...]] = {}

    def __contains__(self, rank: int) -> bool:
        return rank in self.place

    def chunk(self, rank: int) -> tuple[int, ...]:
        """Returns the number of a rank's chunk in each dimension."""
        place, layout = self.place[rank], self.layout
        numbers = []
        for cut in layout.cuts:
            number = 0
            for axis in cut:
                number = number * layout.sizes[axis] + place // self._strides[axis] % layout.sizes[axis]
            numbers.append(number)
        return tuple(numbers)

    def whole(self, chunk: Sequence[int]) -> Box:
        """Returns the box of a chunk in indices of the whole tensor."""
        layout = self.layout
        cuts = zip(layout.shape, self._counts, layout.multiples, chunk, strict=True)
        return tuple(chunks(size, counts, multiple)[number] for size, counts, multiple, number in cuts)

    def box(self, chunk: Sequence[int]) -> Box:
        """Returns the box of a chunk, which may be empty."""
        box = self.whole(chunk)
        if self.layout.window is None:
            return box
        dim, first, last = self.layout.window
        begin = min(max(box[dim][0], first), last) - first
        end = min(max(box[dim][1], first), last) - first
        return (*box[:dim], (begin, end), *box[dim + 1 :])

    def span(self, box: Box) -> list[tuple[int, int]]:
        """Returns for each dimension the first chunk that overlaps a box, and the chunk after the last."""
        layout, spans = self.layout, []
        for dim, (begin, end) in enumerate(box):
            first = self._first(dim)
            begins, ends = _edges(layout.shape[dim], self._counts[dim], layout.multiples[dim])
            spans.append((bisect_right(ends, begin + first), bisect_left(begins, end + first)))
        return spans

    def _first(self, dim: int) -> int:
        window = self.layout.window
        return window.begin if window is not None and window.dim == dim else 0

    def cover(self, box: Box) -> Iterator[tuple[tuple[int, ...], Box]]:
        """Yields the chunks that overlap a box, row-major, each with the elements that both have."""
        if elements(box) == 0:
            return
        layout = self.layout
        along: list[list[tuple[int, tuple[int, int]]]] = []
        for dim, ((begin, end), (low, high)) in enumerate(zip(box, self.span(box), strict=True)):
            first = self._first(dim)
            ranges = chunks(layout.shape[dim], self._counts[dim], layout.multiples[dim])
            common = [(n, (max(ranges[n][0] - first, begin), min(ranges[n][1] - first, end))) for n in range(low, high)]
            along.append([each for each in common if each[1][0] < each[1][1]])
        for each in itertools.product(*along):
            yield tuple(number for number, _ in each), tuple(common for _, common in each)

    def holders(self, chunk: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the ranks that hold a chunk, in ascending order."""
        if chunk not in self._holders:
            layout, place = self.layout, 0
            for number, cut in zip(chunk, layout.cuts, strict=True):
                for axis in reversed(cut):
                    place += number % layout.sizes[axis] * self._strides[axis]
                    number //= layout.sizes[axis]
            self._holders[chunk] = tuple(sorted(layout.ranks[place + more] for more in self._replicas))
        return self._holders[chunk]
