# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: torch's tests start their ranks by fork, so that no rank imports torch again."""

import multiprocessing
import sys


def _fork_processes(self):
    self._start_processes(multiprocessing.get_context("fork").Process)


def pytest_collection_finish(session):
    tests = sys.modules.get("torch.testing._internal.common_distributed")
    if tests is not None:
        tests.MultiProcessTestCase._spawn_processes = _fork_processes
