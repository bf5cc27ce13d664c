"""verify: compares values that must be equal along axes of a mesh."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from rankmesh.torch._agree import named
from rankmesh.torch._device_mesh import sizes_of
from rankmesh.torch._errors import Disagreement, UsageError
from rankmesh.torch._init_device_mesh import MeshText
from rankmesh.torch._member import Member

CHUNK = 1 << 22  # elements that are hashed at a time: a hash needs as much memory again
ROW = 1 << 10
MOST_NAMED = 3


def verify(
    values: torch.nn.Module | torch.optim.Optimizer | torch.Tensor | Mapping[str, Any] | Iterable[torch.Tensor],
    mesh: Member | DeviceMesh,
    *,
    over: str | Iterable[str] = (),
) -> None:
    """Raises Disagreement on every rank of the mesh unless values that must be equal along its axes have equal bits.

    Values are the parameters and buffers of a module, the state of an optimizer, tensors by name, or tensors. The
    placements of a DTensor say along which axes of its mesh its parts are equal. Along the axes `over` other tensors
    must be equal, and DTensors whose mesh lacks these axes. Every rank of the mesh calls it. It compares 16 bytes of
    hashes along each axis. The error names the value, the axis, the ranks that differ and the first index.
    """
    places = mesh.device_mesh() if isinstance(mesh, Member) else mesh
    axes = list(places.mesh_dim_names or ())
    given = list(dict.fromkeys([over] if isinstance(over, str) else over))
    for axis in given:
        if axis not in axes:
            raise UsageError(f"verify over '{axis}', but the DeviceMesh is {sizes_of(places)}")
    parts = _parts(values, places, given)
    hashes = [_hash(part.tensor).to(places.device_type) for part in parts]
    differ = False
    for axis in axes:
        mine = [i for i, part in enumerate(parts) if axis in part.axes]
        text = " ".join(f"{parts[i].name} {parts[i].tensor.dtype} {tuple(parts[i].tensor.shape)}" for i in mine)
        shapes = _hash(torch.tensor(list(text.encode()), dtype=torch.uint8)).to(places.device_type)
        combined = _hash(torch.stack([shapes, *(hashes[i] for i in mine)]))
        rows = _gathered(torch.stack([shapes, combined]), places.get_group(axis))
        differ |= bool((rows != rows[0]).any())
    nobody = dist.get_world_size()
    first = torch.tensor(dist.get_rank() if differ else nobody, device=places.device_type)
    for axis in axes:
        dist.all_reduce(first, dist.ReduceOp.MIN, places.get_group(axis))
    if first == nobody:
        return
    found = [each for axis in axes if (each := _explain(parts, hashes, axis, places))]
    ranks = sorted({rank for _, odd in found for rank in odd})
    elsewhere = f"values differ in a group of rank {int(first)}, whose error names them"
    text = "; ".join(text for text, _ in found) or elsewhere
    where = MeshText(places._layout, places._rank_map, axes).where(ranks or [int(first)])
    raise Disagreement(f"{text}{where}", ranks)


@dataclass
class _Part:
    """What this rank holds of a value, and the axes along which all ranks hold the same."""

    name: str
    tensor: torch.Tensor
    axes: frozenset[str]


def _parts(values: Any, places: DeviceMesh, over: list[str]) -> list[_Part]:
    from torch.distributed.tensor import DTensor

    parts = []
    for name, tensor in _named_tensors(values):
        if isinstance(tensor, DTensor):
            names = tensor.device_mesh.mesh_dim_names or ()
            if not set(names) <= set(places.mesh_dim_names or ()):
                raise UsageError(
                    f"'{name}' is a DTensor of the mesh {sizes_of(tensor.device_mesh)}, which is no part of "
                    f"{sizes_of(places)}; pass the mesh of the tensors"
                )
            equal = {axis for axis, placement in zip(names, tensor.placements, strict=True) if placement.is_replicate()}
            parts.append(_Part(name, tensor.to_local(), frozenset(equal.union(over).difference(set(names) - equal))))
        elif over:
            parts.append(_Part(name, tensor, frozenset(over)))
        else:
            raise UsageError(f"'{name}' is a plain tensor; say along which axes it must be equal: over='dp'")
    return parts


def _named_tensors(values: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(values, torch.Tensor):
        yield "tensor", values
    elif isinstance(values, torch.nn.Module):
        yield from itertools.chain(values.named_parameters(), values.named_buffers())
    elif isinstance(values, torch.optim.Optimizer):
        for number, state in values.state_dict()["state"].items():
            yield from ((f"{key} of parameter {number}", each) for key, each in state.items() if torch.is_tensor(each))
    elif isinstance(values, Mapping):
        for name, value in values.items():
            if torch.is_tensor(value):
                yield str(name), value
            elif value is not None:
                raise UsageError(f"'{name}' is a {type(value).__name__}, and verify compares tensors")
    else:
        for number, value in enumerate(values):
            yield from _named_tensors({f"tensor {number}": value})


def _hash(tensor: torch.Tensor) -> torch.Tensor:
    """Returns 64 bits of a tensor's bytes, on its device. Values that differ in one element never have the same."""
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    words = _padded(data, 8).view(torch.int64)
    weights = _mixed(torch.arange(1, ROW + 1, device=data.device)) | 1  # a product with odd numbers keeps differences
    while True:
        words = torch.cat([_row_hashes(chunk, weights) for chunk in torch.split(words, CHUNK)])
        if words.numel() <= 1:
            return words.sum() + data.numel()


def _row_hashes(words: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    rows = _padded(words, ROW)
    rows = rows.view(rows.numel() // ROW, ROW)
    return _mixed(rows.mv(weights) if rows.is_cpu else (rows * weights).sum(1))  # CUDA has no such mv


def _padded(data: torch.Tensor, multiple: int) -> torch.Tensor:
    missing = -data.numel() % multiple
    return torch.nn.functional.pad(data, (0, missing)) if missing else data


def _mixed(value: torch.Tensor) -> torch.Tensor:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), a bijection; `>>` of torch keeps the sign."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        value = (value ^ ((value >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return value


def _gathered(mine: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    rows = torch.empty(group.size(), *mine.shape, dtype=mine.dtype, device=mine.device)
    dist.all_gather(list(rows), mine, group)
    return rows


def _explain(
    parts: list[_Part], hashes: list[torch.Tensor], axis: str, places: DeviceMesh
) -> tuple[str, list[int]] | None:
    """Returns what differs in this rank's group along the axis, and the ranks outside the largest equal set."""
    group = places.get_group(axis)
    ranks = dist.get_process_group_ranks(group)
    mine = [i for i, part in enumerate(parts) if axis in part.axes]
    shapes = {parts[i].name: (str(parts[i].tensor.dtype), tuple(parts[i].tensor.shape)) for i in mine}
    of_all: list[Any] = [None] * len(ranks)
    dist.all_gather_object(of_all, shapes, group)
    if any(each != of_all[0] for each in of_all):
        odd = [rank for rank, each in zip(ranks, of_all, strict=True) if each != of_all[0]]
        names = sorted({name for each in of_all for name, _ in each.items() ^ of_all[0].items()})
        text = f"{named(odd)} along '{axis}' {_have(odd)} other names, types or shapes than rank {ranks[0]}"
        return f"{text}: {_listed(names)}", odd
    if not mine:
        return None
    rows = _gathered(torch.stack([hashes[i] for i in mine]), group)
    wrong = [(i, rows[:, column]) for column, i in enumerate(mine) if (rows[:, column] != rows[0, column]).any()]
    if not wrong:
        return None
    first, values = wrong[0]
    of_ranks = values.tolist()
    common = collections.Counter(of_ranks).most_common(1)[0][0]  # of equally many that of the lowest rank
    odd = [rank for rank, value in zip(ranks, of_ranks, strict=True) if value != common]
    good = of_ranks.index(common)
    text = (
        f"'{parts[first].name}' differs along '{axis}': {named(odd)} {_have(odd)} other values than rank {ranks[good]}"
    )
    text += _first_index(parts[first].tensor, group, good, ranks.index(odd[0]))
    if wrong[1:]:
        text += f"; {_listed([parts[i].name for i, _ in wrong[1:]])} {'differ' if wrong[2:] else 'differs'} too"
    return text, odd


def _first_index(tensor: torch.Tensor, group: dist.ProcessGroup, good: int, odd: int) -> str:
    """Returns where the value of one group rank differs from that of another, and both."""
    flat = tensor.detach().contiguous().reshape(-1)
    of_good = flat.clone().view(torch.uint8)
    dist.broadcast(of_good, group=group, group_src=good)
    differs = (of_good != flat.view(torch.uint8)).view(-1, flat.element_size()).any(1)
    where = int(differs.nonzero()[0]) if differs.any() else 0
    found: list[Any] = [where, flat[where].item()]
    dist.broadcast_object_list(found, group=group, group_src=odd)
    index = [int(each) for each in torch.unravel_index(torch.tensor(found[0]), tensor.shape)]
    ranks = dist.get_process_group_ranks(group)
    value = of_good.view(flat.dtype)[found[0]].item()
    return f"{f', first at {index}' if index else ''}: {found[1]} on rank {ranks[odd]}, {value} on rank {ranks[good]}"


def _have(ranks: list[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
