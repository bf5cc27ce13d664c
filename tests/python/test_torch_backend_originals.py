"""torch's own tests of its backends, which its wheel has, pass with the backend rankmesh in the place of Gloo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)

ORIGINAL = Path(torch.__file__).parent / "testing/_internal/distributed/distributed_test.py"

LEFT_OUT = [
    "any_source",  # which Gloo alone has
    "monitored_barrier",  # which torch.distributed refuses to all but Gloo
    "ddp_logging_data",  # of Gloo's environment variables
]

BEFORE = """
import os, torch
import rankmesh.torch
from torch.testing._internal import common_distributed as common
torch.set_num_threads(1)
for names in common.DistTestCases.backend_feature.values():
    names.add("rankmesh")
def fork(self):  # a process that imports torch anew takes seconds
    self._start_processes(torch.multiprocessing.get_context("fork").Process)
common.MultiProcessTestCase._spawn_processes = fork
"""

AFTER = """
class TestBackend(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()
TestDistBackend.__test__ = False
TestBackend.__test__ = True
"""


def with_rankmesh(source: str) -> str:
    """torch's source, with the name of our backend where it has Gloo's."""
    source = re.sub(r"(PROFILING_SUPPORTED_BACKENDS = \[)[^]]*\]", r"\1]", source)  # torch's own backends alone
    return source.replace("dist.Backend.GLOO", '"rankmesh"').replace('"gloo"', '"rankmesh"')


def test_torchs_tests_of_backends_pass_with_rankmesh(tmp_path: Path) -> None:
    (tmp_path / "test_original.py").write_text(BEFORE + with_rankmesh(ORIGINAL.read_text()) + AFTER)
    environment = os.environ | {
        "BACKEND": "rankmesh",
        "WORLD_SIZE": "2",
        "INIT_METHOD": f"file://{tmp_path}/init",
        "TEMP_DIR": str(tmp_path),
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "60",
        "OMP_NUM_THREADS": "1",
    }
    options = [
        "-q",
        "-rA",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-k",
        " and ".join(f"not {each}" for each in LEFT_OUT),
    ]
    command = [sys.executable, "-m", "pytest", *options, "test_original.py::TestBackend"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    outcomes = Counter(re.findall(r"^(PASSED|FAILED|ERROR) ", done.stdout, re.MULTILINE))
    failed = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
    assert not failed, "\n".join([*failed, done.stdout[-8000:]])
    assert outcomes["PASSED"] > 80, done.stdout[-3000:] + done.stderr[-3000:]
