"""scripts/trainers on an invented framework of a few lines, and what it says of runs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/trainers"
TRAINER = """
import sys
import time
from original_trainers.framework import Framework, Layout

FRAMEWORK = Framework(
    package="invented",
    install="ours",
    paths=("src", "."),
    needs={"json": "json"},
    torch=False,
    layouts={
        "dp2": Layout(2, {"loss": 1}),
        "hangs": Layout(2, {"waits": True}, also_install=False),
        "fails": Layout(2, {}),
    },
)

def train(settings, steps, note):
    import os
    from invented.groups import size
    for step in range(1, steps + 1):
        note(loss=settings["loss"] / size() / step if "loss" in settings else 1)
        print("trained", step)
    while settings.get("waits") and os.environ["RANK"] == "1":
        time.sleep(1)
    assert settings, "nothing is set"
"""
OURS = """
import sys
import types
import rankmesh.olmo

def install():
    sys.modules["invented.groups"] = types.SimpleNamespace(size=lambda: len(str(rankmesh.olmo.MeshDimName.dp)))
"""


@pytest.fixture
def trainers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The script as a module, and the invented framework."""
    for name, text in {
        "checkout/src/invented/__init__.py": "",
        "checkout/src/invented/groups.py": "def size(): return 2\n",
        "invented_trainer.py": TRAINER,
        "ours.py": OURS,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("trainers", str(SCRIPT))
    spec = importlib.util.spec_from_loader("trainers", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    yield module
    sys.modules.pop("invented_trainer", None)


def main(trainers: Any, *options: str) -> int:
    return int(trainers.main(["invented", *options], {"invented": "invented_trainer"}))


def canned(trainers: Any, monkeypatch: pytest.MonkeyPatch, runs: dict[str, dict[str, Any]]) -> None:
    """Has runs be these instead of processes: what differs from a run of two ranks, of one step each, by its module."""

    def start(trainer: str, framework: Any, checkout: Path, name: str, module: str, steps: int, limit: float) -> Any:
        counts = [{"calls": {"size": 3}, "made": 4, "groups": 2, "seconds": seconds} for seconds in (0.5, 0.25)]
        given = {"steps": [[{"loss": 0.5, "norm": 2.0}], [{"loss": 0.25}]], "counts": counts} | runs.get(module, {})
        return trainers.runs.Run(name, 2, module, **given)

    monkeypatch.setattr(trainers.runs, "start", start)


def test_table_when_all_is_equal(trainers: Any, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    canned(trainers, monkeypatch, {})
    assert main(trainers, str(tmp_path / "checkout"), "--layout", "dp2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "dp2, 2 ranks, its own modules: trained (0 s)",
        "dp2, 2 ranks, ours: trained (0 s)",
        "dp2, 2 ranks, rankmesh.torch: trained (0 s)",
        "| layout | ranks | modules        | losses and norms | calls of ours | group calls | groups | seconds |",
        "| ------ | ----- | -------------- | ---------------- | ------------- | ----------- | ------ | ------- |",
        "| dp2    | 2     | its own        | -                | -             | 4           | 2      | 0.25    |",
        "| dp2    | 2     | ours           | equal            | 3             | 4           | 2      | 0.25    |",
        "| dp2    | 2     | rankmesh.torch | equal            | 3             | 4           | 2      | 0.25    |",
    ]


@pytest.mark.parametrize(
    ("module", "changed", "text"),
    [
        (
            "ours",
            {"steps": [[{"loss": 0.5, "norm": 2.0}], [{"loss": 0.25000000000000006}]]},
            "ours: step 1, rank 1: loss is 0.25 with its own modules and 0.25000000000000006 with ours (",
        ),
        ("ours", {"steps": [[{"loss": 0.5}], [{"loss": 0.25}]]}, "ours: step 1, rank 0: norm is 2.0 with"),
        ("rankmesh.torch", {"steps": [[{"loss": 0.5, "norm": -2.0}], []]}, "rankmesh.torch: step 1, rank 0: norm is 2"),
        ("ours", {"counts": [{"calls": {"size": 1}, "seconds": 0, "made": 0, "groups": 0},
                             {"calls": {}, "seconds": 0, "made": 0, "groups": 0}]},
         "ours: a rank has called nothing of ours ("),
        ("", {"wrong": "no rank has noted a step"}, "its own modules: no rank has noted a step ("),
    ],
    ids=["a bit", "a number less", "a rank less", "unreached", "own"],
)  # fmt: skip
def test_main_fails_and_says_what_when_a_run_is(
    trainers: Any, tmp_path: Path, monkeypatch: Any, capsys: Any, module: str, changed: dict[str, Any], text: str
) -> None:
    canned(trainers, monkeypatch, {module: changed})
    assert main(trainers, str(tmp_path / "checkout"), "--layout", "dp2", "--json") == 1
    said = capsys.readouterr()
    assert f"dp2, 2 ranks, {text}" in said.err
    outcomes = {run["module"]: run["outcome"] for run in json.loads(said.out)}
    expected = {"": "own", "ours": "equal", "rankmesh.torch": "equal"} if module else {}
    assert outcomes == expected | {module: "failed"}  # without its own, nothing is compared


def test_useless_when_steps_are_no_numbers_or_too_few(trainers: Any) -> None:
    run = trainers.runs.Run("dp2", 2, "", steps=[[{"loss": float("nan")}], []])
    assert trainers.runs._useless(run, 1) == "rank 0, step 1: loss is nan"
    assert trainers.runs._useless(run, 2) == "rank 0 has noted 1 of 2 steps"
    run.steps = [[], []]
    assert trainers.runs._useless(run, 1) == "no rank has noted a step"


def test_main_says_what_is_missing_before_it_starts(
    trainers: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(trainers.runs, "start", lambda *_: pytest.fail("it was started"))
    framework = importlib.import_module("invented_trainer").FRAMEWORK
    lacks = [
        (
            [str(tmp_path)],
            f"{tmp_path} has no src/invented or invented: name the root of a checkout of invented, or of",
        ),
        ([], f"invented is not installed in {sys.executable}: install it, or name a checkout"),
        ([str(tmp_path / "checkout"), "--layout", "tp2"], "invented has no layout tp2; it has dp2, hangs, fails"),
    ]
    for options, text in lacks:
        with pytest.raises(SystemExit, match="2"):
            main(trainers, *options)
        assert text in capsys.readouterr().err
    framework.needs["absent_too"] = "absent-too>=1"
    with pytest.raises(SystemExit, match="2"):
        main(trainers, str(tmp_path / "checkout"))
    needed = f"{sys.executable} lacks absent_too: {sys.executable} -m pip install 'absent-too>=1'"
    assert needed in capsys.readouterr().err


def test_list_prints_layouts(trainers: Any, capsys: Any) -> None:
    assert main(trainers, "--list") == 0
    assert capsys.readouterr().out == "dp2: 2 ranks\nhangs: 2 ranks\nfails: 2 ranks\n"


def trained(trainers: Any, checkout: Path, capsys: Any, *options: str) -> dict[tuple[str, str], Any]:
    """The runs by layout and module of processes that do 2 steps, some of which fail."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code = main(trainers, str(checkout), "--steps", "2", "--json", *options)
    said = capsys.readouterr()
    assert code == 1, said.err
    return {(run["layout"], run["module"]): SimpleNamespace(**run) for run in json.loads(said.out)}


def test_ranks_are_compared_or_say_their_error(trainers: Any, tmp_path: Path, capsys: Any) -> None:
    done = trained(trainers, tmp_path / "checkout", capsys, "--layout", "dp2", "fails", "--limit", "100")
    assert done["dp2", ""].steps == [[{"loss": 0.5}, {"loss": 0.25}]] * 2
    assert done["dp2", "ours"].outcome == "equal"
    assert [each["calls"] for each in done["dp2", "ours"].counts] == [{"_enums.__str__": 1}] * 2  # in the first step
    assert done["dp2", "rankmesh.torch"].wrong == "a rank has called nothing of rankmesh.torch"
    assert done["fails", ""].wrong.startswith("rank ")
    assert ": AssertionError: nothing is set\n" in done["fails", ""].wrong


def test_ranks_that_hang_say_where(trainers: Any, tmp_path: Path, capsys: Any) -> None:
    done = trained(trainers, tmp_path / "checkout", capsys, "--layout", "hangs", "--limit", "5")
    hang = done["hangs", ""].wrong.splitlines()
    assert hang[0] == "not over in 5 s"
    assert "  rank 1: 2 steps done, last printed: trained 2" in hang
    assert any(line.startswith("    at File") and line.endswith("in train") for line in hang)
