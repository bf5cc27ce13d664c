"""rankmesh's environment variables under torch: what some of them say, and which have no effect on a backend."""

from __future__ import annotations

import datetime
import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Collection

import torch.distributed as dist

from rankmesh._engine import _record_pause  # type: ignore[attr-defined]
from rankmesh._errors import UsageError

_OF_RECORDS = ("RANKMESH_RECORD", "RANKMESH_RECORD_SIGNAL", "RANKMESH_RECORD_EVERY")
_OF_ENGINE = (
    *("RANKMESH_CHECK", "RANKMESH_TIMEOUT", *_OF_RECORDS, "RANKMESH_ENGINE", "RANKMESH_HOST", "RANKMESH_INTERFACE"),
    *("RANKMESH_STORE", "RANKMESH_JOB", "RANKMESH_SECRET", "RANKMESH_SECRET_FILE", "RANKMESH_REDIS_USER"),
    *("RANKMESH_REDIS_PASSWORD", "RANKMESH_REDIS_PASSWORD_FILE"),
)
_OF_OTHERS = ("RANKMESH_WORLD_SIZE", "RANKMESH_THREADS", "RANKMESH_DEVICE")

logger = logging.getLogger("rankmesh")
of_torchs_records: list[str] = []  # variables by which this process writes records of torch's own groups
_told: set[str] = set()  # backends whose unused variables are told


def timeout() -> datetime.timedelta | None:
    """Returns RANKMESH_TIMEOUT; None if it is not set."""
    given = os.environ.get("RANKMESH_TIMEOUT")
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(
            f"RANKMESH_TIMEOUT='{given}' is not a whole number of seconds, 1 or more; set it to such a number, or "
            "unset it"
        )
    return datetime.timedelta(seconds=int(given))


def record_every() -> tuple[str, int]:
    """Returns RANKMESH_RECORD and the seconds of RANKMESH_RECORD_EVERY; 0: only a failure writes records."""
    folder = os.environ.get("RANKMESH_RECORD", "")
    return folder, _record_pause(folder)


def log(level: str | None) -> None:
    """Has the logger `rankmesh` write lines of a level, by default RANKMESH_LOG's, to stderr: 'info', or 'off'."""
    given = level or os.environ.get("RANKMESH_LOG") or "off"
    if given not in ("info", "off"):
        raise UsageError(
            f"the log level '{given}' is neither 'info' nor 'off'; RANKMESH_LOG and log= have one of these"
        )
    if given == "info" and not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("rankmesh: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def host_name() -> str:
    """Returns the name of this host, which RANKMESH_HOST overrides."""
    return os.environ.get("RANKMESH_HOST") or socket.gethostname()


def _is_second(variable: str, first: str, second: str, why: str) -> bool:
    given = os.environ.get(variable, first)
    if given not in (first, second):
        text = f"is neither {first} nor {second}; set it to {second} {why}, or unset it"
        raise UsageError(f"{variable}='{given}' {text}")
    return given == second


def is_checked() -> bool:
    """Returns whether RANKMESH_CHECK asks for checked mode."""
    return _is_second("RANKMESH_CHECK", "0", "1", "to compare calls")


def is_off() -> bool:
    """Returns whether RANKMESH_TORCH leaves the groups to torch."""
    return _is_second("RANKMESH_TORCH", "on", "off", "for torch's own groups")


def tell_unused(backend: str, rank: int, size: int, effective: Collection[str] = ()) -> None:
    """Warns once per backend, on rank 0, of variables that have no effect on its groups, except `effective`."""
    if is_off() or rank != 0 or backend in _told or backend == "fake":
        return
    _told.add(backend)
    unused = () if backend == "rankmesh" else _OF_RECORDS if backend.startswith("rankmesh+") else _OF_ENGINE
    why = f"groups of the backend '{backend}'; initialise with 'cpu:rankmesh' for CPU tensors"
    _warn(unused, {*effective, *of_torchs_records}, why)
    same = ["RANKMESH_WORLD_SIZE"] if os.environ.get("RANKMESH_WORLD_SIZE") == str(size) else []
    _warn(_OF_OTHERS, same, "torch.distributed, which asks the launcher and the program")


def tell_unused_by_torch(effective: Collection[str] = ()) -> None:
    """Like `tell_unused`, if the default group is one of torch's own. Also warns if the program did not choose it."""
    backend, rank = dist.get_backend(), dist.get_rank()
    if is_off() or "rankmesh" in re.split(r"[:,+]", dist.get_backend_config()):
        return
    if backend == dist.Backend.UNDEFINED and rank == 0 and backend not in _told:
        warnings.warn(
            f"init_process_group without a backend made torch's own groups ({dist.get_backend_config()}), whose errors "
            "name no ranks; call rankmesh.torch.install() before it, or name the backend",
            stacklevel=3,
        )
    tell_unused(backend, rank, dist.get_world_size(), effective)


def _warn(unused: Collection[str], effective: Collection[str], why: str) -> None:
    found = [name for name in unused if os.environ.get(name, "") not in ("", "0") and name not in effective]
    if found:
        text = ", ".join(found[:-1]) + " and " * (len(found) > 1) + found[-1]
        warnings.warn(f"{text} {'have' if found[1:] else 'has'} no effect on {why}", stacklevel=4)
