"""Documents tell the truth: what their Python prints is what they show, and so are the commands that run it."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rankmesh

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "docs/start-python.md", "docs/python.md", "docs/python-run.md", "docs/python-errors.md"]
SETTINGS = ("RANKMESH_", "OMPI_", "PMI", "SLURM_")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(document: str, kind: str) -> list[tuple[int, str]]:
    """The line and the text of each block of a kind."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = [(text.count("\n", 0, each.start(2)), each[2]) for each in FENCE.finditer(text) if each[1] == kind]
    assert len(found) == len(re.findall(rf"^```{kind}$", text, re.MULTILINE))
    return found


def need_numpy(document: str) -> None:
    if any("numpy" in block for _, block in blocks_of(document, "python")):
        pytest.importorskip("numpy", reason="NumPy is not installed")


def name_of(block: str) -> str | None:
    """'train.py' of a block that begins with '# train.py': a program, which a command of the document runs."""
    named = re.match(r"# (\w+\.py)\n", block)
    return named[1] if named else None


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_prints_what_the_document_shows(document: str) -> None:
    need_numpy(document)
    names: dict[str, object] = {"__name__": "document"}
    runner = doctest.DocTestRunner(verbose=False)
    examples = 0
    for line, block in blocks_of(document, "python"):
        if name_of(block):
            continue
        if not block.startswith(">>> "):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + block, document, "exec"), names)
            shown = re.findall(r"^# -> (.*)$", block, re.MULTILINE)
            assert printed.getvalue().splitlines() == shown, f"{document}:{line}"
            continue
        test = doctest.DocTestParser().get_doctest(block, names, document, str(ROOT / document), line)
        examples += len(test.examples)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)  # which is a copy
        assert not report, "".join(report)
    assert examples > 2


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_command_that_runs_python_prints_what_the_document_shows(document: str, tmp_path: Path) -> None:
    need_numpy(document)
    for _, block in blocks_of(document, "python"):
        if name := name_of(block):
            (tmp_path / name).write_text(block, encoding="utf-8")
    env = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    skipped = []
    for line, block in blocks_of(document, "sh"):
        if not block.startswith("$ "):
            continue  # tests/consumers runs it
        command, *shown = block.splitlines()
        engine = "mpi" if "mpirun" in command else "gloo"
        if engine not in rankmesh.engines() or (engine == "mpi" and not shutil.which("mpirun")):
            skipped.append(f"{document}:{line} needs {engine}")
            continue
        words = command[2:].replace(" python ", f" {shlex.quote(sys.executable)} ")
        done = subprocess.run(["bash", "-c", words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        if "communicators cross only between the same MPI" in done.stderr or "No module named 'mpi4py'" in done.stderr:
            skipped.append(f"{document}:{line} needs mpi4py on the MPI of this build")
            continue
        assert done.stdout.splitlines() == shown, f"{document}:{line}: {done.stderr}"
    if skipped:
        pytest.skip("; ".join(skipped))


def test_every_program_of_a_document_is_run_by_a_command() -> None:
    for document in DOCUMENTS:
        commands = "".join(block for _, block in blocks_of(document, "sh"))
        for _, block in blocks_of(document, "python"):
            name = name_of(block)
            assert name is None or f" python {name}" in commands
