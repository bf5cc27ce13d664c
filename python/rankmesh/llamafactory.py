"""LlamaFactory's v1/accelerator/interface.py: a model mesh and a data mesh over the same ranks.

In a process that a launcher started they are torch's DeviceMeshes. With `rank=5, world_size=8` they need no process,
and are those of that rank.
"""

from __future__ import annotations

import datetime
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import InitVar, asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh
from rankmesh._enums import StrEnum
from rankmesh._errors import UsageError
from rankmesh._frameworks import rows
from rankmesh._install import installer
from rankmesh._llamafactory import Answers
from rankmesh._originals import FrameworkError, original, raises
from rankmesh._world import of_torch

if TYPE_CHECKING:
    from rankmesh.torch._named import NamedGroups


def _environment() -> tuple[int | None, int, int, int]:
    """RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE of the launcher; None where RANK is not set."""

    def number(name: str, otherwise: Any) -> Any:
        text = os.environ.get(name)
        if text is not None and not text.removeprefix("-").isdecimal():
            raise original(ValueError, f"{name}={text!r} is no whole number", "argument")
        return otherwise if text is None else int(text)

    return number("RANK", None), number("WORLD_SIZE", 1), number("LOCAL_RANK", 0), number("LOCAL_WORLD_SIZE", 1)


def _kind(error: FrameworkError) -> type[Exception]:
    """A size below 1 is Python's own error in the original, or torch's."""
    if "sizes are 1 or more" in str(error):
        return ZeroDivisionError if " is 0;" in str(error) else RuntimeError
    return RuntimeError if error.fault == "out of range" else ValueError


_MESHES = "model_device_mesh", "data_device_mesh"


class Dim(StrEnum):
    """The dimensions of both meshes."""

    MP_REPLICATE = "mp_replicate"
    MP_SHARD = "mp_shard"
    DP = "dp"
    CP = "cp"


class ReduceOp(StrEnum):
    """How all_reduce combines."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


@dataclass
class DistributedStrategy:
    """The sizes of both meshes; those not given follow from the world.

    The world is that of RANK and WORLD_SIZE in the environment, or of `world_size`.

    >>> DistributedStrategy(cp_size=2, world_size=8).data_mesh_shape
    (4, 2)
    """

    mp_replicate_size: int = 1
    mp_shard_size: int | None = None
    dp_size: int | None = None
    cp_size: int = 1
    world_size: InitVar[int | None] = field(default=None, kw_only=True)

    @raises(_kind)
    def __post_init__(self, world_size: int | None) -> None:
        if world_size is None:
            rank, of_launcher, *_ = _environment()
            world_size = None if rank is None else of_launcher
        if world_size is None:
            self.mp_shard_size = self.dp_size = 1
            return
        self.dp_size = rows.Groups("llamafactory", asdict(self), world_size).mesh.size_of("dp")
        self.mp_shard_size = world_size // self.mp_replicate_size

    model_mesh_shape = property(
        lambda self: (self.mp_replicate_size, self.mp_shard_size), doc="The model mesh's sizes."
    )
    data_mesh_shape = property(lambda self: (self.dp_size, self.cp_size), doc="The sizes of the data mesh.")
    model_mesh_dim_names = property(lambda self: ("mp_replicate", "mp_shard"), doc="The names of its dimensions.")
    data_mesh_dim_names = property(lambda self: ("dp", "cp"), doc="The names of its dimensions.")


class DistributedInterface(Answers):
    """What LlamaFactory's interface knows of one rank, under its names.

    Without `rank` it is that of this process, by the launcher's environment, and one object: the first call makes it.
    Where that says RANK and MASTER_ADDR, it initialises torch.distributed unless that is done, makes torch's meshes
    with all processes, and its collectives are torch's. With `rank` and `world_size` each call makes an interface of
    that rank, without a process.

    >>> DistributedInterface({"cp_size": 2}, rank=5, world_size=8).get_group(Dim.CP)
    Group('{4, 5}')
    """

    _instance: DistributedInterface | None = None
    _initialized: bool = False

    strategy: DistributedStrategy
    current_accelerator: str = "cpu"
    """What device the tensors of a process live on, for the text."""
    device_count: int = 1
    _live: NamedGroups | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> DistributedInterface:  # noqa: PYI034 (one object)
        if kwargs.get("rank") is not None or kwargs.get("world_size") is not None:
            return super().__new__(cls)
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    @raises(_kind)
    def __init__(
        self,
        training_args: Any = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int = 0,
        local_world_size: int = 1,
    ) -> None:
        if self._initialized:
            return
        if (rank is None) != (world_size is None):
            raise UsageError("DistributedInterface was given one of rank and world_size; give both")
        of_launcher = rank is None
        self._rank, self._world_size, local_rank, local_world_size = (
            _environment() if of_launcher else (rank, world_size, local_rank, local_world_size)
        )
        # An object has the settings, or a mapping as in older versions.
        setting = training_args.get if isinstance(training_args, Mapping) else partial(getattr, training_args)
        self.timeout = setting("dist_timeout", setting("timeout", 18000))
        sizes = {each.name: setting(each.name, each.default) for each in fields(DistributedStrategy)}
        self._kept: dict[str, Any] = {"get_local_rank": local_rank, "get_local_world_size": local_world_size}
        live = of_launcher and self._rank is not None and (of_torch() is not None or "MASTER_ADDR" in os.environ)
        (self._connect if live else self._shape)(sizes)
        self._initialized = True

    def _shape(self, sizes: dict[str, Any]) -> None:
        """Says who stands where, which no process is asked."""
        self._state = rows.State("llamafactory")
        self.strategy = DistributedStrategy(**sizes, world_size=None if self._rank is None else self._world_size)
        if self._rank is not None and self._world_size is not None:
            self._state.enter(self._rank, self._world_size)
            self._state.initialize(asdict(self.strategy))
            self._kept |= {name: DeviceMesh(self._state.ask(name)[0], "cpu") for name in _MESHES}

    def _connect(self, sizes: dict[str, Any]) -> None:
        """Makes torch's meshes of this process, whose groups are made with those of all processes."""
        import torch
        import torch.distributed as dist

        from rankmesh.torch._named import device_meshes, errors_reach_peers

        self._dist: Any = dist
        device = self.current_device
        if device.type != "cpu":
            torch.accelerator.set_device_index(self.get_local_rank())
        self.current_accelerator = device.type
        self.device_count = torch.accelerator.device_count()
        timeout = datetime.timedelta(seconds=self.timeout)
        if not dist.is_initialized():
            backend = {"cuda": "nccl", "npu": "hccl"}.get(device.type, "gloo")
            dist.init_process_group(backend, timeout=timeout)
            if dist.get_rank() == 0:
                warnings.warn(
                    f"DistributedInterface initialised torch.distributed on '{backend}', as LlamaFactory does; errors "
                    "of calls name no ranks; call rankmesh.torch.install() and init_process_group() first",
                    stacklevel=3,
                )
        said = "llamafactory: " + ", ".join(f"{name}={size}" for name, size in sizes.items())
        with errors_reach_peers(said, timeout):
            place = dist.get_rank(), dist.get_world_size()
            if place != (self._rank, self._world_size):
                raise UsageError(
                    f"RANK={self._rank} and WORLD_SIZE={self._world_size} of the environment are not those "
                    f"of torch.distributed, which are {place[0]} and {place[1]}"
                )
            self._shape(sizes)
        roots = [self._kept[name].root for name in _MESHES]
        made, self._live = device_meshes(said, roots, device_type=device.type, timeout=timeout)
        self._kept |= zip(_MESHES, made, strict=True)

    @property
    def current_device(self) -> Any:
        """torch's device that tensors of this process live on."""
        import torch

        accelerator = torch.accelerator.current_accelerator(check_available=True)
        if accelerator is None:
            return torch.device("cpu")
        return torch.device(accelerator.type, torch.accelerator.current_device_index())

    def get_group(self, dim: str | None = None) -> Any:
        """This rank's group along a dimension, or its ranks; None for the world, and where nothing is distributed."""
        mesh = None if dim is None else self.get_device_mesh(dim)
        return None if mesh is None else mesh.get_group()

    def _ask(self, accessor: str, **options: Any) -> Any:
        if accessor in self._kept:
            return self._kept[accessor]
        if accessor == "__str__":
            text = self._state.ask(accessor, {"device": self.current_accelerator})
            return re.sub(r"DistributedStrategy\(.*?\)", repr(self.strategy), text, count=1)
        given = {name: dim.value for name, dim in options.items() if dim is not None}
        answer = self._state.ask(accessor, given)
        if accessor != "get_device_mesh" or answer is None:
            return answer
        return self._kept[_MESHES[given["dim"] in self.strategy.data_mesh_dim_names]][given["dim"]]

    def _refuse(self, call: str) -> NoReturn:
        raise UsageError(
            f"{call} of rank {self._rank} of {self._world_size} needs the other ranks, "
            "and this interface asks no process; without RANK in the environment data passes through unchanged"
        )

    def _operate(self, call: str, data: Any, dim: Dim | None, operation: Callable[[Any, Any, Any], Any]) -> Any:
        """What an operation makes of a tensor, an array, a list or a number, as such a one."""
        if self._rank is None:
            return data
        if self._live is None:
            self._refuse(call)
        import numpy
        import torch

        dist, device, group = self._dist, self.current_device, self.get_group(dim)
        if isinstance(data, torch.Tensor):
            return operation(dist, data.to(device), group).to(data.device)
        result = operation(dist, torch.tensor(data, dtype=torch.float, device=device), group)
        if isinstance(data, numpy.ndarray):
            return result.cpu().numpy()
        return result.item() if result.numel() == 1 else result.tolist()

    def all_gather(self, data: Any, dim: Dim | None = Dim.DP) -> Any:
        """The data of all ranks of a group, one after the other; the data itself where nothing is distributed."""

        def operation(dist: Any, tensor: Any, group: Any) -> Any:
            gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before 2.13
            gathered = tensor.new_empty(dist.get_world_size(group) * tensor.numel())
            gather(gathered, tensor.flatten(), group=group)  # Gloo takes no number without dimensions
            return gathered.view(-1, *tensor.size())

        return self._operate("all_gather", data, dim, operation)

    def all_reduce(self, data: Any, op: ReduceOp = ReduceOp.MEAN, dim: Dim | None = Dim.DP) -> Any:
        """The data of all ranks of a group as one, a tensor in place; the data itself where nothing is distributed."""

        def operation(dist: Any, tensor: Any, group: Any) -> Any:
            how = ReduceOp(op)
            is_mean = how is ReduceOp.MEAN
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, "SUM" if is_mean else how.name), group=group)
            return tensor.div_(dist.get_world_size(group)) if is_mean else tensor

        return self._operate("all_reduce", data, dim, operation)

    def broadcast(self, data: Any, src: int = 0, dim: Dim | None = Dim.DP) -> Any:
        """The data of a rank of the world in this rank's group; the data itself where nothing is distributed."""

        def operation(dist: Any, tensor: Any, group: Any) -> Any:
            ranks = dist.get_process_group_ranks(group)
            if src not in ranks:
                along = "the world" if dim is None else dim.value
                raise UsageError(
                    f"broadcast from global rank {src} along {along}, but the group of rank {self._rank} is "
                    f"{Group(ranks)}; src must be one of these"
                )
            dist.broadcast(tensor, src=src, group=group)
            return tensor

        return self._operate("broadcast", data, dim, operation)

    def sync(self) -> None:
        """Waits for what this process's device has to do."""
        if self._live is not None and self.current_device.type != "cpu":
            import torch

            torch.accelerator.synchronize()

    def barrier(self) -> None:
        """Waits for all ranks; returns where nothing is distributed."""
        if self._live is not None:
            self._dist.barrier()
        elif self._rank is not None:
            self._refuse("barrier")

    def destroy(self) -> None:
        """Ends torch.distributed, where it has groups of it."""
        if self._live is not None:
            self._live.destroy()
            self._dist.destroy_process_group()


install = installer(__name__, {"llamafactory.v1.accelerator.interface": [""]})
