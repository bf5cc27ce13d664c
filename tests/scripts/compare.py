#!/usr/bin/env python3
"""What ./bench/compare makes of times: ratios with intervals, verdicts, tables and curves."""

from __future__ import annotations

import contextlib
import html
import importlib.machinery
import importlib.util
import io
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from comparison.charts import PICTURES, draw, picture  # noqa: E402
from comparison.document import BEGIN, END, in_document  # noqa: E402
from comparison.families import FAMILIES, PARTS, chosen, family_of, listed, target_of  # noqa: E402
from comparison.figures import Figures, read, together  # noqa: E402
from comparison.rows import Row, as_json, from_json, growth, interval, row_of, rows_of  # noqa: E402


def script(name: str) -> types.ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, str(BENCH / name))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


compare, instructions = script("compare"), script("instructions")
HERE = {"processors": "2 of A", "load before": "0.5", "torch": "2.13", "rankmesh": "abc", "taken": "2026-01-01"}
LATER = HERE | {"load before": "12.0", "rankmesh": "def"}
THERE = HERE | {"processors": "8 of B"}


def row(ratio: float = 0.5, low: float = 0.4, high: float = 0.6, aa: float = 0.1, target: float = 1.0) -> Row:
    return Row("membership/8", 50.0, 100.0, ratio, low, high, aa, target)


def named(name: str, ours: float) -> Row:
    return Row(name, ours, 100.0, ours / 100, ours / 100, ours / 100, 0.0, target_of(name))


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
        self.assertEqual(row().outcome, "met")
        self.assertEqual(row(ratio=1.5, low=1.4, high=1.6).outcome, "missed")

    def test_are_not_resolved_where_the_noise_exceeds_the_margin(self) -> None:
        self.assertEqual(row(ratio=0.95, low=0.94, high=0.96, aa=0.04).outcome, "met")
        self.assertEqual(row(ratio=0.95, low=0.94, high=0.96, aa=0.06).outcome, "not resolved")
        self.assertEqual(row(ratio=0.9, low=0.7, high=1.1, aa=0.01).outcome, "not resolved")
        self.assertEqual(row(ratio=1.2, low=1.1, high=1.3, aa=0.5).outcome, "not resolved")

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


class Choice(unittest.TestCase):
    def test_is_of_the_part_of_that_name_only(self) -> None:
        for part in PARTS:
            self.assertEqual(chosen([part.name], False), [part])

    def test_is_of_all_that_differ_in_their_number_where_a_name_has_none(self) -> None:
        for stem in {part.stem for part in PARTS}:
            self.assertEqual(chosen([stem], False), [part for part in PARTS if part.stem == stem])
        self.assertEqual([part.name for part in chosen(["torch"], False)], [f"torch {2 << i}" for i in range(7)])
        self.assertEqual([part.name for part in chosen(["Gloo"], False)], ["Gloo"])
        self.assertEqual([part.name for part in chosen(["threads 2"], False)], ["threads 2"])

    def test_is_in_the_order_of_the_table_and_once(self) -> None:
        found = chosen(["size", "threads", "mesh", "threads 8", "size"], False)
        self.assertEqual(found, [part for part in PARTS if part.stem in ("mesh", "threads", "size")])

    def test_is_of_all_parts_where_none_is_named(self) -> None:
        self.assertEqual(chosen([], False), list(PARTS))
        self.assertEqual(chosen([], True), [part for part in PARTS if part.is_quick])

    def test_of_a_part_of_a_name_is_refused_with_the_names_that_there_are(self) -> None:
        known = {name for part in PARTS for name in (part.name, part.stem)}
        for part in PARTS:
            for length in range(len(part.name)):
                name = part.name[:length]
                if name not in known:
                    with self.assertRaises(SystemExit, msg=name) as refused:
                        chosen(["mesh", name], False)
        self.assertEqual(
            str(refused.exception),
            "no part is named 'siz'; parts are mesh, lists, worlds, bookkeeping, frameworks, "
            "threads (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096), join (2, 4, 8, 16, 32, 64, 128), "
            "Gloo bring-up (2, 4, 8, 16, 32, 64), store (2, 4, 8, 16, 32, 64), torch (2, 4, 8, 16, 32, 64, 128), "
            "c10d (2, 4, 8, 16), backend (2, 4, 8), training (2, 4), halo, programs, MPI, Gloo, show, import, size",
        )

    def test_of_what_a_quick_run_does_not_take_is_refused(self) -> None:
        self.assertEqual([part.name for part in chosen(["threads"], True)], ["threads 8"])
        with self.assertRaises(SystemExit) as refused:
            chosen(["mesh", "torch"], True)
        self.assertEqual(
            str(refused.exception),
            "--quick takes nothing of 'torch'; it takes mesh, lists, worlds, bookkeeping, threads (8), join (2), "
            "Gloo bring-up (2), store (2), c10d (2), backend (2), training (2), MPI, Gloo, show, import, size",
        )
        self.assertEqual(listed(PARTS[:2]), "mesh, lists")


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "compare.json"

    def keep(self, part: str, rows: list[Row], run: dict[str, str] = HERE, quick: bool = False, why: str = "") -> str:
        """What ./bench/compare says of a part."""
        (of_that_name,) = chosen([part], False)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            compare.keep(self.file, of_that_name, rows, run, quick, why)
        return said.getvalue()

    def names(self) -> list[str]:
        return [each.name for each in read(self.file).values]

    def test_rows_are_in_the_file_after_each_part_beside_the_others(self) -> None:
        self.keep("mesh", [named("membership/8", 1), named("membership/64", 1)])
        self.keep("lists", [named("list of all groups/8", 1)], LATER)
        self.assertEqual(self.names(), ["membership/8", "membership/64", "list of all groups/8"])
        self.keep("mesh", [named("membership/8", 2), named("membership/512", 2)], LATER)
        figures = read(self.file)
        self.assertEqual(
            [(each.name, each.ours, run["rankmesh"]) for each, run in figures.rows.values()],
            [
                ("membership/8", 2, "def"),
                ("membership/64", 1, "abc"),
                ("list of all groups/8", 1, "def"),
                ("membership/512", 2, "def"),
            ],
        )
        self.assertEqual(figures.ended, ["mesh", "lists"])
        self.assertEqual([*self.file.parent.iterdir()], [self.file])

    def test_rows_of_a_part_that_did_not_end_stay_and_it_is_not_said_to_have_ended(self) -> None:
        self.keep("mesh", [named("membership/8", 1)], why="it fell")
        figures = read(self.file)
        self.assertEqual((figures.ended, figures.absent), ([], {"mesh": "it fell"}))
        self.keep("mesh", [named("membership/8", 1)])
        self.keep("mesh", [], why="no mpirun")
        figures = read(self.file)
        self.assertEqual((figures.ended, figures.absent, len(figures.values)), (["mesh"], {}, 1))

    def test_rows_of_another_machine_are_dropped(self) -> None:
        self.keep("mesh", [named("membership/8", 1), named("membership/64", 1)], THERE)
        figures = read(self.file)
        self.assertEqual(figures.drop_others(HERE, False), "dropped 2 rows of another machine, 8 of B: this is 2 of A")
        self.assertEqual(figures, Figures())
        self.keep("lists", [named("list of all groups/8", 1)], HERE)
        self.assertEqual((self.names(), read(self.file).ended), (["list of all groups/8"], ["lists"]))
        self.assertEqual(read(self.file).drop_others(LATER, False), "")

    def test_rows_of_another_machine_stay_where_nothing_was_taken(self) -> None:
        self.keep("mesh", [named("membership/8", 1)], THERE)
        self.keep("torch 8", [], HERE, why="no torch")
        self.assertEqual((self.names(), read(self.file).absent), (["membership/8"], {}))
        self.file.unlink()
        self.keep("torch 8", [], HERE, why="no torch")
        self.assertFalse(self.file.exists())

    def test_rows_of_a_quick_run_are_not_put_beside_others(self) -> None:
        self.keep("mesh", [named("membership/8", 1)], quick=True)
        self.assertTrue(read(self.file).quick)
        self.assertEqual(read(self.file).drop_others(HERE, False), "dropped 1 row that --quick took")
        self.keep("lists", [named("list of all groups/8", 1)])
        self.assertEqual((self.names(), read(self.file).quick), (["list of all groups/8"], False))

    def test_growth_follows_from_rows_of_several_runs(self) -> None:
        for size in (8, 16):
            self.keep("torch 8", [named(f"bring-up by join beside init_device_mesh/{size}", 1)])
        self.assertEqual(self.names()[-1], "growth of a rank's part in a join/16")

    def test_rows_of_a_file_that_names_no_runs_are_of_its_machine(self) -> None:
        made = {"machine": HERE, "quick": False, "absent": ["torch 8: no: torch"], "rows": as_json([row()])}
        self.file.write_text(json.dumps(made), encoding="utf-8")
        figures = read(self.file)
        self.assertEqual((figures.values, figures.runs), ([row()], [HERE]))
        self.assertEqual((figures.absent, figures.ended), ({"torch 8": "no: torch"}, []))

    def test_files_that_are_no_such_are_refused(self) -> None:
        self.keep("mesh", [named("membership/8", 1), named("membership/64", 2)])
        text = self.file.read_text(encoding="utf-8")
        for broken in (
            text[:-9],
            "",
            "[]",
            "3",
            '{"rows": []}',
            text.replace('"low"', '"lower"'),
            text.replace('"run": 0', '"run": 7'),
        ):
            self.file.write_text(broken, encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "compare.json is not what ./bench/compare writes .*; delete it"):
                read(self.file)
            self.assertEqual(self.file.read_text(encoding="utf-8"), broken)

    def test_runs_are_said_together_by_their_distinct_values(self) -> None:
        self.assertEqual(together([HERE]), HERE)
        self.assertEqual(together([]), {})
        self.assertEqual(
            together([LATER, HERE, HERE | {"torch": "", "load before": "3.5"}]),
            {
                "processors": "2 of A",
                "load before": "0.5 to 12.0",
                "torch": "2.13",
                "rankmesh": "def, abc",
                "taken": "2026-01-01",
            },
        )


TAKES = """#!/bin/sh
echo "$0" >> {out}/begun
echo '{{"name": "{name}", "ours": [1, 1, 1], "theirs": [2, 2, 2], "again": [2, 2, 2]}}' >> "$RANKMESH_SAMPLES"
{then}
"""


class Runs(unittest.TestCase):
    """Of the command, on programs that stand in for those of a build tree."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        (self.out / "bin").mkdir()
        self.program("bench_framework_lists", "membership/8", "")

    def program(self, program: str, name: str, then: str) -> None:
        path = self.out / "bin" / program
        path.write_text(TAKES.format(out=self.out, name=name, then=then), encoding="utf-8")
        path.chmod(0o755)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        given = ["--build", str(self.out), "--python", sys.executable, "--out", str(self.out), *arguments]
        return subprocess.Popen(
            [sys.executable, BENCH / "compare", *given], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def output(self, *arguments: str) -> str:
        started = self.start(*arguments)
        text, _ = started.communicate(timeout=30)
        self.assertEqual(started.returncode, 0, text)
        return text

    def begun(self) -> list[str]:
        return [Path(each).name for each in (self.out / "begun").read_text(encoding="utf-8").split()]

    def test_go_on_with_what_was_not_taken_to_its_end(self) -> None:
        self.program("bench_framework_start_up", "membership/64", "echo fell; exit 3")
        text = self.output("--only", "lists", "worlds", "bookkeeping")
        self.assertIn("absent: worlds: ", text)
        self.assertIn(" ended with 3: fell\n", text)
        self.assertIn("absent: bookkeeping: bench_engine_bookkeeping was not built\n", text)
        figures = read(self.out / "compare.json")
        self.assertEqual([*figures.rows], ["membership/8", "membership/64"])
        self.assertEqual((figures.ended, [*figures.absent]), (["lists"], ["worlds", "bookkeeping"]))
        self.program("bench_framework_start_up", "membership/64", "")
        text = self.output("--continue", "--only", "lists", "worlds")
        self.assertIn("taken before: lists; to take: worlds\n", text)
        self.assertEqual(self.begun(), ["bench_framework_lists", "bench_framework_start_up", "bench_framework_start_up"])
        self.assertEqual(read(self.out / "compare.json").ended, ["lists", "worlds"])
        self.assertIn(
            "taken before: lists, worlds; to take: nothing\n", self.output("--continue", "--only", "lists", "worlds")
        )
        self.output("--only", "lists")
        self.assertEqual(self.begun()[3:], ["bench_framework_lists"])

    def test_that_are_interrupted_keep_what_was_taken_and_leave_nothing_behind(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.program(
                "bench_framework_start_up",
                "membership/64",
                f'(trap "" TERM; exec sleep 600) & echo $! > {self.out}/pid.new; mv {self.out}/pid.new {self.out}/pid; wait',
            )
            started = self.start("--only", "lists", "worlds", "bookkeeping")
            at_most = time.monotonic() + 30
            while not (self.out / "pid").exists() and time.monotonic() < at_most:
                time.sleep(0.01)
            started.send_signal(number)
            text, _ = started.communicate(timeout=30)
            self.assertEqual(started.returncode, 1, text)
            self.assertIn("absent: worlds: interrupted\n", text)
            self.assertTrue(text.endswith("has what was taken, and --continue takes what is left\n"), text)
            figures = read(self.out / "compare.json")
            self.assertEqual([*figures.rows], ["membership/8", "membership/64"])
            self.assertEqual((figures.ended, figures.absent), (["lists"], {"worlds": "interrupted"}))
            sleeps = Path("/proc", (self.out / "pid").read_text(encoding="utf-8").strip(), "stat")
            while time.monotonic() < at_most:  # until its new parent has heard that it is gone
                with contextlib.suppress(FileNotFoundError):
                    if sleeps.read_text(encoding="utf-8").split()[2] not in "ZX":
                        time.sleep(0.01)
                        continue
                break
            else:
                self.fail("what a part had started goes on")
            (self.out / "pid").unlink()
            (self.out / "compare.json").unlink()
            self.assertEqual([each for each in self.out.iterdir() if each.name.startswith("samples")], [])

    def test_drop_rows_of_another_machine_and_say_so(self) -> None:
        figures = Figures()
        figures.add("mesh", [named("membership/512", 1)], THERE)
        figures.write(self.out / "compare.json")
        self.assertIn("dropped 1 row of another machine, 8 of B: this is ", self.output("--only", "lists"))
        self.assertEqual([*read(self.out / "compare.json").rows], ["membership/8"])

    def test_that_are_quick_do_not_replace_others(self) -> None:
        self.output("--only", "lists")
        started = self.start("--only", "lists", "--quick")
        text, _ = started.communicate(timeout=30)
        self.assertEqual(started.returncode, 1)
        self.assertTrue(text.endswith("compare.json has 1 row that --quick did not take; give another --out\n"), text)
        self.assertEqual(self.begun(), ["bench_framework_lists"])


class Version(unittest.TestCase):
    def test_is_the_last_commit_that_changed_what_is_measured(self) -> None:
        with tempfile.TemporaryDirectory() as folder:

            def git(*words: str) -> str:
                given = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words]
                return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()

            def commit(path: str) -> str:
                (Path(folder) / path).parent.mkdir(exist_ok=True)
                (Path(folder) / path).write_text("text", encoding="utf-8")
                git("add", path)
                git("commit", "-m", path)
                return git("log", "-1", "--format=%h")

            git("init")
            commit("docs/a")
            for path in ("include/a", "src/a", "cli/a", "python/a"):
                measured = commit(path)
                commit(f"docs/{path[0]}")
                self.assertEqual(compare.version(Path(folder)), measured)
            (Path(folder) / "docs/a").write_text("other", encoding="utf-8")
            self.assertEqual(compare.version(Path(folder)), measured)
            (Path(folder) / "src/a").write_text("other", encoding="utf-8")
            self.assertEqual(compare.version(Path(folder)), measured + "-dirty")


class Documents(unittest.TestCase):
    def figures(self, rows: list[Row], run: dict[str, str] = HERE) -> Figures:
        made = Figures(absent={"torch 8": "no torch", "a part of old": "no torch"})
        made.add("mesh", rows, run)
        return made

    def test_get_a_line_for_each_curve_between_the_two_comments_only(self) -> None:
        rows = [Row(f"membership/{at}", 50.0, 100.0, 0.5, 0.4, 0.6, aa, 2) for at, aa in ((8, 0.1), (4096, 9.0))]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "performance.md"
            path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
            for _ in range(2):
                in_document(path, self.figures(rows, HERE | {"torch": ""}), ["compare-queries.svg"])
                text = path.read_text(encoding="utf-8")
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))
            self.assertNotIn("old", text)
            self.assertIn("| | 8 | 4,096 |\n", text)
            self.assertIn("0.50 | (0.50; ±900 %) |\n", text)
            self.assertIn("torch absent", text)
            self.assertIn("Absent, or not taken to the end: torch (8).\n", text)
            self.assertIn("(pictures/compare-queries.svg)", text)
            path.write_text("nothing\n", encoding="utf-8")
            self.assertRaises(SystemExit, in_document, path, self.figures(rows), [])

    def test_keep_figures_that_were_not_taken_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            root, file = Path(folder), Path(folder) / "compare.json"
            (root / "docs" / "pictures").mkdir(parents=True)
            page = root / "docs" / "performance.md"
            page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
            compare.ROOT, compare.FIGURES = root, root / "figures.json"
            with self.assertRaisesRegex(SystemExit, "compare.json has no rows; run ./bench/compare first"):
                compare.write_docs(file, False)
            self.figures([named("membership/8", 50), named("membership/64", 50)]).write(file)
            compare.write_docs(file, False)
            self.figures([named("membership/64", 25), named("group of a rank/8", 25)], LATER).write(file)
            compare.write_docs(file, False)
            text = page.read_text(encoding="utf-8")
            self.assertIn("| | 8 | 64 |\n|---|---|---|\n| ranks | 0.50 | 0.25 |\n", text)
            self.assertIn("| | 8 |\n|---|---|\n| ranks | 0.25 |\n", text)
            self.assertIn("load before 0.5 to 12.0; torch 2.13; rankmesh abc, def;", text)
            kept = compare.FIGURES.read_text(encoding="utf-8")

            self.figures([named("membership/512", 75)], THERE).write(file)
            with self.assertRaises(SystemExit) as refused:
                compare.write_docs(file, False)
            self.assertEqual(
                str(refused.exception),
                f"the documents have 3 rows of 2 of A, {file} has 1 of 8 of B; "
                "rows of two machines are not put beside each other: --replace drops the former",
            )
            self.assertEqual(
                (page.read_text(encoding="utf-8"), compare.FIGURES.read_text(encoding="utf-8")), (text, kept)
            )
            compare.write_docs(file, True)
            self.assertEqual(said.getvalue(), "dropped 3 rows of another machine, 2 of A: this is 8 of B\n")
            self.assertIn("| | 512 |\n|---|---|\n| ranks | 0.75 |\n", page.read_text(encoding="utf-8"))

            Figures(True, {"x/8": (row(), HERE)}).write(file)
            with self.assertRaisesRegex(SystemExit, "was taken with --quick, which shows that all works"):
                compare.write_docs(file, True)

    def test_show_curves_that_have_points(self) -> None:
        rows = [Row(f"membership/{8**i}", 5.0 * i, 100.0, 0.5, 0.4, 0.6, 0.1, 2) for i in range(1, 5)]
        drawn = picture([("membership", rows)])
        self.assertEqual(drawn.count("<polyline"), 2)
        self.assertNotIn("nan", drawn)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual((draw(Path(folder), rows[:1]), [*Path(folder).iterdir()]), ([], []))
            self.assertEqual(draw(Path(folder), rows), ["compare-queries.svg"])
            self.assertEqual([each.name for each in Path(folder).iterdir()], ["compare-queries.svg"])

    def test_pictures_are_those_of_the_figures(self) -> None:
        root = Path(__file__).resolve().parents[2]
        with tempfile.TemporaryDirectory() as folder:
            names = draw(Path(folder), read(root / "bench" / "figures.json").values)
            self.assertEqual(names, [*PICTURES])
            for name in names:
                drawn = (Path(folder) / name).read_text(encoding="utf-8")
                self.assertEqual((root / "docs" / "pictures" / name).read_text(encoding="utf-8"), drawn, name)

    def test_each_panel_names_both_sides_as_the_tables_do_and_has_lines_at_what_it_writes(self) -> None:
        figures = read(Path(__file__).resolve().parents[2] / "bench" / "figures.json").values
        for panels in PICTURES.values():
            for title, curve in panels:
                rows = [row for row in figures if row.curve == curve and row.point.isdigit()]
                drawn = picture([(title, rows)])
                texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)<", drawn)]
                self.assertEqual(texts[:3], [title, "rankmesh", family_of(curve).theirs])
                self.assertNotIn("other", " ".join(texts))
                across = re.findall(
                    r'd="M\d+ ([\d.]+)h\d+" class="grid"/><text [^>]*y="([\d.]+)" text-anchor="end"', drawn
                )
                up = re.findall(r'd="M([\d.]+) \d+v-\d+" class="grid"/><text x="([\d.]+)"', drawn)
                self.assertTrue(4 <= len(across) <= 8 and 2 <= len(up) <= 9, title)
                self.assertTrue(all(float(y) + 4 == float(at) for y, at in across) and all(x == at for x, at in up))
                # The curves, which the lines enclose, and all text lie in the picture.
                wide, high = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', drawn)[0])
                heights = [float(y) for y, _ in across]
                for line in re.findall(r'points="([^"]*)"', drawn):
                    for point in line.split():
                        x, y = map(float, point.split(","))
                        self.assertTrue(0 <= x <= wide and min(heights) <= y <= max(heights), title)
                for x, y, anchor, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)<', drawn):
                    half = 3.7 * len(html.unescape(text))
                    left = float(x) - (2 * half if "end" in anchor else half if "middle" in anchor else 0)
                    self.assertTrue(0 <= left and left + 2 * half <= wide and float(y) <= high, text)


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
