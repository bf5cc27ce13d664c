# SPDX-License-Identifier: Apache-2.0
"""A build of its own for mutants: what a source file is part of, which tests reach a line of it, and whether they
notice a mutant. Nothing in it is rebuilt for a mutant: each worker compiles what the mutated file is part of into its
own folder and runs the tests with its own shared library, and with its own programs where they start some."""
import hashlib, json, os, re, shlex, shutil, signal, subprocess, tempfile, threading, time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutation import functions

CONFIGURATION = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DBUILD_SHARED_LIBS=ON", "-DRANKMESH_UNITY=OFF",
                 "-DRANKMESH_COMPILE_CHECKS=OFF", "-DRANKMESH_BENCH=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                 "-DCMAKE_C_FLAGS=-O0 --coverage -w", "-DCMAKE_CXX_FLAGS=-O0 --coverage -w"]  # fmt: skip
# A mutant may allocate and write without end; addresses alone cost nothing.
LIMITS = ["prlimit", f"--data={8 << 30}", f"--fsize={1 << 30}", "--core=0", "--"]


def run(argv, folder, seconds, environment=()):
    """(return code, output) of a command; the code is None where it took longer. What it started and left is ended."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*LIMITS, *argv], cwd=folder, env={**os.environ, **dict(environment)},
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        try:
            process.wait(seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGTERM)  # a launcher passes it on
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def is_slow(argv, folder, limit, environment):
    """Whether a command itself comes near a limit at present, as on a machine that is busy."""
    begin = time.monotonic()
    run(argv, folder, limit, environment)
    return time.monotonic() - begin > limit / 2


class Test:
    """A test of ctest, and the program of this build that it starts."""

    def __init__(self, told, program, base):
        properties = {each["name"]: each["value"] for each in told.get("properties", [])}
        self.name, self.command, self.program = told["name"], told["command"], program
        self.environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        self.pattern = properties.get("PASS_REGULAR_EXPRESSION", [])
        self.skipped = properties.get("SKIP_RETURN_CODE")
        self.folder = properties.get("WORKING_DIRECTORY", str(base))
        cases = [each for each in self.command[1:] if each.startswith("--gtest_filter=")]
        # Found by gtest_discover_tests: cases of a program that can run in one process.
        self.case = cases[0].split("=", 1)[1] if "--gtest_also_run_disabled_tests" in self.command else None
        self.suite = (program, str(self.environment), self.case.rpartition(".")[0] if self.case else self.name)

    def passes(self, code, output):
        if self.pattern:
            return code is not None and any(re.search(each, output) for each in self.pattern)
        return code == 0 or (code is not None and code == self.skipped)


def command_of(tests):
    """What runs tests of one program in one process; all of them cases, or one."""
    command = tests[0].command
    if not tests[0].case:
        return command
    cases = ":".join(each.case for each in tests)
    return [command[0], f"--gtest_filter={cases}", "--gtest_also_run_disabled_tests"]


class Build:
    def __init__(self, root, folder, jobs, only=()):
        self.root, self.folder, self.base, self.jobs, self.only = root, folder, folder / "base", jobs, only
        self.reach = folder / "reach.json"

    def prepare(self):
        """Configures, builds, and learns what is made of what and which functions each test executes."""
        cmake = ["cmake", "-S", self.root, "-B", self.base, *CONFIGURATION]
        subprocess.run(cmake, check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as counts:  # of the programs that are asked for their tests
            ninja = ["ninja", "-C", self.base, f"-j{self.jobs}", *self.only]
            subprocess.run(ninja, check=True, env={**os.environ, "GCOV_PREFIX": counts})
        self.read_graph()
        self.read_tests()
        self.read_functions()
        self.map_tests()

    def ninja(self, *tool):
        command = ["ninja", "-C", self.base, "-t", *tool]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def relative(self, path):
        """A path as this build writes it, from the root of the project; None of what is not of the project."""
        path = Path(os.path.normpath(self.base / path))
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else None

    def read_graph(self):
        self.compiles, self.links, self.reads, executables = {}, {}, defaultdict(set), []
        for entry in json.loads((self.base / "compile_commands.json").read_text()):
            name = os.path.relpath(entry["output"], self.base)
            self.compiles[name] = (shlex.split(entry["command"]), self.relative(entry["file"]))
        for block in self.ninja("deps").split("\n\n"):
            name, *files = block.strip().split("\n")
            self.reads[name.split(":")[0]] = {self.relative(each.strip()) for each in files}
        for line in self.ninja("targets", "all").splitlines():
            output, _, rule = line.partition(": ")
            if "_LINKER__" not in rule or output.endswith(".cmake") or not (self.base / output).exists():
                continue
            if "EXECUTABLE" in rule:
                executables.append(output)
            steps = self.ninja("commands", "-s", output).split("&&")
            self.links[output] = next(shlex.split(each) for each in steps if re.search(" -o | qc ", each))
        self.objects = {output: [each for each in argv if each in self.compiles] for output, argv in self.links.items()}
        self.libraries = {output: [each for each in argv if each in self.links and each != output]
                          for output, argv in self.links.items()}
        owners = Counter(each for output in executables for each in self.objects[output])
        self.executable_of = {each: output for output in executables for each in self.objects[output]
                              if owners[each] == 1}  # fmt: skip

    def read_tests(self):
        ctest = ["ctest", "--test-dir", self.base, "--show-only=json-v1"]
        listed = subprocess.run(ctest, check=True, capture_output=True)
        programs = {str(self.base / output): output for output in self.links
                    if not self.only or Path(output).name in self.only}
        self.tests = []
        for told in json.loads(listed.stdout)["tests"]:
            words = " ".join(told.get("command", [])) + " "
            for path, output in programs.items():
                if re.search(re.escape(path) + r"[\s'\"]", words):
                    self.tests.append(Test(told, output, self.base))
                    break

    def read_functions(self):
        """Of every object its functions that stand in a file of include or src, and where they stand there."""
        self.compiled, self.part_of, self.lines = {}, {}, defaultdict(lambda: defaultdict(set))
        for name in self.compiles:
            notes = (self.base / name).with_suffix(".gcno")
            if not (self.base / name).exists() or not notes.exists():
                continue
            own = self.compiled[str(notes)] = {}
            self.part_of[str(notes)] = self.executable_of.get(name)
            for ident, (function, source, first, last) in functions.compiled(notes).items():
                file = self.relative(source)
                if file and file.startswith(("include/", "src/")):
                    own[ident] = (file, function)
                    self.lines[file][function].add((first, last))

    def map_tests(self):
        """Runs each suite of tests once, or if it takes long each test, unless it was run since its program changed, and
        keeps what they executed."""
        kept = json.loads(self.reach.read_text()) if self.reach.exists() else {"functions": [], "tests": {}}
        table = {tuple(each): index for index, each in enumerate(kept["functions"])}
        hashes = {each: hashlib.sha256((self.base / each).read_bytes()).hexdigest()[:16]
                  for each in {test.program for test in self.tests}}
        missing = [test for test in self.tests
                   if kept["tests"].get(test.name, {"starts": 0}).get("program") != hashes[test.program]
                   or "starts" not in kept["tests"][test.name]]
        lock, done, saved = threading.Lock(), 0, time.monotonic()

        def save():
            kept["functions"] = [list(each) for each in table]
            self.reach.with_suffix(".new").write_text(json.dumps(kept))
            self.reach.with_suffix(".new").rename(self.reach)

        def trace(tests, limit):
            """Runs tests of one process, and keeps what they executed; False where they should run one by one."""
            nonlocal done, saved
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # others may still write there
                begin = time.monotonic()
                environment = {**tests[0].environment, "GCOV_PREFIX": folder}
                code, output = run(command_of(tests), tests[0].folder, limit, environment)
                passed = tests[0].passes(code, output)
                if len(tests) > 1 and not passed:
                    return False
                seconds = (time.monotonic() - begin) / len(tests)
                reached, started = set(), set()
                for counts in Path(folder).rglob("*.gcda"):
                    notes = "/" + str(counts.relative_to(folder).with_suffix(".gcno"))
                    own = self.compiled.get(notes, {})
                    reached |= {own[each] for each in functions.executed(counts) if each in own}
                    started.add(self.part_of.get(notes))
            with lock:
                of_cases = dict(re.findall(r"\[       OK \] (\S+?),? .*\((\d+) ms\)", output))
                for test in tests:
                    took = int(of_cases[test.case]) / 1000 if test.case in of_cases else seconds
                    kept["tests"][test.name] = {
                        "program": hashes[test.program], "seconds": took, "passed": passed,
                        "starts": sorted(started - {None, test.program}),
                        "reached": [table.setdefault(each, len(table)) for each in sorted(reached)]}  # fmt: skip
                    done += 1
                    what = "what it reaches" if passed else "fails as it is"
                    print(f"[{done}/{len(missing)}] {what}: {test.name}", flush=True)
                if time.monotonic() - saved > 30:
                    save()
                    saved = time.monotonic()
            return True

        def trace_suite(tests):
            if len(tests) == 1 or not trace(tests, 10):  # what takes long is worth knowing of each case
                for test in tests:
                    trace([test], 600)

        suites = defaultdict(list)
        for test in missing:
            suites[test.suite].append(test)
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(trace_suite, suites.values()))
        save()
        functions_of = list(table)
        self.seconds, self.reaching, self.failing, self.starts = {}, defaultdict(list), set(), defaultdict(set)
        for test in self.tests:
            told = kept["tests"][test.name]
            self.seconds[test.name] = told["seconds"]
            self.starts[test.program] |= set(told["starts"])
            if not told["passed"]:
                self.failing.add(test.name)
                continue
            for index in told["reached"]:
                self.reaching[functions_of[index]].append(test)

    def tests_of(self, file, line):
        """The tests that execute the function that a line is part of, and True. Else all of the programs that execute
        any of the file, or of a header without functions what includes it, and False: only the compiler executes the
        line, or a process that did not end by itself."""
        around = [name for name, places in self.lines[file].items() if any(a <= line <= b for a, b in places)]
        found = {test.name: test for name in around for test in self.reaching[file, name]}
        if found:
            return list(found.values()), True
        parts = {source for name, (_, source) in self.compiles.items() if file in self.reads[name]}
        files = [file] if self.lines[file] else parts & self.lines.keys()  # of a header with constants alone
        programs = {test.program for each in files for name in self.lines[each] for test in self.reaching[each, name]}
        return [test for test in self.tests if test.program in programs and test.name not in self.failing], False

    def stale(self, output, file):
        """What of a program, of those that it starts and of their libraries a file is compiled into."""
        programs = [output, *self.starts[output]]
        whole = dict.fromkeys([*programs, *(library for each in programs for library in self.libraries[each])])
        return [each for part in whole for each in self.objects[part] if file in self.reads[each]]

    def judge(self, mutant, worker, seconds):
        """What becomes of a mutant, and by what. After `seconds` no further program is built."""
        begin = time.monotonic()
        if not any(mutant.file in files for files in self.reads.values()):
            return "not compiled", "no part of this build"
        tests = defaultdict(list)
        reaching, executed = self.tests_of(mutant.file, mutant.line)
        for test in reaching:
            tests[test.program].append(test)
        if not tests:
            return "survived", "no test reaches its file"
        cost = {each: (len(self.stale(each, mutant.file)), sum(self.seconds[test.name] for test in tests[each]))
                for each in tests}
        attempt = Attempt(self, mutant, worker)
        if mutant.file.endswith((".h", ".hpp")) and attempt.is_broken():
            return "not compiled", mutant.file
        for index, program in enumerate(sorted(tests, key=cost.get)):
            left = seconds - (time.monotonic() - begin)
            if index > 0 and left < 0:
                attempt.left_out += len(tests[program])
                continue
            failure = attempt.build(program) or attempt.test(program, tests[program], left)
            if failure:
                return failure
        if attempt.same_code():
            return "equivalent", "the compiler makes the same of it"
        if attempt.left_out:
            return "survived", f"time was up with {attempt.left_out} of {len(reaching)} tests to go"
        if not executed:
            return "survived", "no test is seen to execute it"
        return "survived", "all that reach it pass"


class Attempt:
    """One mutant in a worker's folder."""

    def __init__(self, build, mutant, folder):
        self.build_, self.mutant, self.folder, self.made = build, mutant, folder, {}
        self.left_out = 0  # tests that time did not suffice for
        shutil.rmtree(folder, ignore_errors=True)
        self.source = folder / mutant.file
        self.source.parent.mkdir(parents=True)
        self.source.write_text(mutant.text(build.root))

    def compile(self, name, output, flags=(), mutated=True):
        argv, source = self.build_.compiles[name]
        argv = [each for each in argv if each != "--coverage"]
        argv[argv.index("-o") + 1] = str(output)
        if mutated:
            argv[-1] = str(self.source) if source == self.mutant.file else argv[-1]
            first = next(index for index, each in enumerate(argv) if each.startswith("-"))
            argv[first:first] = [f"-I{self.folder}/include", f"-I{self.folder}/src"]
        output.parent.mkdir(parents=True, exist_ok=True)
        return run([*argv, *flags], self.build_.base, 600)

    def is_broken(self):
        """Whether a mutant of a header, included by nothing, does not compile while the header does: soon known."""
        file = self.mutant.file
        part = min((each for each in self.build_.compiles if file in self.build_.reads[each]),
                   key=lambda each: len(self.build_.reads[each]))  # fmt: skip
        argv, _ = self.build_.compiles[part]
        argv = [each for each in argv[: argv.index("-o")] if each != "--coverage"]

        def compiles(path, *folders):
            first = next(index for index, each in enumerate(argv) if each.startswith("-"))
            alone = [*argv[:first], *folders, *argv[first:], "-fsyntax-only", "-x", "c++", str(path)]
            code, output = run(alone, self.build_.base, 600)
            return code == 0 or "static assertion" in output  # which kills it

        mutated = [f"-I{self.folder}/include", f"-I{self.folder}/src"]
        return not compiles(self.source, *mutated) and compiles(self.build_.root / file)

    def build(self, program):
        """Makes what the mutant changes of a program; what became of the mutant if that fails."""
        for name in self.build_.stale(program, self.mutant.file):
            if name in self.made:
                continue
            self.made[name] = self.folder / "objects" / name
            code, output = self.compile(name, self.made[name])
            if code != 0:
                asserts = re.search("static assertion|static_assert", output)
                source = self.build_.compiles[name][1]
                return ("killed", f"static_assert in {source}") if asserts else ("not compiled", source)
        programs = [program, *self.build_.starts[program]]
        libraries = dict.fromkeys(library for each in programs for library in self.build_.libraries[each])
        for output in [*libraries, *programs]:
            archives = [each for each in self.build_.libraries[output] if each.endswith(".a")]
            if output in self.made or not any(each in self.made for each in [*self.build_.objects[output], *archives]):
                continue
            argv = self.build_.links[output]
            soname = next((each.split(",")[-1] for each in argv if each.startswith("-Wl,-soname,")), None)
            self.made[output] = self.folder / ("lib/" + soname if soname else "bin/" + output)
            self.made[output].parent.mkdir(parents=True, exist_ok=True)
            whole = {each: self.build_.base / each for each in argv if each in self.build_.compiles}
            argv = [str(self.made.get(each, whole.get(each, each))) for each in argv]
            argv = ["qcT" if each == "qc" else each for each in argv]  # an archive that names its objects
            if run(argv, self.build_.base, 600)[0] != 0:
                return "not compiled", "does not link"
        return None

    def test(self, program, tests, seconds):
        """Runs tests, the shortest first; what became of the mutant at the first that fails."""
        runs = defaultdict(list)
        for test in sorted(tests, key=lambda each: self.build_.seconds[each.name]):
            runs[str(test.environment) if test.case else test.name].append(test)
        begin = time.monotonic()
        for group in sorted(runs.values(), key=lambda each: sum(self.build_.seconds[test.name] for test in each)):
            if time.monotonic() - begin > max(seconds, 0):
                self.left_out += len(group)
                continue
            test, path = group[0], str(self.build_.base / program)
            command = command_of(group)
            mutated = [each.replace(path, str(self.made.get(program, path))) for each in command]
            mutated = [*self.in_place(program), *mutated]
            libraries = {"LD_LIBRARY_PATH": f"{self.folder}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"}
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
                environment = {**test.environment, "TMPDIR": temporary, "GCOV_PREFIX": temporary}
                if test.case or len(command) == 1:  # not where other processes would wait for one that ended
                    environment["GTEST_FAIL_FAST"] = "1"
                most = 20 + 3 * sum(self.build_.seconds[each.name] for each in group)
                code, output = run(mutated, test.folder, most, {**environment, **libraries})
                if code == 125 and len(mutated) > len(command):
                    raise SystemExit(f"mutants: what a test starts cannot be replaced by a mutant: {output}")
                while code is None and most < 600 and is_slow(command, test.folder, most, environment):
                    most *= 3
                    code, output = run(mutated, test.folder, most, {**environment, **libraries})
            if not test.passes(code, output):
                failed = re.search(r"\[  FAILED  \] ([\w/.]+)", output)
                name = failed[1] if failed else test.name
                return "killed", f"{name}, out of time" if code is None else name
        return None

    def in_place(self, program):
        """What runs a command where the programs that it starts by their paths are those of the mutant."""
        started = [each for each in self.build_.starts[program] if each in self.made]
        if not started:
            return []
        mounts = [f"mount --bind {shlex.quote(str(self.made[each]))} {shlex.quote(str(self.build_.base / each))}"
                  for each in started]  # fmt: skip
        alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        return [*alone, "sh", "-c", f'{" && ".join(mounts)} || exit 125; exec "$@"', "sh"]

    def same_code(self):
        """Whether an optimising compiler makes the same objects of the mutant as of the original."""
        for name in (each for each in self.made if each in self.build_.compiles):
            pair = [self.folder / "optimised" / each / name for each in ("mutant", "original")]
            for output, mutated in zip(pair, (True, False)):
                if self.compile(name, output, ["-O2", "-DNDEBUG"], mutated)[0] != 0:
                    return False
            if pair[0].read_bytes() != pair[1].read_bytes():
                return False
        return True
