#!/usr/bin/env python3
"""What ./bench/compare makes of times: ratios with intervals, verdicts, tables and curves."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import statistics
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from comparison.charts import draw, picture  # noqa: E402
from comparison.document import BEGIN, END, in_document  # noqa: E402
from comparison.families import FAMILIES, PARTS, family_of, target_of  # noqa: E402
from comparison.rows import Row, as_json, from_json, growth, interval, row_of, rows_of  # noqa: E402

loader = importlib.machinery.SourceFileLoader("instructions", str(BENCH / "instructions"))
spec = importlib.util.spec_from_loader("instructions", loader)
assert spec is not None
instructions = importlib.util.module_from_spec(spec)
loader.exec_module(instructions)


def row(ratio: float = 0.5, low: float = 0.4, high: float = 0.6, aa: float = 0.1, target: float = 1.0) -> Row:
    return Row("membership/8", 50.0, 100.0, ratio, low, high, aa, target)


class Intervals(unittest.TestCase):
    def test_hold_the_median_of_the_distribution_as_often_as_they_say(self) -> None:
        random.seed(3)
        for size in (9, 30, 101):
            held = 0
            for _ in range(2000):
                _, low, high = interval([random.expovariate(1) for _ in range(size)])
                held += low <= 0.6931 <= high
            self.assertGreater(held / 2000, 0.93, size)
            self.assertLess(held / 2000, 0.995, size)

    def test_lie_around_the_median_and_inside_the_values(self) -> None:
        for size in range(1, 40):
            values = [random.random() for _ in range(size)]
            middle, low, high = interval(values)
            self.assertEqual(middle, statistics.median(values))
            self.assertTrue(min(values) <= low <= middle <= high <= max(values), size)
        self.assertEqual(interval([3.0, 1.0, 2.0]), (2.0, 1.0, 3.0))


class Rows(unittest.TestCase):
    def test_pair_the_times_of_a_round_so_that_a_slow_round_slows_both(self) -> None:
        slow = [1.0, 7.0, 1.0, 3.0, 1.0]
        made = row_of("x/1", [2 * each for each in slow], [4 * each for each in slow], [4 * each for each in slow], 1)
        self.assertEqual((made.ratio, made.low, made.high, made.aa), (0.5, 0.5, 0.5, 0.0))

    def test_know_how_far_the_other_is_from_itself(self) -> None:
        made = row_of("x/1", [1.0] * 3, [1.0, 1.0, 1.0], [1.0, 1.25, 0.8], 1)
        self.assertAlmostEqual(made.aa, 0.25)

    def test_are_met_or_missed_where_the_noise_is_less_than_what_is_claimed(self) -> None:
        self.assertEqual(row().verdict, "met")
        self.assertEqual(row(ratio=1.5, low=1.4, high=1.6).verdict, "missed")

    def test_are_not_resolved_where_the_noise_exceeds_the_margin(self) -> None:
        self.assertEqual(row(ratio=0.95, low=0.94, high=0.96, aa=0.04).verdict, "met")
        self.assertEqual(row(ratio=0.95, low=0.94, high=0.96, aa=0.06).verdict, "not resolved")
        self.assertEqual(row(ratio=0.9, low=0.7, high=1.1, aa=0.01).verdict, "not resolved")
        self.assertEqual(row(ratio=1.2, low=1.1, high=1.3, aa=0.5).verdict, "not resolved")

    def test_are_read_from_lines_and_come_back_from_json(self) -> None:
        line = '{"name": "membership/8", "ours": [1, 2], "theirs": [2, 4], "again": [2, 4]}\n'
        rows = rows_of(line, target_of)
        self.assertEqual(
            [(each.curve, each.point, each.ratio, each.target) for each in rows], [("membership", "8", 0.5, 2)]
        )
        self.assertEqual(from_json(as_json(rows)), rows)


class Growth(unittest.TestCase):
    def test_is_of_a_ranks_part_beside_its_work(self) -> None:
        rows = [
            Row("x/8", 80.0, 1.0, 1.0, 0.5, 2.0, 0.1, 1),
            Row("x/64", 3200.0, 1.0, 1.0, 1.0, 1.0, 0.2, 1),
            Row("y/64", 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 1),
        ]
        (made,) = growth(rows, "x", "growth", lambda size: size / 4, 1)
        self.assertEqual((made.name, made.ours, made.theirs, made.ratio), ("growth/64", 5.0, 8.0, 0.625))
        self.assertAlmostEqual(made.high / made.low, 4)
        self.assertAlmostEqual(made.aa, 0.3)


class Families(unittest.TestCase):
    def test_are_found_by_the_longest_name_that_fits(self) -> None:
        self.assertEqual(family_of("Gloo: all_reduce, checked on 2/8").name, "Gloo: all_reduce, checked")
        self.assertEqual(family_of("Gloo: all_reduce, ring on 2/8").name, "Gloo: ")
        self.assertRaises(SystemExit, family_of, "something else/8")

    def test_have_another_target_from_one_mebibyte_on(self) -> None:
        self.assertEqual([target_of(f"c10d: barrier on 2/{at}") for at in (8, (1 << 20) - 1, 1 << 20)], [0.5, 0.5, 0.9])

    def test_and_parts_have_names_of_their_own(self) -> None:
        for names in ([each.name for each in FAMILIES], [each.name for each in PARTS]):
            self.assertEqual(len(names), len(set(names)))


class Documents(unittest.TestCase):
    made = {"machine": {"MPI": "4.1", "torch": ""}, "quick": False, "absent": ["torch 8: no torch"], "rows": []}

    def test_get_a_line_for_each_curve_between_the_two_comments_only(self) -> None:
        rows = [Row(f"membership/{at}", 50.0, 100.0, 0.5, 0.4, 0.6, aa, 2) for at, aa in ((8, 0.1), (4096, 9.0))]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "performance.md"
            path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
            for _ in range(2):
                in_document(path, self.made, rows, ["compare-queries.svg"])
                text = path.read_text(encoding="utf-8")
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertNotIn("old", text)
            self.assertIn("| | 8 | 4,096 |\n", text)
            self.assertIn("0.50 | (0.50; ±900 %) |\n", text)
            self.assertIn("torch absent", text)
            self.assertIn("(pictures/compare-queries.svg)", text)
            path.write_text("nothing\n", encoding="utf-8")
            self.assertRaises(SystemExit, in_document, path, self.made, rows, [])

    def test_show_curves_that_have_points(self) -> None:
        rows = [Row(f"membership/{8**i}", 5.0 * i, 100.0, 0.5, 0.4, 0.6, 0.1, 2) for i in range(1, 5)]
        drawn = picture([("membership", rows)])
        self.assertEqual(drawn.count("<polyline"), 2)
        self.assertNotIn("nan", drawn)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual((draw(Path(folder), rows[:1]), [*Path(folder).iterdir()]), ([], []))
            self.assertEqual(draw(Path(folder), rows), ["compare-queries.svg"])
            self.assertEqual([each.name for each in Path(folder).iterdir()], ["compare-queries.svg"])


class Instructions(unittest.TestCase):
    def test_differ_where_they_are_more_or_fewer_than_the_tolerance_allows(self) -> None:
        record = {"group": 1000, "neighbor": 10}
        self.assertEqual(instructions.differences(record, {"group": 1050, "neighbor": 11}, 0.05), [])
        self.assertEqual(
            instructions.differences(record, {"group": 1051, "membership": 5}, 0.05),
            [
                "membership is not recorded",
                "group takes 1051 instructions, +5%; recorded are 1000",
                "neighbor is recorded and was not counted",
            ],
        )
        self.assertEqual(len(instructions.differences(record, {"group": 900, "neighbor": 12}, 0.05)), 2)

    def test_are_recorded_for_every_path_with_their_compiler(self) -> None:
        compiler, tolerance, record = instructions.read(instructions.RECORD.read_text(encoding="utf-8"))
        self.assertEqual((compiler, tolerance), ("g++ 12 Release x86_64", 0.1))
        self.assertEqual([*record], [*instructions.PATHS])


if __name__ == "__main__":
    unittest.main()
