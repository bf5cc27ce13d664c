"""Tensors as the contiguous memory that the engines move; sparse ones as their indices and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from rankmesh.torch._errors import NotTaken, UsageError

After = Callable[[], object]

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


def joined(tensors: Sequence[torch.Tensor], copies: list[After] | None = None) -> torch.Tensor:
    """Returns the elements of tensors one after the other; without a copy if they lie so in memory.

    `copies` gets a function that copies back what the operation writes into the copy; None: it writes nothing.
    """
    flat = _side_by_side(tensors)
    if flat is None:
        flat = torch.cat([each.detach().reshape(-1) for each in tensors])
        _copy_back(flat, tensors, copies)
    return flat


def place_for(tensors: Sequence[torch.Tensor], copies: list[After]) -> torch.Tensor:
    """Returns memory for the elements of tensors one after the other; `copies` copies them to the tensors."""
    flat = _side_by_side(tensors)
    if flat is None:
        flat = torch.empty(sum(each.numel() for each in tensors), dtype=tensors[0].dtype)
        _copy_back(flat, tensors, copies)
    return memory(flat)


def _copy_back(flat: torch.Tensor, tensors: Sequence[torch.Tensor], copies: list[After] | None) -> None:
    kinds = {each.dtype for each in tensors}
    if len(kinds) != 1:
        raise UsageError(f"the tensors of one operation have the types {sorted(map(str, kinds))}; give them one type")

    def distribute() -> None:
        parts = torch.split(flat, [each.numel() for each in tensors])
        for each, part in zip(tensors, parts, strict=True):
            each.data.copy_(part.view(each.shape))

    if copies is not None:
        copies.append(distribute)


def _side_by_side(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Returns one view of tensors that lie one after the other in one storage; None if they do not."""
    first = tensors[0]
    at = first.storage_offset()
    storage = first.untyped_storage().data_ptr()
    for each in tensors:
        if (
            each.layout is not torch.strided
            or not each.is_contiguous()
            or each.is_conj()
            or each.is_neg()
            or each.dtype != first.dtype
            or each.storage_offset() != at
            or each.untyped_storage().data_ptr() != storage
        ):
            return None
        at += each.numel()
    return first.data.as_strided((at - first.storage_offset(),), (1,))


class Sparse:
    """The sum of every rank's sparse tensor."""

    def __init__(self, tensor: torch.Tensor, size: int) -> None:
        """`tensor` is of COO layout, and gets the sum; `size` is the number of ranks."""
        self._tensor = tensor
        self._own = tensor.detach().coalesce()
        dense = list(tensor.shape[tensor.sparse_dim() :])
        self.shape = torch.tensor([self._own._nnz(), tensor.sparse_dim(), *tensor.shape])
        self.shapes = torch.empty(size * self.shape.numel(), dtype=torch.int64)
        self._dense = dense

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
        widths = wide, torch.Size(self._dense).numel()
        places = self._indices, self._values
        return [
            (each, into, [count * width for count in self._counts])
            for each, into, width in zip(given, places, widths, strict=True)
        ]

    def finish(self) -> None:
        """Writes the sum into the tensor."""
        with torch.no_grad():
            whole = torch.sparse_coo_tensor(self._indices.t(), self._values, self._tensor.shape)
            self._tensor.copy_(whole.coalesce())
