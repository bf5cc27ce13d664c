"""all_reduce of sparse tensors, by gathering every rank's indices and values."""

from __future__ import annotations

import torch

from rankmesh.torch._errors import UsageError


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
