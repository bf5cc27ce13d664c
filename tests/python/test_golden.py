"""Every recorded case of the original systems is answered by the package as by the command rankmesh-golden."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import golden
import pytest

SYSTEMS = [module.name for module in pkgutil.iter_modules(golden.__path__) if not module.name.startswith("_")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_case_is_answered_as_the_original_did(system: str) -> None:
    files = golden.recorded(system)
    assert files, f"no file of cases of {system}"
    for path in files:
        passed, failed, _ = golden.check(path)
        assert not failed, f"{len(failed)} of {passed + len(failed)} cases: " + "\n".join(failed[:20])
        assert passed > 0


def test_an_altered_answer_is_found() -> None:
    for expected, right, wrong in (
        (3, 3, 4),
        (None, None, 0),
        ([1, 2], [1, 2], [2, 1]),
        (
            {
                "len": 9,
                "head": [0, 1, 2, 3, 4, 5, 6, 7],
                "tail": [1, 2, 3, 4, 5, 6, 7, 8],
                "fnv1a64": golden.fnv1a64("0,1,2,3,4,5,6,7,8"),
            },
            list(range(9)),
            [0, 1, 2, 3, 4, 5, 6, 8, 7],
        ),
        ({"a": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"error": {"type": "KeyError", "message": "x"}}, golden.Raised(KeyError("y")), golden.Raised(ValueError("x"))),
        (
            {"error": {"type": "ValueError", "message": "x"}},
            golden.Raised(ValueError("x")),
            golden.Raised(ValueError("y")),
        ),
    ):
        assert golden.difference(expected, right, []) == ""
        assert golden.difference(expected, wrong, []) != ""


def test_the_files_that_are_kept_belong_to_a_system() -> None:
    kept = (Path(__file__).resolve().parents[1] / "golden" / "cases").glob("*.json")
    assert all(any(system in path.name for system in SYSTEMS) for path in kept)
