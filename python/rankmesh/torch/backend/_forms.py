"""The forms in which ProcessGroup's methods take arguments: c10d's options, or an operation, a root, a timeout.

Tensors are the contiguous memory that the engines move; sparse ones are their indices and values."""

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
After = Callable[[], object]

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
    listed = [tensors] if isinstance(tensors, torch.Tensor) else several(tensors, what)
    if len(listed) != 1:
        raise UsageError(f"{what} was given {len(listed)} tensors; pass one, because a process is one rank")
    return listed[0]


def several(tensors: Tensors, what: str) -> Tensors:
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


# --- memory

_BYTES = {getattr(torch, name) for name in dir(torch) if name.startswith("float8_") or name.startswith("float4_")}


def memory(tensor: torch.Tensor, copies: list[After] | None = None) -> torch.Tensor:
    """Returns a tensor's memory, or a contiguous copy of it.

    `copies` gets a function that copies back what the operation writes into the copy; None: it writes nothing.
    """
    tensor = tensor.data  # autograd does not count the write, as with torch's own backends
    if tensor.layout is not torch.strided:
        raise NotTaken(f"the backend 'rankmesh' was given a tensor of layout {tensor.layout}; pass x.to_dense()")
    if tensor.is_quantized:
        raise NotTaken("the backend 'rankmesh' was given a quantized tensor; pass x.int_repr(), or x.dequantize()")
    if tensor.dtype in _BYTES:
        tensor = tensor.view(torch.uint8)
    plain = not tensor.is_conj() and not tensor.is_neg()
    if plain and tensor.is_contiguous():
        return tensor
    copy = tensor.resolve_conj().resolve_neg().contiguous() if not plain else tensor.contiguous()
    if copies is not None:
        copies.append(lambda: tensor.copy_(copy))
    return copy


def reduced(tensor: torch.Tensor, copies: list[After] | None = None) -> torch.Tensor:
    """Returns the memory of a tensor to reduce, as `memory` does. A bool is the number 0 or 1 there."""
    if tensor.dtype in _BYTES:
        raise UsageError(f"the backend 'rankmesh' was asked to reduce {tensor.dtype}; pass x.to(torch.bfloat16)")
    return memory(tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor, copies)


def apart(given: torch.Tensor, into: torch.Tensor | None, rank: int = -1) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns the memory of an input and of an output; the input is copied if it shares memory with the output.

    With `rank`, not if the smaller of the two is the part of that rank in the larger one.
    """
    if into is None:
        return given, into
    offset = given.data_ptr() - into.data_ptr()
    if -given.nbytes < offset < into.nbytes:
        part = rank * given.nbytes if given.nbytes < into.nbytes else -rank * into.nbytes
        if given.nbytes == into.nbytes or offset != part:
            return given.clone(), into
    return given, into


def joined(tensors: Tensors, copies: list[After] | None = None) -> torch.Tensor:
    """Returns the elements of tensors one after the other; without a copy if they lie so in memory.

    `copies` gets a function that copies back what the operation writes into the copy; None: it writes nothing.
    """
    flat = _side_by_side(tensors)
    if flat is None:
        flat = torch.cat([each.detach().reshape(-1) for each in tensors])
        _copy_back(flat, tensors, copies)
    return flat


def place_for(tensors: Tensors, copies: list[After]) -> torch.Tensor:
    """Returns memory for the elements of tensors one after the other; `copies` copies them to the tensors."""
    flat = _side_by_side(tensors)
    if flat is None:
        flat = torch.empty(sum(each.numel() for each in tensors), dtype=tensors[0].dtype)
        _copy_back(flat, tensors, copies)
    return memory(flat)


def _copy_back(flat: torch.Tensor, tensors: Tensors, copies: list[After] | None) -> None:
    kinds = {each.dtype for each in tensors}
    if len(kinds) != 1:
        raise UsageError(f"the tensors of one operation have the types {sorted(map(str, kinds))}; give them one type")

    def distribute() -> None:
        parts = torch.split(flat, [each.numel() for each in tensors])
        for each, part in zip(tensors, parts, strict=True):
            each.data.copy_(part.view(each.shape))

    if copies is not None:
        copies.append(distribute)


def _side_by_side(tensors: Tensors) -> torch.Tensor | None:
    """Returns one view of tensors that lie one after the other in one storage; None if they do not."""
    first = tensors[0]
    at = first.storage_offset()
    storage = first.untyped_storage().data_ptr()
    for each in tensors:
        is_plain = each.layout is torch.strided and each.is_contiguous() and not each.is_conj() and not each.is_neg()
        if not is_plain or each.dtype != first.dtype or each.storage_offset() != at:
            return None
        if each.untyped_storage().data_ptr() != storage:
            return None
        at += each.numel()
    return first.data.as_strided((at - first.storage_offset(),), (1,))


class Sparse:
    """The sum of every rank's sparse tensor."""

    def __init__(self, tensor: torch.Tensor, size: int) -> None:
        """`tensor` is of COO layout, and gets the sum; `size` is the number of ranks."""
        self._tensor = tensor
        self._own = tensor.detach().coalesce()
        self._dense = tensor.shape[tensor.sparse_dim() :]
        self.shape = torch.tensor([self._own._nnz(), tensor.sparse_dim(), *tensor.shape])
        self.shapes = torch.empty(size * self.shape.numel(), dtype=torch.int64)

    def calls(self) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
        """Returns the arguments of an all_gather_v of the indices and of one of the values."""
        shapes = self.shapes.view(-1, self.shape.numel())
        if not torch.equal(shapes[:, 1:], self.shape[1:].expand(shapes.shape[0], -1)):
            raise UsageError(
                f"all_reduce was given sparse tensors of the shapes {[tuple(each[2:].tolist()) for each in shapes]}, "
                f"with {shapes[:, 1].tolist()} sparse dimensions; pass one shape on all ranks"
            )
        self._counts = shapes[:, 0].tolist()
        total, wide = sum(self._counts), self._tensor.sparse_dim()
        given = self._own.indices().t().contiguous(), self._own.values().contiguous()
        self._indices = torch.empty((total, wide), dtype=torch.int64)
        self._values = torch.empty((total, *self._dense), dtype=self._own.dtype)
        widths = wide, self._dense.numel()
        places = self._indices, self._values
        return [
            (each, into, [count * width for count in self._counts])
            for each, into, width in zip(given, places, widths, strict=True)
        ]

    def finish(self) -> None:
        with torch.no_grad():
            whole = torch.sparse_coo_tensor(self._indices.t(), self._values, self._tensor.shape)
            self._tensor.copy_(whole.coalesce())
