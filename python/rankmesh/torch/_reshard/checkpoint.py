"""Rewrites a checkpoint of torch.distributed.checkpoint for other meshes, tensor by tensor, in one process."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, cast

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, ReadItem
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.tensor import DTensor

from rankmesh._core import Sharding
from rankmesh._errors import UsageError
from rankmesh.torch._reshard.describe import Fused, Layouts, Side, windows
from rankmesh.torch._reshard.layout import Box, Layout, Window


class _Chunk(NamedTuple):
    """A chunk of the new checkpoint: a box of a tensor. Without a box, the chunk is bytes."""

    name: str
    box: Box | None


class _Place(NamedTuple):
    """A tensor of the old checkpoint, or a part of it, that is rows of a tensor of the new checkpoint."""

    name: str  # of the old tensor
    window: Window | None  # the part's rows in the old tensor
    dim: int  # of the new tensor
    begin: int  # the first row in the new tensor


class _Reads(DefaultLoadPlanner):
    """Copies what is read into one tensor, or keeps the bytes."""

    def __init__(self, tensor: torch.Tensor | None = None) -> None:
        super().__init__()
        self.tensor, self.bytes = tensor, io.BytesIO()

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        self.bytes = value

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        assert self.tensor is not None
        begins, sizes = read_item.dest_offsets, read_item.lengths
        return self.tensor[tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))]

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None: ...


class _Source:
    """The old checkpoint, and where the rows of each new tensor lie in it."""

    def __init__(self, path: str | os.PathLike[str], from_: Mapping[str, Fused]) -> None:
        self.reader = FileSystemReader(path)
        self.metadata: Metadata = self.reader.read_metadata()
        self.reader.set_up_storage_reader(self.metadata, is_coordinator=True)
        self.entries = self.metadata.state_dict_metadata
        self.taken: set[str] = set()
        self._parts: dict[str, tuple[str, Window]] = {}
        for name, fused in from_.items():
            shape = tuple(self.tensor(name).size)
            for part, window in _rows(name, fused, shape).items():
                self._parts[part] = name, window

    def tensor(self, name: str) -> TensorStorageMetadata:
        entry = self.entries.get(name)
        if not isinstance(entry, TensorStorageMetadata):
            raise UsageError(f"'{name}' is not a tensor of the checkpoint {self.reader.path}; give a name that it has")
        return entry

    def place(self, name: str, dim: int = 0, begin: int = 0) -> _Place:
        """Returns where a part, or a tensor, lies; it goes to the rows from `begin` on of the new tensor."""
        old, window = self._parts.get(name, (name, None))
        self.taken.add(old)
        return _Place(old, window, dim, begin)

    def shape(self, place: _Place) -> tuple[int, ...]:
        whole = tuple(self.tensor(place.name).size)
        return Layout((), (), whole, (), (), place.window).part

    def read(self, places: list[_Place], box: Box) -> torch.Tensor:
        """Returns the elements of a box of the new tensor. Reads one chunk of the old checkpoint after another."""
        out = torch.empty([end - begin for begin, end in box], dtype=self.tensor(places[0].name).properties.dtype)
        for place in places:
            begins, target = [begin for begin, _ in box], out
            if box:
                dim, (low, high) = place.dim, box[place.dim]
                begin, end = max(low, place.begin), min(high, place.begin + self.shape(place)[dim])
                if begin >= end:
                    continue
                begins[dim], target = begin - place.begin, out.narrow(dim, begin - low, end - begin)
            if place.window is not None:
                begins[place.window.dim] += place.window.begin
            chunk = ChunkStorageMetadata(torch.Size(begins), target.size())
            items = create_read_items_for_chunk_list(place.name, self.tensor(place.name), [chunk])
            if sum(math.prod(item.lengths) for item in items) != target.numel():
                raise UsageError(f"the checkpoint {self.reader.path} lacks elements of '{place.name}'; save it again")
            self.reader.read_data(LoadPlan(items), _Reads(target)).wait()
        return out

    def bytes(self, name: str) -> io.BytesIO:
        zero = torch.Size([0])
        item = ReadItem(LoadItemType.BYTE_IO, MetadataIndex(name), zero, MetadataIndex(name), zero, zero)
        reads = _Reads()
        self.reader.read_data(LoadPlan([item]), reads).wait()
        return reads.bytes


def _rows(name: str, fused: Fused, shape: tuple[int, ...]) -> dict[str, Window]:
    if not fused.has_sizes:
        raise UsageError(f"'{name}' is fused of Shardings, which a checkpoint cannot say; give each part a size")
    return windows(name, fused, shape)


def _places(source: _Source, name: str, stated: Sharding | Fused | DTensor, layout: Layout) -> list[_Place]:
    if isinstance(stated, Fused):
        rows = _rows(name, stated, layout.shape)
        places = [source.place(part, window.dim, window.begin) for part, window in rows.items()]
        wanted = [layout._replace(window=window).part for window in rows.values()]
    else:
        places, wanted = [source.place(name)], [layout.shape]
    for place, shape in zip(places, wanted, strict=True):
        if source.shape(place) != shape:
            raise UsageError(
                f"'{place.name}' has the shape {list(source.shape(place))} in the checkpoint and is wanted with "
                f"{list(shape)}; state the shape of the checkpoint"
            )
    dtypes = {source.tensor(place.name).properties.dtype for place in places}
    if len(dtypes) > 1:
        raise UsageError(f"the parts of '{name}' have the dtypes {dtypes}; a tensor has one")
    return places


def reshard_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: Mapping[str, Sharding | Fused | DTensor],
    *,
    from_: Mapping[str, Fused] | None = None,
) -> None:
    """Rewrites a checkpoint of torch.distributed.checkpoint so that its chunks are the shards of other meshes.

    Runs in one process, without torch.distributed. `to` states the tensors' new layouts. A Fused with sizes and `of`
    joins tensors, and a Fused with sizes in `from_` divides them. All else is copied unchanged, into the file of the
    first rank. The new checkpoint has one file for each rank. A chunk that several ranks hold is in the file of one
    of them, in turn.

    Uses memory for one chunk of the new checkpoint and one of the old.

    Raises UsageError if the target has a checkpoint, and for names and shapes that the old checkpoint does not have.

        to = {"w": Sharding("tp=8", (4096, 4096), "0=tp")}
        rankmesh.torch.reshard_checkpoint("trained", "for_rollout", to)
    """
    writer = FileSystemWriter(target)
    if os.path.exists(os.path.join(target, ".metadata")):
        raise UsageError(f"{os.fspath(target)} has a checkpoint already; give another folder")
    if not os.path.exists(os.path.join(source, ".metadata")):
        raise UsageError(f"{os.fspath(source)} has no checkpoint: there is no file .metadata in this folder")
    old, side = _Source(source, from_ or {}), Side(Layouts(), 0)
    files: dict[int, list[_Chunk]] = {}
    entries: dict[str, Any] = {}
    places: dict[str, list[_Place]] = {}
    for turn, (name, stated) in enumerate(to.items()):
        if isinstance(stated, Fused) and stated.of is None:
            raise UsageError(f"'{name}' is fused without `of`, which a checkpoint needs; say its Sharding in `of`")
        layout = side.of(name, stated, None)
        places[name] = _places(old, name, stated, layout)
        geometry, everything = side.layouts.geometry(layout), tuple((0, size) for size in layout.shape)
        chunks = [(box, geometry.holders(chunk)) for chunk, box in geometry.cover(everything)]
        for i, (box, holders) in enumerate(chunks):
            files.setdefault(holders[(turn + i) % len(holders)], []).append(_Chunk(name, box))
        entries[name] = _entry(old, places[name], layout.shape, [box for box, _ in chunks])
    rest = files.setdefault(min(files, default=0), [])
    for name in sorted(set(old.entries) - old.taken):
        if name in entries:
            raise UsageError(f"'{name}' is made of parts, but the checkpoint has it too; give it another name")
        entry = entries[name] = old.entries[name]
        if isinstance(entry, TensorStorageMetadata):
            places[name] = [_Place(name, None, 0, 0)]
            rest += [_Chunk(name, _box(chunk)) for chunk in entry.chunks]
        else:
            rest.append(_Chunk(name, None))
    writer.fs.mkdir(writer.path)
    results = [_write(writer, rank, chunks, old, places) for rank, chunks in sorted(files.items())]
    writer.finish(Metadata(entries, planner_data=old.metadata.planner_data), results)


def _box(chunk: ChunkStorageMetadata) -> Box:
    return tuple((begin, begin + size) for begin, size in zip(chunk.offsets, chunk.sizes, strict=True))


def _entry(old: _Source, places: list[_Place], shape: tuple[int, ...], boxes: list[Box]) -> TensorStorageMetadata:
    chunks = [
        ChunkStorageMetadata(torch.Size([b for b, _ in box]), torch.Size([e - b for b, e in box])) for box in boxes
    ]
    return TensorStorageMetadata(old.tensor(places[0].name).properties, torch.Size(shape), chunks)


def _write(
    writer: FileSystemWriter, rank: int, chunks: list[_Chunk], old: _Source, places: dict[str, list[_Place]]
) -> list[WriteResult]:
    results, file = [], f"__{rank}_0.distcp"
    with writer.fs.create_stream(writer.fs.concat_path(writer.path, file), "wb") as stream:
        for name, box in chunks:
            begin = stream.tell()
            if box is None:
                stream.write(old.bytes(name).getbuffer())
                index = MetadataIndex(name)
            else:
                torch.save(old.read(places[name], box), cast(IO[bytes], stream))
                index = MetadataIndex(name, [first for first, _ in box])
            size = stream.tell() - begin
            results.append(WriteResult(index=index, size_in_bytes=size, storage_data=_StorageInfo(file, begin, size)))
        os.fsync(stream.fileno())
    return results
