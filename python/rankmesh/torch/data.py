"""Samples and random seeds by coordinate, independent of the layout of the mesh.

>>> sampler = rankmesh.torch.data.Sampler(dataset, me, over="dp")  # doctest: +SKIP
>>> loader = StatefulDataLoader(dataset, batch_size=8, sampler=sampler)  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeAlias

import torch
import torch.utils.data
from torch.distributed.device_mesh import DeviceMesh

from rankmesh._core import Mesh, Placement
from rankmesh._errors import UsageError, UsageTypeError
from rankmesh._world import of_torch
from rankmesh.torch._member import Member

__all__ = ["Sampler", "fork_rng", "seed"]

Places: TypeAlias = Member | DeviceMesh | Mesh | Placement


class Sampler(torch.utils.data.Sampler[int]):
    """Deals the samples of a data set out along axes of a mesh, each sample once an epoch, in a global order that does
    not depend on the mesh.

    The order is that of torch's `DistributedSampler`: `randperm` seeded by `seed` plus the epoch. In round k, the rank
    with index i of n along `over`, in the order of the mesh, takes sample k * n + i. Ranks that differ only along other
    axes take the same samples. `over` may be one axis or several. `mesh` is a `Member` of init or a DeviceMesh; for a
    `Mesh` or a `Placement`, `rank` is a world rank, by default that of torch.distributed.

    If n does not divide the number of samples, `drop_last` decides, as for `DistributedSampler`: True drops fewer than
    n samples, False repeats fewer than n. The default, None, does neither: some ranks get one sample less.

    The state holds a position in the global order. A sampler of another mesh continues there, with any batch size.
    Raises UsageError for an unknown axis, and for a rank outside the mesh.

    >>> mesh = Mesh("dp=2 tp=2")
    >>> [list(Sampler(range(5), mesh, "dp", rank=rank, shuffle=False)) for rank in range(4)]
    [[0, 2, 4], [0, 2, 4], [1, 3], [1, 3]]
    """

    def __init__(
        self,
        dataset: Sized,
        mesh: Places,
        over: str | Iterable[str] = "dp",
        *,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool | None = None,
    ) -> None:
        self._index, self._count = 0, 1
        for _, index, size in _coordinate("Sampler", mesh, over, rank):
            self._index, self._count = self._index * size + index, self._count * size
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0
        self._start = 0  # position in the global order at which the next iteration begins
        self._position = 0  # up to which all ranks have read it

    def __iter__(self) -> Iterator[int]:
        self._position = self._start  # which the iterator resets: torch's loaders ask for several and use the last
        return self._run()

    def _run(self) -> Iterator[int]:
        start, self._start, length = self._start, 0, len(self.dataset)
        order = torch.arange(length)
        if self.shuffle:
            order = torch.randperm(length, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        rounds = torch.arange(self._rounds(length - start)) * self._count
        for done, sample in enumerate(order[(start + self._index + rounds) % max(length, 1)].tolist(), 1):
            self._position = min(start + done * self._count, length)
            yield sample
        self._position = length

    def _rounds(self, left: int) -> int:
        """Returns how many of the last samples of the order this rank takes."""
        if self.drop_last is None:
            return len(range(self._index, left, self._count))
        return left // self._count if self.drop_last else math.ceil(left / self._count)

    def __len__(self) -> int:
        """The number of samples that this rank takes in a whole epoch."""
        return self._rounds(len(self.dataset))

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, whose order all ranks read next. Continues a loaded state if that is of the same epoch."""
        if epoch != self.epoch:
            self.epoch, self._start, self._position = epoch, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the epoch and the position up to which all ranks have read it, if all have taken equally many
        samples.

        The state is then equal on all ranks. Only if an epoch ends with a remainder that is neither dropped nor
        repeated, the first rank along `over` is ahead: keep the state of that rank. A `DataLoader` with workers takes
        samples ahead of the program; `StatefulDataLoader` of torchdata knows the state of the batch that it returned.
        """
        return {"epoch": self.epoch, "position": self._position, **self._order_of()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at the position of a state. Raises UsageError if its order has another length or seed.

        After `set_epoch` of a later epoch, the state of a finished epoch changes nothing.
        """
        if not {"epoch", "position", *self._order_of()} <= state.keys():
            raise UsageError(f"the state has the keys {sorted(state)}; pass what state_dict of a Sampler returned")
        told = {key: state[key] for key in self._order_of()}
        if told != self._order_of():
            raise UsageError(
                f"the state is of the order {_text(told)}, this Sampler's is {_text(self._order_of())}; "
                "make the Sampler with the data set, seed and shuffle of the state"
            )
        if state["position"] == state["length"] and self.epoch > state["epoch"]:
            return
        self.epoch = state["epoch"]
        self._start = self._position = state["position"]

    def _order_of(self) -> dict[str, Any]:
        return {"length": len(self.dataset), "seed": self.seed, "shuffle": self.shuffle}


def seed(
    base: int,
    mesh: Places | None = None,
    distinct: str | Iterable[str] = (),
    *,
    rank: int | None = None,
    **at: int | str,
) -> int:
    """Returns a seed, from 0 to 2^63 - 1, that differs along the axes `distinct` of a mesh, and is equal along all
    others.

    It is a hash of `base`, this rank's index on each axis of `distinct`, and the names and values of `at`, such as a
    step or a layer. So it does not depend on the sizes of axes, on other axes, or on any order. An index may also be
    given in `at`. Raises UsageError for an unknown axis, and if a name is in `distinct` and in `at`.

    >>> mesh = Mesh("dp=2 tp=2")
    >>> [seed(1, mesh, "dp", rank=rank, step=7) == seed(1, dp=0, step=7) for rank in range(4)]
    [True, True, False, False]
    """
    names: dict[str, int | str] = {
        name: value if isinstance(value, str) else operator.index(value) for name, value in at.items()
    }
    if mesh is not None:
        for axis, index, _ in _coordinate("seed", mesh, distinct, rank):
            if axis in names:
                raise UsageError(f"seed was given '{axis}' in distinct and as {axis}={names[axis]}; give it once")
            names[axis] = index
    elif distinct:
        raise UsageError(f"seed was given distinct={distinct!r} without a mesh; pass the mesh of these axes")
    text = json.dumps([operator.index(base), sorted(names.items())])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


@contextlib.contextmanager
def fork_rng(seed: int) -> Iterator[None]:
    """A context in which torch draws from this seed, on the host and on the current device; afterwards it draws as if
    the context had drawn nothing.

    Nothing is kept between contexts: with equal seeds they draw equal numbers, also when
    `torch.utils.checkpoint` computes the context again.

    >>> with fork_rng(seed(1, me, ("dp", "tp"), step=step, layer=3)):  # doctest: +SKIP
    ...     hidden = torch.nn.functional.dropout(hidden, 0.1)
    """
    device = torch.accelerator.current_accelerator(check_available=True)
    devices = [] if device is None else [torch.accelerator.current_device_index()]
    with torch.random.fork_rng(devices=devices, device_type="cuda" if device is None else device.type):
        torch.default_generator.manual_seed(seed)
        if device is not None:
            torch.get_device_module(device).manual_seed(seed)
        yield


def _text(order: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in order.items())


def _coordinate(what: str, mesh: Places, axes: str | Iterable[str], rank: int | None) -> list[tuple[str, int, int]]:
    """Returns axes in the order of the mesh, with the index of a rank on each and the size of each."""
    names = [axes] if isinstance(axes, str) else list(axes)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{what} was given axis '{repeated[0]}' twice; name each axis once")
    if isinstance(mesh, Member | DeviceMesh) and rank is not None:
        kind = type(mesh).__name__
        raise UsageError(f"{what} was given rank={rank} with a {kind}, which has a rank; leave rank out or pass a Mesh")
    if isinstance(mesh, Member):
        return [(name, mesh.at(name), mesh.mesh.size_of(name)) for name in _sorted(names, mesh.mesh.axes)]
    if isinstance(mesh, DeviceMesh):
        if mesh.get_coordinate() is None:
            raise UsageError(f"{what} was called on rank {mesh.get_rank()}, which is outside {mesh}")
        parts = [(name, mesh[name]) for name in _sorted(names, mesh.mesh_dim_names or ())]
        return [(name, part.get_local_rank(), part.size()) for name, part in parts]
    if not isinstance(mesh, Mesh | Placement):
        raise UsageTypeError(
            f"{what} was given a mesh of type {type(mesh).__name__}; pass a Member of rankmesh.torch.init, a "
            "DeviceMesh, a Mesh or a Placement"
        )
    if rank is None:
        if (world := of_torch()) is None:
            raise UsageError(f"{what} does not know which rank asks; give rank=, or initialise torch.distributed first")
        rank = world[0]
    sizes = mesh if isinstance(mesh, Mesh) else mesh.mesh
    return [(name, mesh.index(rank, name), sizes.size_of(name)) for name in _sorted(names, sizes.axes)]


def _sorted(names: list[str], axes: tuple[str, ...]) -> list[str]:
    """Sorts names like the axes. Names that are no axes come last, such as flattened dimensions of a DeviceMesh."""
    return sorted(names, key=lambda name: axes.index(name) if name in axes else len(axes))
