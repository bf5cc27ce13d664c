"""Explains why a torch tensor is not plain memory. Imported only if torch is imported."""

from __future__ import annotations

import torch
from torch._C import DispatchKey, DispatchKeySet

_keys = DispatchKeySet(DispatchKey.CPU)
for _key in (DispatchKey.ADInplaceOrView, DispatchKey.AutogradCPU, DispatchKey.AutocastCPU):
    _keys = _keys | DispatchKeySet(_key)

PLAIN: int = _keys.raw_repr()  # the dispatch keys that a dense tensor in the memory of the host may have


def fault(tensor: torch.Tensor) -> str:
    """Returns why a tensor is not plain memory, and what to pass instead."""
    kind = type(tensor)
    keys = torch._C._dispatch_keys(tensor)
    is_plain = keys.raw_repr() & ~PLAIN == 0
    if kind not in (torch.Tensor, torch.nn.Parameter):
        if hasattr(tensor, "to_local"):
            return f"is a {kind.__name__}, of which this process holds only a part; pass x.to_local()"
        instead = "x.as_subclass(torch.Tensor)" if is_plain else "a torch.Tensor"
        return f"is a {kind.__name__}, a subclass of Tensor, which may hold its elements elsewhere; pass {instead}"
    if tensor.device.type == "meta":
        return "is on the device meta, which holds no elements; pass a tensor on the CPU"
    if tensor.device.type != "cpu":
        return f"is on the device {tensor.device}; this world moves memory of the host: pass x.cpu()"
    if tensor.is_quantized:
        return "is quantized; pass x.int_repr(), or x.dequantize()"
    if tensor.is_nested:
        return "is a nested tensor; pass x.values()"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; pass x.to_dense()"
    if tensor.is_conj():
        return "is a conjugate view, whose memory holds other values; pass x.resolve_conj()"
    if tensor.is_neg():
        return "is a negative view, whose memory holds other values; pass x.resolve_neg()"
    if is_plain:
        return "requires a gradient, which rankmesh does not compute; pass x.detach(), or call under torch.no_grad()"
    return f"has no memory of its own ({keys}); pass a tensor from outside torch.func and tracing"
