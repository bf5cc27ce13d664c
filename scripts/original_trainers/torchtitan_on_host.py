# SPDX-License-Identifier: Apache-2.0
"""Has torchtitan take the host for its device, and its attention not be compiled, which has no backward there."""

from types import SimpleNamespace

import torch

torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.current_device = lambda: 0  # a number, for barrier
if not hasattr(torch.distributed, "set_timeout"):  # PyTorch 2.13
    torch.distributed.set_timeout = torch.distributed.distributed_c10d._set_pg_timeout
from torch.distributed.fsdp import FSDPModule
from torch.nn.attention.flex_attention import create_block_mask
from torchtitan.components import metrics
from torchtitan.models.common import attention


def _attend(q, k, v, *, scale, enable_gqa, **others):
    causal = torch.nn.functional.scaled_dot_product_attention
    return causal(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa), None


attention.FlexAttention.compiled_flex_attn = staticmethod(_attend)
attention._compiled_create_block_mask = create_block_mask
_divide = FSDPModule.set_gradient_divide_factor


def _divide_by_sums(self, factor):
    """Gloo has no other reduction by a factor."""
    _divide(self, factor)
    self.set_force_sum_reduction_for_comms(True)


FSDPModule.set_gradient_divide_factor = _divide_by_sums
_stats = SimpleNamespace(max_reserved_gib=0, max_reserved_pct=0)
_monitor = SimpleNamespace(device_name="cpu", get_peak_stats=lambda: _stats, reset_peak_stats=lambda: None)
metrics.build_device_memory_monitor = lambda: _monitor
