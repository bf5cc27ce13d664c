"""scripts/originals on an invented framework, whose own answers are wrong where ours are right."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/originals"

CHECKOUT = {
    "invented/__init__.py": "import absent.kernels\nimport invented.part\n",
    "invented/part/__init__.py": "raise ImportError\n",
    "invented/groups.py": "def size(): return 1\ndef twice(): return 2\n",
    "tests/test_sizes.py": """
import os
import pytest
import invented  # from now on there is a stub
from absent.kernels import attention
from invented.groups import size, twice

def test_of_ours():
    os.environ["LEFT"] = "behind"
    assert size() == 2

def test_of_theirs():
    assert "LEFT" not in os.environ
    assert size() == 1, "ours"

def test_of_nobody():
    assert size() == 3

def test_of_all():
    import absent.more  # asks the finder of ours
    size(), twice()

@pytest.mark.skipif(attention is not None, reason="there is no kernel")
def test_of_a_kernel(): ...
""",
    "tests/test_wrong.py": "import nothing.of.this_name\n",
    "tests/test_end.py": """
import os

def test_before(): pass

def test_end(): os._exit(3)

def test_after(): pass
""",
    "tests/test_children.py": """
import multiprocessing
import threading
import pytest

def wait(): threading.Event().wait()

@pytest.mark.parametrize("number", range(5))
def test_hangs(number):
    children = [multiprocessing.get_context("fork").Process(target=wait) for _ in range(2)]
    for child in children:
        child.start()
    children[0].join()
""",
    "tests/test_ranks.py": """
import time
import torch
import torch.distributed as dist
import invented.groups

def setup_module():
    dist.init_process_group("nccl")

def test_devices():
    total = torch.ones(1, device=f"cuda:{torch.cuda.current_device()}").cuda()
    dist.all_reduce(total, group=dist.new_group(backend="nccl"))
    assert total.item() == torch.cuda.device_count() == 2
    one = dist.new_group([1], backend="nccl")
    assert dist.get_process_group_ranks(one) == [1]
    assert (one is dist.GroupMember.NON_GROUP_MEMBER) == (dist.get_rank() == 0)

def test_random_numbers():
    torch.cuda.manual_seed(3)
    state, first = torch.cuda.get_rng_state(), torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(2, device=torch.cuda.current_device()), first)

def test_that_one_rank_fails():
    assert dist.get_rank() == 0

def test_that_hangs():
    time.sleep(1000 * dist.get_rank())

def test_after_these():
    assert dist.get_world_size() == 2
""",
}

OURS = """
import sys, types

def size():
    "How many."
    return 2

def twice():
    return size() * size()

class Finder:
    def find_spec(self, fullname, path, target=None):
        return None

def install():
    sys.meta_path.insert(0, Finder())
    module = types.ModuleType("invented.groups")
    module.size, module.twice = size, twice
    sys.modules["invented.groups"] = module
"""


@pytest.fixture
def originals(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    loader = importlib.machinery.SourceFileLoader("originals", str(SCRIPT))
    spec = importlib.util.spec_from_loader("originals", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "originals", module)
    loader.exec_module(module)
    yield module
    for name in ("frameworks", "processes"):
        sys.modules.pop(name, None)


def run(
    originals: ModuleType, folder: Path, capsys: Any, files: dict[str, int], *options: str, **other: Any
) -> tuple[int, list[str]]:
    """What the script ends with and prints for these files of the invented checkout."""
    for name, text in CHECKOUT.items() | {"../ours.py": OURS}.items():
        path = folder / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    framework = originals.Framework(
        package="invented",
        install="ours",
        files=files,
        paths=(".", ".."),
        stubs=("absent",),
        bare=("invented.part",),
        torch=any(files.values()),
        **other,
    )
    code = originals.main(["invented", str(folder / "checkout"), *options], {"invented": framework})
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before  # the checkout is as it was
    return code, capsys.readouterr().out.splitlines()


def test_tests_that_pass_before_run_with_ours(originals: Any, tmp_path: Path, capsys: Any) -> None:
    code, lines = run(originals, tmp_path, capsys, {"tests/test_sizes.py": 0, "tests/test_wrong.py": 0})
    assert code == 1
    assert lines == [
        "tests/test_sizes.py: own 2 passed, 2 failed, 1 skipped; ours 1 of 2, 3 calls",
        "  failed tests/test_sizes.py::test_of_theirs: AssertionError: ours ... +  where 2 = size() (test_sizes.py:14)",
        "  own 1 failed: assert 1 == 2 ... +  where 1 = size() (test_sizes.py:10)",
        "  own 1 failed: assert 1 == 3 ... +  where 1 = size() (test_sizes.py:17)",
        "  own 1 skipped: there is no kernel",
        "tests/test_wrong.py: own 0 passed, 1 failed, 0 skipped; ours 0 of 0, 0 calls",
        "  own 1 failed: ModuleNotFoundError: No module named 'nothing'",
        "| tests | ranks | own: passed | failed | skipped | ours: passed | calls of ours |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| tests/test_sizes.py | - | 2 | 2 | 1 | 1 | 3 |",
        "| tests/test_wrong.py | - | 0 | 1 | 0 | 0 | 0 |",
    ]


def test_own_runs_the_frameworks_own_modules(originals: Any, tmp_path: Path, capsys: Any) -> None:
    _, lines = run(originals, tmp_path, capsys, {"tests/test_sizes.py": 0, "tests/test_wrong.py": 0}, "--own", "sizes")
    assert [line.split(":")[2] for line in lines if "failed " in line] == ["test_of_ours", "test_of_nobody"]
    assert lines[-1] == "2 passed, 2 failed, 1 skipped"


def test_what_ends_or_cannot_be_imported_has_failed(originals: Any, tmp_path: Path, capsys: Any) -> None:
    _, lines = run(originals, tmp_path, capsys, {"tests/test_wrong.py": 0, "tests/test_end.py": 0}, "--own")
    assert lines[0] == "tests/test_wrong.py: 0 passed, 1 failed, 0 skipped"
    assert "No module named 'nothing'" in lines[1]
    assert lines[2] == "tests/test_end.py: 2 passed, 1 failed, 0 skipped"
    assert "test_end: ranks [0] ended in it, exit status 3: " in lines[3]
    assert lines[-1] == "2 passed, 2 failed, 0 skipped"


def test_files_take_the_place_of_a_checkout(originals: Any, tmp_path: Path, capsys: Any) -> None:
    run(originals, tmp_path, capsys, {"tests/test_wrong.py": 0}, "--own")  # writes the files
    tests = tmp_path / "checkout/tests"
    framework = originals.Framework(
        "invented", "ours", (".", "..", "../.."), ("absent",), ("invented.part",), torch=False
    )
    files = [str(tests / "test_sizes.py"), str(tests / "test_wrong.py")]
    assert originals.main(["invented", *files], {"invented": framework}) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("test_")] == [
        "test_sizes.py: own 2 passed, 2 failed, 1 skipped; ours 1 of 2, 3 calls",
        "test_wrong.py: own 0 passed, 1 failed, 0 skipped; ours 0 of 0, 0 calls",
    ]


def test_it_says_what_is_not_there(originals: Any, tmp_path: Path, capsys: Any) -> None:
    needs = {"json": "x", "absent_too": "absent-too", "pytest": "pytest==0.1"}
    with pytest.raises(SystemExit):
        run(originals, tmp_path, capsys, {"tests/test_sizes.py": 0}, needs=needs)
    installed = f"has pytest=={pytest.__version__} in place of pytest==0.1"
    install = f"{sys.executable} -m pip install absent-too pytest==0.1"
    assert capsys.readouterr().err == f"{sys.executable} lacks absent_too and {installed}: {install}\n"


def test_lacks_are_one_sentence_when_rankmesh_is_absent(originals: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys.modules["processes"], "package_path", list)
    original = originals.Framework("invented", "ours", needs={"absent_too": "absent-too>=1"})
    folder = f"{sys.executable} lacks rankmesh{{}}: put a build's folder `python` on PYTHONPATH"
    install = f", and run {sys.executable} -m pip install 'absent-too>=1'"
    assert originals.missing(original) == folder.format(", absent_too") + install
    assert originals.missing(originals.Framework("invented", "ours")) == folder.format("")


@pytest.mark.parametrize(
    ("files", "asked", "text"),
    [
        (["other"], [], "{} has no tests/test_other.py: name the root of a checkout of invented"),
        (["other", "sizes"], [], "{} has no tests/test_other.py: name parts of the names of other files, or another"),
        (["a", "b", "c", "d", "end"], [], "{} has no tests/test_a.py, tests/test_b.py, tests/test_c.py and 1 others: "),
        (["sizes", "end"], ["groups", "nn"], "no file of tests has groups or nn in its name; there are test_sizes, te"),
    ],
    ids=["no checkout", "another version", "many", "no such name"],
)
def test_nothing_runs_when_files_are_absent(
    originals: Any, tmp_path: Path, monkeypatch: Any, capsys: Any, files: list[str], asked: list[str], text: str
) -> None:
    monkeypatch.setattr(originals, "run_tests", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match="2"):
        run(originals, tmp_path, capsys, {f"tests/test_{file}.py": 0 for file in files}, *asked)
    assert capsys.readouterr().err.startswith(text.format(tmp_path / "checkout"))


def test_files_named_run_when_others_are_absent(originals: Any, tmp_path: Path, capsys: Any) -> None:
    files = {"tests/test_other.py": 0, "tests/test_wrong.py": 0}
    _, lines = run(originals, tmp_path, capsys, files, "wrong", "--own")
    assert lines[0] == "tests/test_wrong.py: 0 passed, 1 failed, 0 skipped"


def test_ranks_that_fail_alone_or_hang_hold_up_nothing_else(originals: Any, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    # torch as it was compiled when it was installed
    installed = {"PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": "1"}
    files = {"tests/test_ranks.py": 2}
    code, lines = run(originals, tmp_path, capsys, files, "--limit", "5", "--own", environment=installed)
    assert code == 1, lines
    assert lines[0] == "tests/test_ranks.py on 2 ranks: 3 passed, 2 failed, 0 skipped"
    assert "test_that_one_rank_fails: assert 1 == 0" in lines[1]
    assert lines[1].endswith("(on ranks [1])")
    assert lines[2].endswith("test_that_hangs: not over in 5 s: rank 1 at test_ranks.py:28 in test_that_hangs")


def test_ranks_meet_in_a_group_of_nccl_before_they_have_it(originals: Any, monkeypatch: Any) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.delitem(sys.modules, "cuda_on_host", raising=False)
    met = []

    class Group:
        def _get_backend(self, device: Any) -> Any:
            return SimpleNamespace(barrier=lambda: SimpleNamespace(wait=lambda: met.append(device.type)))

    made = importlib.import_module("cuda_on_host")._make(lambda *ranks, **options: Group())
    assert isinstance(made([0, 1], backend="nccl"), Group)
    assert met == ["cpu"]  # else a rank could end the group while two others still connect


def test_hung_tests_end_and_the_stacks_are_printed(
    originals: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr(originals, "tell", told.append)
    monkeypatch.setattr(originals, "PROGRESS", 0.5)
    _, lines = run(originals, tmp_path, capsys, {"tests/test_children.py": 0}, "--limit", "2", "--own")
    assert lines[0] == "tests/test_children.py: 0 passed, 5 failed, 0 skipped"
    for number in range(3):
        asked, _, places = lines[1 + number].partition(": not over in 2 s: ")
        assert asked == f"  failed tests/test_children.py::test_hangs[{number}]"
        parent, child = places.split("; ")
        assert re.fullmatch(r"child 0 at test_children.py:13 in test_hangs, in \w+ \(popen_fork.py:\d+\)", parent)
        assert re.fullmatch(r"child 1, child 2 at test_children.py:6 in wait, in \w+ \(threading.py:\d+\)", child)
    assert [line.split(": ")[1] for line in lines[4:6]] == ["not run"] * 2
    runs = r"\d+ s, its own modules: 0 of [345] tests over, tests/test_children.py::test_hangs\[.\] for [012] of 2 s"
    assert any(re.fullmatch(runs, line) for line in told)
    hung = [line.split(": ")[:2] for line in told if line.startswith("tests/")]
    assert hung == [[f"tests/test_children.py::test_hangs[{number}]", "not over in 2 s"] for number in range(3)]
