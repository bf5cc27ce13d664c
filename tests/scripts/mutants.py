# SPDX-License-Identifier: Apache-2.0
"""scripts/mutants picks mutants, keeps what became of them and lists survivors. Nothing is compiled: a fake build judges."""
import sys

sys.dont_write_bytecode = True
import contextlib, importlib.machinery, importlib.util, io, struct, subprocess, tempfile, time, unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "scripts/mutants"))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
sys.modules["mutants"] = mutants
loader.exec_module(mutants)
from mutation import build, functions  # scripts/mutants made them importable


def digits(folder):
    """A fake mutator: each line's first 1 becomes 2, and then 3."""
    return lambda lines: [(number, line.replace("1", new, 1))
                          for number, line in enumerate(lines, 1) if "1" in line for new in "23"]


class FakeBuild:
    """Kills what has a 2, and remembers what it was asked."""

    judged, prepared = [], 0

    def __init__(self, root, folder, jobs, only):
        self.folder = folder

    def prepare(self):
        FakeBuild.prepared += 1

    def judge(self, mutant, worker, seconds):
        FakeBuild.judged.append(mutant)
        return ("killed", "a test") if "2" in mutant.now else ("survived", "all pass")


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.write("src/a.cpp", "int a = 1;\nint b = 0;\nint c = 1;\n")
        self.write("include/b.hpp", "int d = 1;\n")
        self.write("src/notes.md", "1\n")
        self.write("tests/a.cpp", "")
        self.write("scripts/mutants.equivalent", "# nothing yet\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "All")
        FakeBuild.judged, FakeBuild.prepared = [], 0

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.root, check=True)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def run_script(self, *argv, fake=FakeBuild):
        """(exit code, lines) of a run; what it asked the build is left in FakeBuild.judged."""
        FakeBuild.judged, FakeBuild.prepared = [], 0
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = mutants.main(list(argv), self.root, fake, digits)
        return code, output.getvalue().splitlines()

    def places(self):
        return sorted((each.file, each.line) for each in FakeBuild.judged)

    def test_whole_files_are_mutated_where_they_are_named(self):
        self.run_script("src/a.cpp")
        self.assertEqual(self.places(), [("src/a.cpp", 1)] * 2 + [("src/a.cpp", 3)] * 2)
        self.run_script("include/b.hpp", "src", "--sample", "99")
        self.assertEqual(self.places(), [("include/b.hpp", 1)] * 2)  # the others are known

    def test_only_changed_lines_are_mutated_where_none_is_named(self):
        self.assertEqual(self.run_script()[0], 0)
        self.assertEqual(self.places(), [])
        self.write("src/a.cpp", "int a = 1;\nint b = 1;\nint c = 1;\n")
        self.write("src/new/c.cpp", "int e = 1;\n")
        self.write("src/new/c.txt", "1\n")
        self.run_script()
        self.assertEqual(self.places(), [("src/a.cpp", 2)] * 2 + [("src/new/c.cpp", 1)] * 2)

    def test_survivors_are_listed_last_and_are_exit_code_1(self):
        code, lines = self.run_script("include/b.hpp")
        self.assertEqual(code, 1)
        self.assertEqual(lines[-3:], ["survived at line 1:", "include/b.hpp\tint d = 1;\tint d = 3;",
                                      "killed 1, survived 1, equivalent 0, not compiled 0, 50.0 % of what could be"])
        self.assertIn("[2/2] killed 1, survived 1, equivalent 0, not compiled 0", lines)

    def test_what_is_listed_as_equivalent_is_not_judged_and_does_not_survive(self):
        self.write("scripts/mutants.equivalent", "include/b.hpp\tint d = 1;\tint d = 3;\tnobody reads it\n")
        code, lines = self.run_script("include/b.hpp")
        self.assertEqual((code, len(FakeBuild.judged)), (0, 1))
        self.assertEqual(lines[-1], "killed 1, survived 0, equivalent 1, not compiled 0, 100.0 % of what could be")

    def test_an_equivalent_needs_a_reason_and_its_line(self):
        self.write("scripts/mutants.equivalent", "include/b.hpp\tint d = 9;\tint d = 3;\tnobody reads it\n")
        self.assertIn("scripts/mutants.equivalent: no such line any more: include/b.hpp\tint d = 9;\tint d = 3;",
                      self.run_script("include/b.hpp")[1])
        self.write("scripts/mutants.equivalent", "include/b.hpp\tint d = 1;\tint d = 3;\t\n")
        with self.assertRaisesRegex(SystemExit, "mutants.equivalent:1: not a file, a line, its mutant and a reason"):
            self.run_script("include/b.hpp")

    def test_a_run_goes_on_where_another_was_stopped(self):
        class Stopped(FakeBuild):
            def judge(self, mutant, worker, seconds):
                if len(FakeBuild.judged) == 2:
                    raise KeyboardInterrupt
                return super().judge(mutant, worker, seconds)

        with self.assertRaises(KeyboardInterrupt):
            self.run_script("src/a.cpp", "--jobs", "1", fake=Stopped)
        first = list(FakeBuild.judged)
        with (self.root / "build/mutants/results.jsonl").open("a") as records:
            records.write('{"file": "src/a.c')  # and this line was cut off
        code, lines = self.run_script("src/a.cpp")
        self.assertEqual((code, len(first), len(FakeBuild.judged)), (1, 2, 2))
        self.assertFalse(set(first) & set(FakeBuild.judged))
        self.assertIn("killed 2, survived 2, equivalent 0, not compiled 0, 50.0 % of what could be", lines)

    def test_survivors_are_judged_again_after_tests_change_and_all_after_their_file_does(self):
        self.run_script("src/a.cpp")
        self.run_script("src/a.cpp")
        self.assertEqual((len(FakeBuild.judged), FakeBuild.prepared), (0, 0))
        self.write("tests/a.cpp", "int more;\n")
        self.run_script("src/a.cpp")
        self.assertEqual([each.now for each in FakeBuild.judged], ["int a = 3;\n", "int c = 3;\n"])
        self.write("src/a.cpp", "int a = 1;\n")
        self.run_script("src/a.cpp")
        self.assertEqual(len(FakeBuild.judged), 2)

    def test_what_some_of_the_tests_let_live_is_judged_again_by_all(self):
        self.run_script("src/a.cpp", "--only", "a_tests")
        self.run_script("src/a.cpp", "--only", "a_tests")
        self.assertEqual(len(FakeBuild.judged), 0)
        self.run_script("src/a.cpp")
        self.assertEqual([each.now for each in FakeBuild.judged], ["int a = 3;\n", "int c = 3;\n"])

    def test_a_sample_is_that_of_its_seed(self):
        def sample(*argv):
            (self.root / "build/mutants/results.jsonl").unlink(missing_ok=True)
            lines = self.run_script("--sample", "3", *argv)[1]
            return lines[1], {(each.file, each.line, each.now) for each in FakeBuild.judged}

        self.assertEqual(sample("--seed", "5"), sample("--seed", "5"))
        self.assertEqual(sample("--seed", "5")[0], "a sample of 3, seed 5")
        samples = [sample("--seed", str(seed))[1] for seed in range(20)]
        self.assertEqual({len(each) for each in samples}, {3})
        self.assertGreater(len(set(map(frozenset, samples))), 1)
        self.assertRegex(sample()[0], r"^a sample of 3, seed \d+$")

    def test_what_can_not_be_cpp_is_not_tried(self):
        lines = ["for (;;) {\n", "    std::vector<int> a;\n", "    if (a < b) f(u64);\n", "}\n", "int* c = a * 2;\n"]
        for line, now, may in [(2, "    std::vector<=int> a;\n", False), (3, "    if (a <= b) f(u64);\n", True),
                               (5, "int* c = a *% 2;\n", False), (2, "    std::vector>int> a;\n", False), (3, "    if (a > b) f(u64);\n", True),
                               (3, "    if (a < b) f(u65);\n", False), (5, "int+ c = a * 2;\n", False),
                               (5, "int* c = a + 2;\n", True), (5, "int* c = a * 3;\n", True),
                               (3, lines[2] + "    break;\n", True), (5, lines[4] + "break;\n", False)]:
            self.assertEqual(mutants.plausible(lines, line, now), may, now)

    def test_the_list_of_this_project_is_up_to_date(self):
        self.assertEqual(mutants.outdated(ROOT, mutants.read_equivalents(ROOT / "scripts/mutants.equivalent")), [])


class Coverage(unittest.TestCase):
    def test_functions_with_a_counter_that_is_not_zero_were_executed(self):
        def record(tag, *numbers, length=None):
            return struct.pack(f"<Ii{len(numbers)}I", tag, 4 * len(numbers) if length is None else length, *numbers)

        file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "a.gcda"
        counted = [record(functions.FUNCTION, 7, 0, 0), record(functions.COUNTERS, 0, 0, 0, 1),
                   record(functions.FUNCTION, 8, 0, 0), record(functions.COUNTERS, 0, 0),
                   record(functions.FUNCTION, 9, 0, 0), record(functions.COUNTERS, length=-16),
                   record(functions.FUNCTION, 10, 0, 0), record(functions.COUNTERS, 1, 0)]  # fmt: skip
        file.write_bytes(b"adcg*22B" + bytes(8) + b"".join(counted))
        self.assertEqual(functions.executed(file), {7, 10})
        file.write_bytes(file.read_bytes()[:65])  # in the second function
        self.assertEqual(functions.executed(file), {7})
        file.write_bytes(b"adcg*84A" + bytes(8))
        with self.assertRaisesRegex(SystemExit, "not written by GCC 12 or later"):
            functions.executed(file)


class Runs(unittest.TestCase):
    def test_a_command_that_takes_too_long_is_ended_with_what_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            code, output = build.run(["sh", "-c", "echo begun; sleep 600 & echo $! > child; wait"], folder, 0.5)
            self.assertEqual((code, output), (None, "begun\n"))
            child = Path("/proc", (Path(folder) / "child").read_text().strip(), "stat")
            until = time.monotonic() + 60
            while child.exists() and " Z " not in child.read_text():
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)

    def test_a_command_is_slow_that_comes_near_its_limit(self):
        self.assertTrue(build.is_slow(["sleep", "60"], "/", 0.2, {}))
        self.assertFalse(build.is_slow(["false"], "/", 600, {}))

    def test_a_test_passes_as_ctest_would_say(self):
        def told(**properties):
            listed = [{"name": name, "value": value} for name, value in properties.items()]
            return build.Test({"name": "a", "command": ["a"], "properties": listed}, "a", Path("/"))

        self.assertTrue(told().passes(0, "") and not told().passes(1, "") and not told().passes(None, ""))
        pattern = told(PASS_REGULAR_EXPRESSION=["a.c"])
        self.assertTrue(pattern.passes(1, "abc") and not pattern.passes(0, "ab") and not pattern.passes(None, "abc"))
        self.assertTrue(told(SKIP_RETURN_CODE=77).passes(77, "") and not told().passes(77, ""))


if __name__ == "__main__":
    unittest.main()
