"""OLMo-core's context parallel configuration, and how tensors change between shards of sequences and of heads.

By hand, because it moves tensors of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rankmesh._originals import original

Tensor: TypeAlias = Any
"""torch's."""


@dataclass
class ContextParallelConfig:
    """How many ranks share a sequence."""

    degree: int


def _exchange(
    what: str, inputs: Sequence[Tensor], group: Any, scattered: int, gathered: int, *dims: int
) -> list[Tensor]:
    """Deals one dimension of each tensor out to the ranks of a group and puts another together, in one all-to-all.

    The tensors have one of these numbers of dimensions.
    """
    for each in inputs:
        if each.dim() not in dims:
            shapes = " or ".join(f"{n} dimensions" for n in dims)
            raise original(AssertionError, f"{what} expects tensors of {shapes}, and got {tuple(each.shape)}", "sizes")
    if not inputs:
        return []
    import torch.distributed.nn.functional as functional
    from torch import cat, empty_like

    ranks = group.size()
    parts = [each.unflatten(scattered, (ranks, -1)).movedim(scattered, 0) for each in inputs]
    sent = cat([part.flatten(1) for part in parts], dim=1)
    got = functional.all_to_all_single(empty_like(sent), sent, group=group)  # type: ignore[no-untyped-call]
    pieces = got.split([part[0].numel() for part in parts], dim=1)
    return [
        piece.reshape(part.shape).movedim(0, gathered).flatten(gathered, gathered + 1)
        for piece, part in zip(pieces, parts, strict=True)
    ]


def all_to_all_single_cp2hp(input_: Tensor, cp_group: Any) -> Tensor:
    """From shards of the sequence [B, T/CP, H(, D)] to shards of the heads [B, T, H/CP(, D)]."""
    return _exchange("all_to_all_single_cp2hp", [input_], cp_group, 2, 1, 3, 4)[0]


def all_to_all_cp2hp(inputs: list[Tensor], cp_group: Any) -> list[Tensor]:
    """The same of several tensors at once, whose heads may differ in number."""
    return _exchange("all_to_all_cp2hp", inputs, cp_group, 2, 1, 3, 4)


def all_to_all_single_hp2cp(input_: Tensor, cp_group: Any) -> Tensor:
    """From shards of the heads [B, T, H/CP(, D)] to shards of the sequence [B, T/CP, H(, D)]."""
    return _exchange("all_to_all_single_hp2cp", [input_], cp_group, 1, 2, 3, 4)[0]


def all_to_all_hp2cp(inputs: list[Tensor], cp_group: Any) -> list[Tensor]:
    """The same of several tensors at once, whose heads may differ in number."""
    return _exchange("all_to_all_hp2cp", inputs, cp_group, 1, 2, 3, 4)


def all_to_all_single_cp2hp_qkvpacked(input_: Tensor, cp_group: Any) -> Tensor:
    """From shards of the sequence [B, T/CP, 3, H, D] to shards of the heads [B, T, 3, H/CP, D]."""
    return _exchange("all_to_all_single_cp2hp_qkvpacked", [input_], cp_group, 3, 1, 5)[0]


def all_to_all_single_hp2cp_qkvpacked(input_: Tensor, cp_group: Any) -> Tensor:
    """From shards of the heads [B, T, 3, H/CP, D] to shards of the sequence [B, T/CP, 3, H, D]."""
    return _exchange("all_to_all_single_hp2cp_qkvpacked", [input_], cp_group, 1, 3, 5)[0]
