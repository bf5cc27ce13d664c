"""The private parts of torch.distributed that several files here use, each under one name."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d as c10d

AllgatherOptions = _distributed_c10d.AllgatherOptions
CppBackend = _distributed_c10d.Backend  # torch.distributed.Backend is another
PrefixStore = _distributed_c10d.PrefixStore
Store = _distributed_c10d.Store
TCPStore = _distributed_c10d.TCPStore
default_group = c10d._get_default_group  # raises without one
default_store = c10d._get_default_store
tables = c10d._world  # what torch knows of its groups


def device_types(group: dist.ProcessGroup) -> set[str]:
    return {device.type for device in group._device_types}


def group_named(name: str | None) -> dist.ProcessGroup | None:
    """Returns the group of a name; None for None."""
    resolve: Any = _distributed_c10d._resolve_process_group
    return None if name is None else resolve(name)


def backends(group: dist.ProcessGroup) -> list[Any]:
    return [group._get_backend(device) for device in group._device_types]


def recorders() -> dict[str, Callable[[], bytes]]:
    """Returns what dumps the flight recorders of this torch as JSON, by the backends whose calls they have."""
    functions = {"gloo": "_dump_fr_trace_json", "nccl": "_dump_nccl_trace_json"}
    found = {name: getattr(_distributed_c10d, function, None) for name, function in functions.items()}
    return {name: function for name, function in found.items() if function}


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """A context in which an attribute of torch's has another value. Only one thread may be in it."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_T = TypeVar("_T", bound=type)
_dynamo = torch._C._dynamo.eval_frame  # torch._dynamo itself takes seconds to import
_SKIP = _dynamo._FrameExecStrategy(_dynamo._FrameAction.SKIP, _dynamo._FrameAction.SKIP)


def eager(kind: _T) -> _T:
    """Makes torch.compile run the methods of a class, and what they call, without compiling them.

    Of a process group, torch.compile reads only the members that torch lists; it raises at others.
    """
    for each in vars(kind).values():
        function = getattr(each, "fget", each)
        if isinstance(function, types.FunctionType):
            _dynamo.set_code_exec_strategy(function.__code__, _SKIP)
    return kind
