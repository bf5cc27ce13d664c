"""Layouts of the tensors of a state dict, and views of this rank's shards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.distributed.tensor import DTensor, Partial
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from rankmesh._core import Group, Sharding
from rankmesh._errors import UsageError
from rankmesh.torch._device_mesh import sizes_of
from rankmesh.torch._reshard.plan import Box, Geometry, Layout, Window


@dataclass(frozen=True)
class Fused:
    """A tensor that is the concatenation of named parts along `dim`. Parts are moved by their names.

    With a `Sharding` for each part, each rank's tensor is the concatenation of its shards of the parts, as Megatron
    and vLLM hold QKV and gate/up. With a size for each part, the whole tensor is the concatenation, and is sharded as
    `of` says: a Sharding, or a DTensor. Without `of` it is the DTensor of that name in the state dict.

    >>> Fused({f"{n}_proj": Sharding("tp=2", (8, 4), "0=tp") for n in ("gate", "up")})  # doctest: +SKIP
    >>> Fused({"q_proj": 32, "k_proj": 8, "v_proj": 8})  # doctest: +SKIP
    """

    parts: Mapping[str, Sharding | int]
    dim: int = 0
    of: Sharding | DTensor | None = None

    @property
    def has_sizes(self) -> bool:
        """True if a part has a size rather than a Sharding."""
        return any(isinstance(part, int) for part in self.parts.values())


Stated: TypeAlias = Sharding | Fused | DTensor


class Shard(NamedTuple):
    """This rank's elements of a part: a view whose index is the index of the part less `origin`."""

    view: torch.Tensor
    origin: tuple[int, ...]

    def at(self, box: Box) -> torch.Tensor:
        """Returns the view of a box, which this rank holds."""
        pairs = zip(box, self.origin, strict=True)
        return self.view[tuple(slice(begin - first, end - first) for (begin, end), first in pairs)]


class Layouts:
    """Makes each layout and its geometry once."""

    def __init__(self) -> None:
        self._known: dict[Layout, Layout] = {}
        self._geometries: dict[int, Geometry] = {}
        self._by_text: dict[object, Layout] = {}
        self._meshes: dict[object, tuple[int, ...]] = {}
        self._texts: dict[Layout, str] = {}

    def one(self, layout: Layout) -> Layout:
        """Returns the first layout that was equal to this one."""
        return self._known.setdefault(layout, layout)

    def name(self, layout: Layout, text: str) -> Layout:
        """Returns `one` of a layout, which errors call by this text."""
        self._texts.setdefault(layout._replace(window=None), text)
        return self.one(layout)

    def text(self, layout: Layout) -> str:
        """Returns '4x3 over tp=2 @2, 0=tp': a layout in errors."""
        shape = "x".join(map(str, layout.shape))
        return self._texts.get(layout._replace(window=None)) or f"{shape} on every rank of {Group(layout.ranks)}"

    def geometry(self, layout: Layout) -> Geometry:
        """Returns the geometry of a layout that `one` returned."""
        if id(layout) not in self._geometries:
            self._geometries[id(layout)] = Geometry(layout)
        return self._geometries[id(layout)]

    def of_sharding(self, name: str, sharding: Sharding) -> Layout:
        mesh, split, shape = sharding.mesh, sharding.split, sharding.shape
        key = mesh, split, shape
        if key not in self._by_text:
            cuts: list[tuple[int, ...]] = [()] * len(shape)
            multiples = [1] * len(shape)
            for word in split.split() if split != "replicated" else []:
                dim, _, axes = word.partition("=")
                if dim == "sum":
                    raise _partial(name, f"the split '{split}'")
                axes, _, padding = axes.partition(":megatron")
                cuts[int(dim)] = tuple(mesh.axes.index(axis) for axis in axes.split(","))
                if ":megatron" in word:
                    multiples[int(dim)] = int(padding or 128)
            if mesh not in self._meshes:
                self._meshes[mesh] = tuple(mesh.ranks)
            layout = Layout(self._meshes[mesh], tuple(mesh.shape), tuple(shape), tuple(cuts), tuple(multiples))
            self._by_text[key] = self.name(layout, str(sharding).removeprefix("<Sharding of ").removesuffix(">"))
        return self._by_text[key]

    def of_dtensor(self, name: str, tensor: DTensor) -> Layout:
        mesh, placements, spec = tensor.device_mesh, tensor.placements, tensor._spec
        key = id(mesh), placements, spec.shard_order, tensor.shape
        if key not in self._by_text:
            if any(isinstance(placement, Partial) for placement in placements):
                raise _partial(name, f"the placements {list(placements)}")
            if spec.use_strided_shard_as_shard_order:
                order = DTensorSpec._maybe_convert_StridedShard_to_shard_order(placements, mesh)
            else:
                order = spec.shard_order
            if order is None:
                raise UsageError(
                    f"'{name}' has the placements {list(placements)}, which are not an order of cuts along the mesh; "
                    "redistribute it to Shard and Replicate"
                )
            cuts: list[tuple[int, ...]] = [()] * tensor.ndim
            for entry in order:
                cuts[entry.tensor_dim] = tuple(entry.mesh_dims)
            ranks = self._meshes.setdefault(id(mesh), tuple(mesh.mesh.flatten().tolist()))
            layout = Layout(ranks, tuple(mesh.shape), tuple(tensor.shape), tuple(cuts), (1,) * tensor.ndim)
            size = "x".join(map(str, tensor.shape))
            text = f"{size} over DeviceMesh {sizes_of(mesh)} of ranks {Group(ranks)}, {list(placements)}"
            self._by_text[key] = self.name(layout, text)
        return self._by_text[key]


def stated_twice(name: str) -> UsageError:
    return UsageError(f"'{name}' is stated twice; give each part a name of its own")


def _partial(name: str, what: str) -> UsageError:
    return UsageError(f"'{name}' has {what}: its ranks hold partial sums, which reshard does not add; sum them first")


@dataclass
class Side:
    """What this rank states about the tensors before, or after, the move."""

    layouts: Layouts
    rank: int
    parts: dict[str, Layout] = field(default_factory=dict)
    dtypes: dict[str, torch.dtype | None] = field(default_factory=dict)
    shards: dict[str, Shard] = field(default_factory=dict)

    def _add(self, name: str, layout: Layout, dtype: torch.dtype | None, shard: torch.Tensor | None) -> None:
        if name in self.parts:
            raise stated_twice(name)
        self.parts[name], self.dtypes[name] = layout, dtype
        if shard is not None:
            geometry = self.layouts.geometry(layout)
            origin = [begin for begin, _ in geometry.whole(geometry.chunk(self.rank))]
            if layout.window is not None:
                origin[layout.window.dim] -= layout.window.begin
            self.shards[name] = Shard(shard, tuple(origin))

    def shape(self, layout: Layout) -> tuple[int, ...] | None:
        """Returns the shape of this rank's shard of a whole tensor; None outside the mesh."""
        geometry = self.layouts.geometry(layout)
        if self.rank not in geometry:
            return None
        return tuple(end - begin for begin, end in geometry.whole(geometry.chunk(self.rank)))

    def of(self, name: str, stated: Stated, tensor: Any) -> Layout:
        """Returns the layout of a whole tensor that is stated by a Sharding, or by a DTensor."""
        if isinstance(stated, Fused):
            stated = stated.of if stated.of is not None else tensor
        if isinstance(stated, DTensor):
            return self.layouts.of_dtensor(name, stated)
        if isinstance(stated, Sharding):
            return self.layouts.of_sharding(name, stated)
        if stated is None or isinstance(stated, torch.Tensor):
            raise UsageError(f"'{name}' is fused of parts with sizes, and no layout is stated; pass a Sharding as `of`")
        raise UsageError(f"'{name}' is stated by {type(stated).__name__}; state it by a Sharding, a Fused or a DTensor")

    def local_shape(self, name: str, stated: Stated, tensor: Any = None) -> tuple[int, ...] | None:
        """Returns the shape of this rank's tensor, as it is stated; None outside the mesh."""
        if not isinstance(stated, Fused) or stated.has_sizes:
            return self.shape(self.of(name, stated, tensor))
        shapes = [self.shape(layout) for layout in self._sharded(name, stated).values()]
        inside = [shape for shape in shapes if shape is not None]
        if not inside:
            return None
        rest = {(*shape[: stated.dim], *shape[stated.dim + 1 :]) for shape in inside}
        if len(inside) < len(shapes) or len(rest) > 1:
            raise UsageError(
                f"the parts of '{name}' have the shapes {list(map(list, inside))} on rank {self.rank}, which cannot be "
                f"joined along dimension {stated.dim}; only that dimension may differ, and no part may lack this rank"
            )
        joined = sum(shape[stated.dim] for shape in inside)
        return (*inside[0][: stated.dim], joined, *inside[0][stated.dim + 1 :])

    def _sharded(self, name: str, fused: Fused) -> dict[str, Layout]:
        layouts = {}
        for part, sharding in fused.parts.items():
            if not isinstance(sharding, Sharding):
                raise _wrong(name, part, sharding)
            layouts[part] = self.layouts.of_sharding(part, sharding)
            if not 0 <= fused.dim < len(layouts[part].shape):
                raise UsageError(
                    f"'{name}' is joined along dimension {fused.dim}, but its part '{part}' has the shape "
                    f"{list(layouts[part].shape)}; give a dimension that all parts have"
                )
        if fused.of is not None:
            raise UsageError(f"'{name}' is fused of parts with a Sharding each, and `of`; leave `of` out")
        return layouts

    def parts_of(self, name: str, stated: Stated, tensor: Any) -> dict[str, Layout]:
        """Returns the layout of each part of a tensor."""
        if isinstance(stated, Fused) and not stated.has_sizes:
            return self._sharded(name, stated)
        whole = self.of(name, stated, tensor)
        if not isinstance(stated, Fused):
            return {name: whole}
        begin, layouts = 0, {}
        for part, size in stated.parts.items():
            if not isinstance(size, int):
                raise _wrong(name, part, size)
            layouts[part] = self.layouts.one(whole._replace(window=Window(stated.dim, begin, begin + size)))
            begin += size
        if not 0 <= stated.dim < len(whole.shape) or whole.shape[stated.dim] != begin:
            raise UsageError(
                f"the parts of '{name}' have {begin} rows together, but its shape is {list(whole.shape)}; "
                f"the sizes must add up to dimension {stated.dim}"
            )
        return layouts

    def state(self, name: str, stated: Stated, tensor: torch.Tensor | None, dtype: torch.dtype | None) -> None:
        """Adds the parts of a tensor. `tensor` is this rank's shard, or a DTensor; None outside the mesh."""
        parts = self.parts_of(name, stated, tensor)
        shape = self.local_shape(name, stated, tensor)
        shard = None
        if shape is not None:
            if tensor is None:
                raise UsageError(f"rank {self.rank} is in the mesh of '{name}' and has no such tensor; pass it")
            shard = _viewed(name, self.rank, tensor, shape)
        begin = 0
        for part, layout in parts.items():
            view = shard
            if shard is not None and isinstance(stated, Fused) and not stated.has_sizes:
                size = (self.shape(layout) or ())[stated.dim]
                view, begin = shard.narrow(stated.dim, begin, size), begin + size
            self._add(part, layout, dtype, view)


def _wrong(name: str, part: str, stated: object) -> UsageError:
    if isinstance(stated, Sharding | int):
        return UsageError(f"'{name}' is fused of parts with a size and parts with a Sharding; give all a size, or none")
    kind = type(stated).__name__
    remedy = f"list its parts in the Fused of '{name}'" if isinstance(stated, Fused) else "state it by one of these"
    return UsageError(f"the part '{part}' of '{name}' is a {kind}; a part is a Sharding or a size, so {remedy}")


def _viewed(name: str, rank: int, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    local = (tensor._local_tensor if isinstance(tensor, DTensor) else tensor).detach()
    if isinstance(tensor, DTensor) and tuple(local.shape) != shape and local.numel() + math.prod(shape) > 0:
        raise UsageError(
            f"'{name}' has a shard of {list(local.shape)} on rank {rank}, but its placements say {list(shape)}; "
            "redistribute it to Shard and Replicate"
        )
    if local.numel() != math.prod(shape):
        raise UsageError(
            f"'{name}' has {local.numel()} elements on rank {rank} (shape {list(local.shape)}), but its layout says "
            f"{math.prod(shape)} (shape {list(shape)}); pass this rank's shard"
        )
    if tuple(local.shape) == shape:
        return local
    if not local.is_contiguous():
        raise UsageError(f"'{name}' is not contiguous, so it cannot be seen as {list(shape)}; pass x.contiguous()")
    return local.view(shape)


def held(state_dict: Mapping[str, Any], from_: Mapping[str, Sharding | Fused], rank: int, layouts: Layouts) -> Side:
    """Returns what this rank has. A plain tensor that `from_` does not state is replicated over the ranks of the
    DTensors."""
    side = Side(layouts, rank)
    replicated: Layout | None = None
    for name, tensor in state_dict.items():
        if not isinstance(tensor, torch.Tensor):
            raise UsageError(f"'{name}' is {type(tensor).__name__}, not a tensor; pass a flat state dict without it")
        if (stated := from_.get(name)) is not None:
            side.state(name, stated, tensor, tensor.dtype)
        elif isinstance(tensor, DTensor):
            side.state(name, tensor, tensor, tensor.dtype)
        else:
            replicated = replicated or _of_all(name, state_dict.values(), layouts)
            shape = tuple(tensor.shape)
            layout = replicated._replace(shape=shape, cuts=((),) * len(shape), multiples=(1,) * len(shape))
            side._add(name, layouts.one(layout), tensor.dtype, tensor.detach())
    for name, stated in from_.items():
        if name not in state_dict:
            side.state(name, stated, None, None)
    return side


def _of_all(name: str, tensors: Iterable[Any], layouts: Layouts) -> Layout:
    meshes = {layouts.of_dtensor(name, each).ranks for each in tensors if isinstance(each, DTensor)}
    if len({frozenset(ranks) for ranks in meshes}) != 1:
        others = f"its DTensors are on {len(meshes)} meshes of other ranks" if meshes else "it has no DTensor"
        raise UsageError(
            f"'{name}' is a plain tensor, and the state dict does not say which ranks hold it: {others}; "
            f"state it in from_, as in from_={{'{name}': Sharding(mesh, shape)}}"
        )
    ranks = tuple(sorted(meshes.pop()))
    return Layout(ranks, (len(ranks),), (), (), ())
