"""Reproducible sums, locations and exclusive scans: threads are the ranks here."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from rankmesh import Communicator, World, run

np = pytest.importorskip("numpy", reason="NumPy is not installed")


def group_of(world: World) -> Communicator:
    return world.join("dp=*").on("dp")


def exact(values: np.ndarray) -> float:
    """The sum of finite numbers, rounded once: the quotient of two ints is the nearest float."""
    total = sum((Fraction(float(value)) for value in values), Fraction(0))
    return total.numerator / total.denominator


def drawn(seed: int, count: int, span: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.standard_normal(count) * np.exp2(random.integers(-span, span, count))


def bits(value: float) -> bytes:
    return struct.pack("d", value)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("span", [1, 40, 500])
def test_reproducible_sum_when_spread_is_the_nearest_number(size: int, span: int) -> None:
    for seed, count in enumerate([0, 1, 10, 3000]):
        values = drawn(seed, count, span)
        cuts = np.sort(np.random.default_rng(seed).integers(0, count + 1, size - 1))
        shares = np.split(values, cuts)
        others = np.split(values[::-1].copy(), cuts)

        def program(
            world: World,
            shares: list[np.ndarray] = shares,
            others: list[np.ndarray] = others,
            values: np.ndarray = values,
        ) -> None:
            on = group_of(world)
            assert bits(on.reproducible_sum(shares[on.rank])) == bits(exact(values))
            dot = on.reproducible_dot(shares[on.rank], others[on.rank])
            assert bits(dot) == bits(exact(values * values[::-1]))
            columns = np.stack([shares[on.rank], others[on.rank]], axis=1)
            assert bits(on.reproducible_sum(columns[:, 0])) == bits(exact(values))
            assert bits(on.reproducible_dot(columns[:, 0], columns[:, 1])) == bits(dot)

        run(size, program)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_reduce_when_reproducible_is_the_nearest_number(size: int) -> None:
    parts = np.stack([drawn(seed, 50, 100) for seed in range(size)])
    want = np.array([exact(column) for column in parts.T])

    def program(world: World) -> None:
        on = group_of(world)
        out = on.all_reduce(parts[on.rank], np.empty(50), "reproducible_sum")
        assert out.tobytes() == want.tobytes()
        started = on.start_all_reduce(parts[on.rank].copy(), reduction="reproducible_sum").wait()
        assert started.tobytes() == want.tobytes()
        listed = [parts[on.rank][:20].copy(), parts[on.rank][20:].copy()]
        on.all_reduce(listed, reduction="reproducible_sum")
        assert np.concatenate(listed).tobytes() == want.tobytes()

    run(size, program)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.uint16])
def test_locations_when_values_are_equal_have_the_lowest_index(dtype: Any) -> None:
    parts = (np.arange(3)[:, None] * 5 + np.arange(12) * 3) % 4
    parts = parts.astype(dtype)
    if np.issubdtype(dtype, np.floating):
        parts[1, 7] = np.nan

    def program(world: World) -> None:
        on = group_of(world)
        for name, where in (("min_location", np.argmin), ("max_location", np.argmax)):
            values, indices = parts[on.rank].copy(), np.full(12, on.rank)
            returned = getattr(on, name)(values, indices)
            assert returned[0] is values
            assert returned[1] is indices
            assert np.array_equal(indices, where(parts, axis=0))
            assert np.array_equal(values, parts[indices, np.arange(12)], equal_nan=values.dtype.kind == "f")

    run(3, program)


def test_exclusive_scan_when_on_rank_zero_is_the_reduction_of_nothing() -> None:
    def program(world: World) -> None:
        on = group_of(world)
        rank = on.rank
        assert on.exclusive_scan(np.array([rank + 1]))[0] == sum(range(1, rank + 1))
        assert on.start_exclusive_scan(np.array([2.0]), np.empty(1), "prod").wait()[0] == 2.0**rank
        least = on.exclusive_scan(np.array([float(rank)]), np.empty(1), "min")
        assert least[0] == (0.0 if rank else np.inf)
        most = on.exclusive_scan(np.array([rank], np.int8), reduction="max")
        assert most[0] == (rank - 1 if rank else -128)

    run(3, program)


REFUSED: list[tuple[Callable[[Communicator], Any], type[Exception], str]] = [
    (
        lambda on: on.all_reduce(np.ones(2), reduction=np.add),
        TypeError,
        "in Python a reduction is a name, such as 'sum': all_gather the arrays and combine them with your function",
    ),
    (
        lambda on: on.all_reduce(np.ones(2, "i4"), reduction="reproducible_sum"),
        ValueError,
        "reproducible_sum makes no sense on i32 elements",
    ),
    (
        lambda on: on.reproducible_sum(np.ones(2, "i4")),
        ValueError,
        "reproducible_sum on 'dp' of mesh dp=1 was given 2 i32; it sums f16, bf16, f32 and f64",
    ),
    (
        lambda on: on.reproducible_dot(np.ones(2), np.ones(3)),
        ValueError,
        "reproducible_dot on 'dp' of mesh dp=1 was given 2 and 3 elements; both must be equal",
    ),
    (
        lambda on: on.reproducible_dot(np.ones(2), np.ones(2, "f4")),
        ValueError,
        "was given f64 and f32 elements; both must be of one type",
    ),
    (
        lambda on: on.min_location(np.ones(2), np.ones(2)),
        ValueError,
        "the indices of min_location are f64; they must be i64",
    ),
    (
        lambda on: on.max_location(np.ones(2), np.ones(3, int)),
        ValueError,
        "max_location was given 2 values and 3 indices; both must be equal",
    ),
    (
        lambda on: on.min_location(np.ones(2, bool), np.ones(2, int)),
        ValueError,
        "a min_location of bool values; they must be integers, f16, bf16, f32 or f64",
    ),
    (
        lambda on: on.min_location(np.ones(4)[::2], np.ones(2, int)),
        ValueError,
        "the values of min_location has strides of (2) elements; its elements must lie one after the other",
    ),
    (lambda on: on.exclusive_scan(np.ones(2), reduction="mean"), ValueError, "an exclusive_scan by mean"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED, ids=range(len(REFUSED)))
def test_a_call_that_cannot_work_says_why(
    call: Callable[[Communicator], Any], kind: type[Exception], text: str
) -> None:
    def program(world: World) -> None:
        with pytest.raises(kind) as raised:
            call(group_of(world))
        assert text in str(raised.value)

    run(1, program)


def test_unequal_names_the_ranks_that_drifted() -> None:
    def program(world: World) -> list[Any]:
        on = group_of(world)
        x = np.full(1000, 0.1)
        said: list[Any] = [on.all_equal(x), on.unequal(x)]
        if world.rank == 2:
            x[999] = np.nextafter(x[999], 1)
        said += [on.all_equal(x), on.unequal(x)]
        return [
            *said,
            on.unequal(np.zeros(3 if world.rank == 0 else 2)),
            on.unequal(np.array([0.0, -0.0][world.rank % 2])),
        ]

    assert run(3, program) == [[True, [], False, [2], [0], [1]]] * 3
