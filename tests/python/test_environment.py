"""Every variable of docs/environment.md in every face: it has an effect, or one line says that it has none.

Nonsense tells which: a variable that has an effect refuses it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rankmesh

ROOT = Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("RANKMESH_COMMAND", "")
REDIS = {"RANKMESH_STORE": "redis://127.0.0.1:1", "RANKMESH_JOB": "job"}

NONSENSE: dict[str, tuple[str, dict[str, str]]] = {
    "RANKMESH_ENGINE": ("steam", {}),
    "RANKMESH_WORLD_SIZE": ("none", {}),
    "RANKMESH_TIMEOUT": ("soon", {}),
    "RANKMESH_THREADS": ("many", {}),
    "RANKMESH_DEVICE": ("toaster", {}),
    "RANKMESH_INTERFACE": ("nowhere0", {}),
    "RANKMESH_STORE": ("tcp://host:port", {}),
    "RANKMESH_JOB": ("x" * 300, {}),
    "RANKMESH_SECRET": ("", {}),
    "RANKMESH_SECRET_FILE": ("/nowhere", {}),
    "RANKMESH_REDIS_PASSWORD": ("", REDIS),
    "RANKMESH_REDIS_PASSWORD_FILE": ("/nowhere", REDIS),
    "RANKMESH_CHECK": ("maybe", {}),
    "RANKMESH_RECORD_SIGNAL": ("KILL", {}),
    "RANKMESH_RECORD_EVERY": ("often", {}),
}
"""A value that a variable refuses where it has an effect, and what must be set beside it."""

OF_TORCH = {"RANKMESH_TORCH": "neither on nor off", "RANKMESH_LOG": "neither 'info' nor 'off'"}
"""Variables of rankmesh.torch alone, whose import refuses nonsense: no rank then waits for another."""

ANY_TEXT = {"RANKMESH_HOST", "RANKMESH_RECORD", "RANKMESH_REDIS_USER"}
"""Variables that refuse nothing."""


def test_the_table_has_every_variable_of_the_page() -> None:
    page = (ROOT / "docs/environment.md").read_text().partition("## Set by launchers")[0]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `RANKMESH")]
    assert {name for row in rows for name in re.findall(r"`(RANKMESH_\w+)`", row)} == {*NONSENSE, *OF_TORCH, *ANY_TEXT}


@contextlib.contextmanager
def environment(rank: int, size: int, port: int, variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def outcome(start: Any) -> str:
    """The error of a start, or its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            start()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "\n".join(str(each.message) for each in warned)


def engine(_: None) -> None:
    rankmesh.World.from_environment().close()


def run_command(_: None) -> None:
    done = subprocess.run([COMMAND, "run", "dp=2", "--bytes", "64"], capture_output=True, text=True, timeout=60)
    for line in done.stderr.splitlines():
        warnings.warn(line, stacklevel=1)


def init(backend: str | None) -> None:
    rankmesh.torch.init("dp=*", backend=backend).destroy()


def init_process_group(backend: str) -> None:
    import torch.distributed as dist

    dist.init_process_group(backend)
    try:
        rankmesh.torch.init_device_mesh("cpu", (1, 2))
    finally:
        dist.destroy_process_group()


FACES: dict[str, tuple[Any, str | None]] = {
    "the engine": (engine, None),
    "rankmesh run": (run_command, None),
    "init": (init, None),
    "init on gloo": (init, "gloo"),
    "init on rankmesh+gloo": (init, "rankmesh+gloo"),
    "cpu:rankmesh": (init_process_group, "cpu:rankmesh"),
    "rankmesh+gloo": (init_process_group, "rankmesh+gloo"),
    "gloo": (init_process_group, "gloo"),
}


def outcomes(rank: int, size: int, ports: list[int], face: str) -> dict[str, str]:
    from rankmesh.torch import _variables

    start, argument = FACES[face]
    found = {}
    for port, (name, (value, beside)) in zip(ports, NONSENSE.items(), strict=True):
        _variables._told.clear()
        value = value or ("secret" if argument == "gloo" else "")
        with environment(rank, size, port, {**beside, name: value}):
            found[name] = outcome(lambda: start(argument))
    return found


@pytest.mark.parametrize("face", FACES)
def test_nonsense_is_refused_or_said_to_have_no_effect(face: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch_ranks import free_port, ranks

    if face == "rankmesh run" and not COMMAND:
        pytest.skip("there is no command: RANKMESH_COMMAND names it")
    found, _ = ranks(2, outcomes, tmp_path, [free_port() for _ in NONSENSE], face, initialised=False)
    if face == "the engine":
        del found["RANKMESH_THREADS"], found["RANKMESH_DEVICE"]  # of rankmesh::run and `rankmesh run` alone
    assert "a job id of 30" in (job := found.pop("RANKMESH_JOB")) or "RANKMESH_JOB has no effect" in job
    silent = {name: text for name, text in found.items() if name not in text and f"'{NONSENSE[name][0]}'" not in text}
    assert silent == {}


@pytest.mark.parametrize("name", OF_TORCH)
def test_the_import_of_torch_refuses_nonsense(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = subprocess.run(
        [sys.executable, "-c", "import rankmesh.torch"],
        env={**os.environ, name: "nonsense"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 1
    assert "'nonsense' is " + OF_TORCH[name] in done.stderr


def seconds(rank: int, size: int, ports: list[int]) -> list[float]:
    """The timeouts of groups for which the program gives none, and then of one for which it does."""
    import rankmesh.torch
    import torch.distributed as dist
    from rankmesh.torch._groups import timeout_of

    found = []
    for port, (start, backend) in zip(ports, STARTS, strict=True):
        with environment(rank, size, port, {"RANKMESH_TIMEOUT": "7", "RANKMESH_HOST": f"host{rank}"}):
            if start == "init":
                me = rankmesh.torch.init("dp=1 tp=2", local="here", backend=backend)
                assert list(me.ranks("here")) == [rank]
            else:
                dist.init_process_group(backend)
            default = dist.group.WORLD
            assert default is not None
            made = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=9))
            for group in (default, made):
                timeout = timeout_of(group)
                found.append(timeout.total_seconds() if timeout is not None else 0)
            dist.destroy_process_group()
    return found


STARTS = [
    ("init", None),
    ("init", "gloo"),
    ("init", "rankmesh+gloo"),
    ("init_process_group", "cpu:rankmesh"),
    ("init_process_group", "rankmesh+gloo"),
]


def test_a_timeout_of_the_environment_holds_where_the_program_gives_none(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch_ranks import free_port, ranks

    found = ranks(2, seconds, tmp_path, [free_port() for _ in STARTS], initialised=False)
    assert found == [[7, 9] * len(STARTS)] * 2


@pytest.mark.skipif(not COMMAND, reason="there is no command: RANKMESH_COMMAND names it")
@pytest.mark.parametrize(("option", "expected"), [([], "2 s"), (["--timeout", "1"], "1 s")])
def test_so_it_does_in_the_command(option: list[str], expected: str) -> None:
    from torch_ranks import free_port

    of_rank_0 = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = subprocess.run(
        [COMMAND, "run", "dp=2", *option],
        env={**os.environ, **of_rank_0, "RANKMESH_TIMEOUT": "2"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert f"the timeout of {expected} expired in the start of the world on rank 0" in done.stderr
    assert done.returncode != 0


OF_THE_NETWORK = [
    *("RANKMESH_STORE", "RANKMESH_JOB", "RANKMESH_SECRET", "RANKMESH_SECRET_FILE", "RANKMESH_REDIS_USER"),
    *("RANKMESH_REDIS_PASSWORD", "RANKMESH_REDIS_PASSWORD_FILE", "RANKMESH_INTERFACE"),
]


@pytest.mark.skipif(not COMMAND, reason="there is no command: RANKMESH_COMMAND names it")
@pytest.mark.parametrize("names", [[], *([name] for name in OF_THE_NETWORK), OF_THE_NETWORK])
def test_an_engine_without_a_network_says_what_it_does_not_read(names: list[str]) -> None:
    done = subprocess.run(
        [COMMAND, "run", "dp=2", "--engine", "threads", "--bytes", "64"],
        env={**os.environ, **dict.fromkeys(names, "x")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    listed = ", ".join(names[:-1]) + " and " * (len(names) > 1) + "".join(names[-1:])
    said = f"rankmesh: {listed} {'have' if names[1:] else 'has'} no effect on the engine 'threads'\n"
    assert (done.stderr, done.returncode) == (said if names else "", 0)
