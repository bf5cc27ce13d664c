"""torch.compile runs our code as it is."""

from __future__ import annotations

import types
from typing import TypeVar

import torch

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
