"""torch's own tests of its backends, which its wheel has, pass on our backends, and on Gloo with install().

The ranks are processes that run all tests, one after the other: torch would start four for each.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no Gloo", allow_module_level=True)
if "RANKMESH_ORIGINALS" not in os.environ:
    pytest.skip("torch's own tests take minutes: ./test all runs them", allow_module_level=True)

import torch_ranks  # noqa: E402

ORIGINAL = Path(torch.__file__).parent / "testing/_internal/distributed/distributed_test.py"
SIZE = 4
LEAST = 93  # that pass on Gloo; the others need GPUs

torch_ranks.LIMIT = 800.0
torch_ranks.preload("torch.testing._internal.distributed.distributed_test")
os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": str(SIZE)}  # which it reads when it is imported

_BARRIER = "torch.distributed.monitored_barrier, which torch refuses to every backend but Gloo"
SUBJECT_IS_GLOO = {
    "test_ddp_logging_data_cpu": "environment variables of Gloo, which DDP logs if the backend's name is gloo",
    "test_monitored_barrier_gloo": _BARRIER,
    "test_monitored_barrier_gloo_rank_0_timeout": "the words of Gloo's error",
    "test_monitored_barrier_gloo_subgroup": _BARRIER,
}
"""Tests that are not for another backend: what of Gloo is their subject."""


def original(backend: str) -> Any:
    """torch's tests, with the name of our backend where they have Gloo's."""
    source = ORIGINAL.read_text()
    if backend != "gloo":
        source = re.sub(r"(PROFILING_SUPPORTED_BACKENDS = \[)[^]]*\]", r"\1]", source)  # names of Gloo's own events
        source = source.replace("dist.Backend.GLOO", repr(backend)).replace('"gloo"', repr(backend))
    module = types.ModuleType("original")
    sys.modules["original"] = module
    exec(compile(source, str(ORIGINAL), "exec", dont_inherit=True), module.__dict__)
    return module


class Pipe:
    """Keeps the error of a test, which torch's class sends to the process that started the rank."""

    def __init__(self) -> None:
        self.error = ""

    def send(self, error: str) -> None:
        self.error = error

    def recv(self) -> None:
        raise EOFError

    def close(self) -> None:
        pass


def run_originals(rank: int, size: int, folder: Path, backend: str, only: str) -> dict[str, str]:
    import rankmesh.torch
    from torch.testing._internal import common_distributed as common

    dist = torch.distributed
    os.environ |= {"BACKEND": backend, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    for names in common.DistTestCases.backend_feature.values():
        if "gloo" in names:
            names.add(backend)
    if backend == "gloo":
        rankmesh.torch.install()
    module = original(backend)
    skipped = {skip.exit_code for skip in common.TEST_SKIPS.values()}

    class TestBackend(module.TestDistBackend, module.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
        pass

    TestBackend.setUpClass()
    outcomes = {}
    for name in [each for each in dir(TestBackend) if each.startswith("test_") and re.search(only, each)]:
        if getattr(getattr(TestBackend, name), "__unittest_skip__", False):
            outcomes[name] = "skipped"
            continue
        place, pipe = folder / name, Pipe()
        for part in ("barrier", "test_dir", "init_dir"):
            (place / part).mkdir(parents=True, exist_ok=True)
        os.environ |= {"TEMP_DIR": str(place), "INIT_METHOD": f"file://{place}/init_dir/shared_init_file"}
        module.INIT_METHOD = os.environ["INIT_METHOD"]
        module.Barrier.barrier_id = 0
        environment = dict(os.environ)
        try:
            TestBackend._run(rank, name, str(place / "init"), pipe)
            outcome = "passed"
        except SystemExit as end:
            outcome = "passed" if end.code == 0 else "skipped" if end.code in skipped else pipe.error or str(end)
        except BaseException as error:
            outcome = repr(error)
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        os.environ |= environment
        outcomes[name] = outcome
    return outcomes


@pytest.mark.parametrize("backend", ["cpu:rankmesh", "rankmesh+gloo", "gloo"])
def test_torchs_tests_of_backends_pass(backend: str, tmp_path: Path) -> None:
    only = os.environ["RANKMESH_ORIGINALS"]
    by_rank = torch_ranks.ranks(SIZE, run_originals, tmp_path, tmp_path, backend, only, initialised=False)
    failed, passed = {}, 0
    for name in by_rank[0]:
        on = [outcomes[name] for outcomes in by_rank]
        wrong = [f"rank {rank}: {each[-2000:]}" for rank, each in enumerate(on) if each not in ("passed", "skipped")]
        if wrong and (backend == "gloo" or name not in SUBJECT_IS_GLOO):
            failed[name] = "\n".join(wrong)
        passed += not wrong and "passed" in on
    print(backend, passed, "passed", Counter(by_rank[0].values()).get("skipped", 0), "skipped", len(failed), "failed")
    assert not failed, "\n\n".join(f"{name}\n{text}" for name, text in failed.items())
    assert passed >= LEAST - (backend != "gloo") * len(SUBJECT_IS_GLOO) or only != "test", passed
