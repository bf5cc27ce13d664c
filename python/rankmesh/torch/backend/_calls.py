"""The way of each call of torch's into a group."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

from rankmesh.torch.backend._base import Base, Call


def called(direct: Call) -> Any:
    """Makes a method a call of torch, which the group carries out by `direct`, by torch's dispatcher, or elsewhere."""

    @functools.wraps(direct)
    def call(self: Base, *arguments: Any, **options: Any) -> dist.Work | None:
        return self.call(direct, arguments, options)

    return call


def tensors_of(arguments: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the tensors among arguments, and in the lists among them."""
    found: list[torch.Tensor] = []
    for each in arguments:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += tensors_of(each)
    return found
