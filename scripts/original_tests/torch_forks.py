# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: torch's tests fork their ranks from a server that has imported torch once for all of them.

They are no forks of pytest itself, in which tests of torchtitan make groups."""

import multiprocessing
import sys

_IMPORTED = ["torch.testing._internal.distributed._tensor.common_dtensor", "torchtitan.models.llama3"]


def _from_server(self):
    self._start_processes(multiprocessing.get_context("forkserver").Process)


def pytest_collection_finish(session):
    tests = sys.modules.get("torch.testing._internal.common_distributed")
    if tests is not None:
        packages = {name.split(".")[0] for name in sys.modules}
        multiprocessing.set_forkserver_preload([name for name in _IMPORTED if name.split(".")[0] in packages])
        tests.MultiProcessTestCase._spawn_processes = _from_server
