"""The forms in which ProcessGroup's methods take arguments: c10d's options, or an operation, a root, a timeout."""

from __future__ import annotations

import datetime
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._errors import UsageTypeError
from rankmesh.torch._errors import NotTaken, UsageError

Tensors = Sequence[torch.Tensor]

REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "mean",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "bit_and",
    dist.ReduceOp.BOR: "bit_or",
    dist.ReduceOp.BXOR: "bit_xor",
}

_IN_PLACE: dict[str, Any] = {
    "rootRank": int,
    "reduceOp": dist.ReduceOp | dist.ReduceOp.RedOpType,
    "timeout": datetime.timedelta | float,
}
"""What may stand in the place of options that have it, in this order."""


def called(kind: type | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Makes a method a call of torch, which the group carries out by it, by torch's dispatcher, or elsewhere.

    The method gets c10d's options of this kind as `opts`, however torch or a program passes them.
    """

    def decorated(direct: Callable[..., Any]) -> Any:
        at = list(inspect.signature(direct).parameters).index("opts") - 1 if kind is not None else 0

        @functools.wraps(direct)
        def with_options(
            self: Any,
            *given: Any,
            opts: Any = None,
            root: Any = None,
            op: Any = None,
            timeout: Any = None,
            **named: Any,
        ) -> dist.Work | None:
            named["opts"] = _options_of(kind, given[at:] or (opts,), rootRank=root, reduceOp=op, timeout=timeout)
            return direct(self, *given[:at], **named)  # type: ignore[no-any-return]

        made = direct if kind is None else with_options

        @functools.wraps(made)
        def call(self: Any, *arguments: Any, **options: Any) -> dist.Work | None:
            return self.call(made, arguments, options)  # type: ignore[no-any-return]

        return call

    return decorated


def _options_of(kind: Any, given: Sequence[Any], **named: Any) -> Any:
    """Returns c10d's options of this kind; `given` are options, or the fields in their place, in the order of
    _IN_PLACE."""
    if isinstance(given[0], kind) or (
        kind is c10d.AllreduceCoalescedOptions and isinstance(given[0], c10d.AllreduceOptions)
    ):
        return given[0]
    options = kind()
    for name, value in zip([name for name in _IN_PLACE if hasattr(options, name)], given, strict=False):
        if value is not None:
            if not isinstance(value, _IN_PLACE[name]):
                raise UsageTypeError(f"a call was given {value!r}; pass {kind.__name__}, or the {name}")
            named[name] = whole(value, name) if name == "rootRank" else value
    for name, value in named.items():
        if value is not None:
            setattr(options, name, value)
    return options


def tensors_of(arguments: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the tensors among arguments, and in the lists among them."""
    found: list[torch.Tensor] = []
    for each in arguments:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += tensors_of(each)
    return found


def reduction_of(options: Any) -> str:
    """Returns the engine's name of the options' operation."""
    operation = dist.ReduceOp.RedOpType(options.reduceOp.op)
    name = REDUCTIONS.get(operation)
    if name is None:
        raise UsageError(
            f"the backend 'rankmesh' was asked to reduce by {operation.name}; it has {', '.join(REDUCTIONS.values())}"
        )
    return name


def whole(number: int, what: str) -> int:
    """Returns a number if torch takes it: it keeps roots, ranks and tags in 32 bits."""
    if not -(2**31) <= number < 2**31:
        raise UsageTypeError(f"the {what} is {number}; it must be at most {2**31 - 1}")
    return number


def only(tensors: torch.Tensor | Tensors, what: str) -> torch.Tensor:
    """Returns the tensor of a list of one tensor."""
    listed = [tensors] if isinstance(tensors, torch.Tensor) else several(tensors, what)
    if len(listed) != 1:
        raise UsageError(f"{what} was given {len(listed)} tensors; pass one, because a process is one rank")
    return listed[0]


def several(tensors: Tensors, what: str) -> Tensors:
    """Returns a list of one or more tensors."""
    if len(tensors) == 0:
        raise NotTaken(f"{what} was given an empty list; pass one tensor or more")
    for each in tensors:
        if not isinstance(each, torch.Tensor):
            raise UsageTypeError(f"{what} was given {each!r}; pass a tensor")
    return tensors


def one_each(
    tensors: torch.Tensor | Tensors | Sequence[Tensors],
    like: torch.Tensor,
    size: int,
    what: str,
    own: int | None = None,
) -> Tensors:
    """Returns a list with one tensor for each rank, each of as many elements as `like`, and of its type.

    With `own`, a rank, only that rank's tensor has as many elements.
    """
    listed: Any = only(tensors, what) if isinstance(tensors, torch.Tensor) else tensors
    if len(listed) == 1 and not isinstance(listed[0], torch.Tensor):
        listed = listed[0]
    if len(listed) != size:
        raise UsageError(f"{what} was given a list of {len(listed)} tensors; pass {size}, one for each rank")
    for rank, each in enumerate(several(listed, what)):
        if (each.numel() != like.numel() and own in (None, rank)) or each.dtype != like.dtype:
            raise UsageError(
                f"{what} was given {each.numel()} elements of {each.dtype} for rank {rank}, but {like.numel()} of "
                f"{like.dtype} for this rank; pass tensors of one size and type"
            )
    return list(listed)


def row_counts(tensor: torch.Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """Returns the number of elements of each rank's rows of a tensor."""
    rows = tensor.shape[0] if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    if not splits:
        if rows % size:
            raise UsageError(f"all_to_all_single was given {rows} rows for {size} ranks; pass the split sizes")
        splits = [rows // size] * size
    if len(splits) != size or sum(splits) != rows:
        raise UsageError(
            f"all_to_all_single was given the split sizes {list(splits)} for {rows} rows; pass {size} sizes whose sum "
            f"is {rows}"
        )
    return [each * width for each in splits]
