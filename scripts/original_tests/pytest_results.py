# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: writes what becomes of each test into a file of this rank, and where the rank stands in one that hangs."""

import faulthandler
import json
import os
from pathlib import Path

import pytest

_rank = os.environ.get("RANK", "0")
_folder = Path(os.environ["RANKMESH_ORIGINALS_RESULTS"])
_limit = float(os.environ["RANKMESH_ORIGINALS_LIMIT"])
_file = open(_folder / f"results.{_rank}", "a", buffering=1)
_stacks = open(_folder / f"stacks.{_rank}", "w")
_reports = []


def _say(event, test, **more):
    print(json.dumps({"event": event, "test": test, **more}), file=_file)


def _reason(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return getattr(report, "wasxfail", "") or str(report.longrepr).strip().splitlines()[-1]
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
    faulthandler.dump_traceback_later(_limit, file=_stacks)
    yield
    faulthandler.cancel_dump_traceback_later()
    worst = min(_reports, key=lambda each: ("failed", "skipped", "passed").index(each.outcome))
    _say("end", item.nodeid, outcome=worst.outcome, reason="" if worst.passed else _reason(worst))
    os.environ.clear()
    os.environ.update(environment)


def pytest_runtest_logreport(report):
    _reports.append(report)
