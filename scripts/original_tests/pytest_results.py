# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: writes what becomes of each test into a file of this rank, and, on rank 0, which file of tests runs now."""

import json
import os
from pathlib import Path

import pytest
from calls import CURRENT

_rank = os.environ.get("RANK", "0")
_folder = Path(os.environ["RANKMESH_ORIGINALS_RESULTS"])
_file = open(_folder / f"results.{_rank}", "a", buffering=1)
_reports, _running = [], ""


def _say(event, test, **more):
    print(json.dumps({"event": event, "test": test, **more}), file=_file)


def _run_file(name):
    """Tells calls.py, in this process and those that tests start, which file runs."""
    global _running
    if _rank == "0" and name != _running:
        _running = name
        (_folder / "next").write_text(name)
        (_folder / "next").replace(_folder / CURRENT)


def _reason(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return getattr(report, "wasxfail", "") or str(report.longrepr).strip().splitlines()[-1].removeprefix("E").strip()
    return f"{crash.message.strip()} ({Path(crash.path).name}:{crash.lineno})"


def pytest_collectreport(report):
    if report.outcome != "passed":
        _say("end", report.nodeid, outcome=report.outcome, reason=_reason(report))


def pytest_collection_finish(session):
    for item in session.items:
        _say("collected", item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    environment = dict(os.environ)
    _reports.clear()
    _say("start", item.nodeid)
    _run_file(item.nodeid.split("::")[0])
    yield
    worst = min(_reports, key=lambda each: ("failed", "skipped", "passed").index(each.outcome))
    _say("end", item.nodeid, outcome=worst.outcome, reason="" if worst.passed else _reason(worst))
    os.environ.clear()
    os.environ.update(environment)


def pytest_runtest_logreport(report):
    _reports.append(report)
