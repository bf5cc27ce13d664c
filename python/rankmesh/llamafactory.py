"""LlamaFactory's v1/accelerator/interface.py: a model mesh and a data mesh over the same ranks, for any rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, NoReturn

from rankmesh import Group
from rankmesh._device_mesh import DeviceMesh, init_device_mesh
from rankmesh._dialects import llamafactory
from rankmesh._enums import StrEnum
from rankmesh._errors import UsageError
from rankmesh._install import installer
from rankmesh._originals import DialectError, original, raises


def _kind(error: DialectError) -> type[Exception]:
    """A size below 1 is Python's own error in the original, or torch's."""
    if "sizes are 1 or more" in str(error):
        return ZeroDivisionError if " is 0;" in str(error) else RuntimeError
    return ValueError


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
            environment = llamafactory.Environment.from_environment()
            world_size = None if environment.rank is None else environment.world_size
        self.mp_shard_size, self.dp_size = llamafactory.strategy(
            self.mp_replicate_size, self.mp_shard_size, self.dp_size, self.cp_size, world_size
        )

    @property
    def model_mesh_shape(self) -> tuple[int, int | None]:
        """The sizes of the model mesh."""
        return self.mp_replicate_size, self.mp_shard_size

    @property
    def model_mesh_dim_names(self) -> tuple[str, str]:
        """The names of the model mesh's dimensions."""
        return Dim.MP_REPLICATE.value, Dim.MP_SHARD.value

    @property
    def data_mesh_shape(self) -> tuple[int | None, int]:
        """The sizes of the data mesh."""
        return self.dp_size, self.cp_size

    @property
    def data_mesh_dim_names(self) -> tuple[str, str]:
        """The names of the data mesh's dimensions."""
        return Dim.DP.value, Dim.CP.value


def _setting(training_args: Any, name: str, default: Any) -> Any:
    """A setting of an object, or of a mapping as older versions have it."""
    if isinstance(training_args, Mapping):
        return training_args.get(name, default)
    return getattr(training_args, name, default)


class DistributedInterface:
    """What LlamaFactory's interface knows of one rank, under its names.

    Without `rank` it is that of this process, by the launcher's environment, and one object: the first call makes it.
    With `rank` and `world_size` each call makes an interface of that rank, without a process.

    >>> DistributedInterface({"cp_size": 2}, rank=5, world_size=8).get_group(Dim.CP)
    Group('{4, 5}')
    """

    _instance: DistributedInterface | None = None
    _initialized: bool = False

    strategy: DistributedStrategy
    model_device_mesh: DeviceMesh | None
    data_device_mesh: DeviceMesh | None
    current_accelerator: str = "cpu"
    """What device the tensors of a process live on, for the text."""
    device_count: int = 1

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
        self._environment = (
            llamafactory.Environment.from_environment()
            if world_size is None
            else llamafactory.Environment(rank, world_size, local_rank, local_world_size)
        )
        self._rank = self._environment.rank
        self.timeout = _setting(training_args, "dist_timeout", _setting(training_args, "timeout", 18000))
        sizes = (
            _setting(training_args, "mp_replicate_size", 1),
            _setting(training_args, "mp_shard_size", None),
            _setting(training_args, "dp_size", None),
            _setting(training_args, "cp_size", 1),
        )
        world = None if self._rank is None else self._environment.world_size
        self.strategy = DistributedStrategy(*sizes, world_size=world)
        self._interface = llamafactory.Interface(*sizes, self._environment)
        self.model_device_mesh = self._device_mesh(self.strategy.model_mesh_shape, self.strategy.model_mesh_dim_names)
        self.data_device_mesh = self._device_mesh(self.strategy.data_mesh_shape, self.strategy.data_mesh_dim_names)
        self._initialized = True

    def _device_mesh(self, shape: tuple[Any, Any], names: tuple[str, str]) -> DeviceMesh | None:
        if self._rank is None:
            return None
        return init_device_mesh(
            self.current_accelerator,
            shape,
            mesh_dim_names=names,
            rank=self._rank,
            world_size=self._environment.world_size,
        )

    def __str__(self) -> str:
        return str(self._interface)

    def get_device_mesh(self, dim: Dim | None = None) -> DeviceMesh | None:
        """This rank's mesh along a dimension; None where nothing is distributed."""
        if dim is None:
            raise original(ValueError, "dim must be specified.", "missing")
        mesh = self.data_device_mesh if dim in self.strategy.data_mesh_dim_names else self.model_device_mesh
        return None if mesh is None else mesh[dim.value]

    def get_group(self, dim: Dim | None = None) -> Group | None:
        """The ranks of this rank's group along a dimension; None for the world, and where nothing is distributed."""
        return None if dim is None else self._interface.get_group(dim.value)

    def get_rank(self, dim: Dim | None = None) -> int:
        """This rank's place in its group along a dimension, or in the world."""
        return self._interface.get_rank(None if dim is None else dim.value)

    def get_world_size(self, dim: Dim | None = None) -> int:
        """The number of ranks along a dimension, or in the world."""
        return self._interface.get_world_size(None if dim is None else dim.value)

    def get_local_rank(self) -> int:
        """This rank's place on its host."""
        return self._environment.local_rank

    def get_local_world_size(self) -> int:
        """The number of ranks on its host."""
        return self._environment.local_world_size

    def _refuse(self, call: str) -> NoReturn:
        raise UsageError(
            f"{call} of rank {self._rank} of {self._environment.world_size} needs the other ranks, "
            "and this interface asks no process; without RANK in the environment data passes through unchanged"
        )

    def all_gather(self, data: Any, dim: Dim | None = Dim.DP) -> Any:
        """The data itself where nothing is distributed."""
        return data if self._rank is None else self._refuse("all_gather")

    def all_reduce(self, data: Any, op: ReduceOp = ReduceOp.MEAN, dim: Dim | None = Dim.DP) -> Any:
        """The data itself where nothing is distributed."""
        return data if self._rank is None else self._refuse("all_reduce")

    def broadcast(self, data: Any, src: int = 0, dim: Dim | None = Dim.DP) -> Any:
        """The data itself where nothing is distributed."""
        return data if self._rank is None else self._refuse("broadcast")

    def sync(self) -> None:
        """Nothing is in flight."""

    def barrier(self) -> None:
        """Returns where nothing is distributed."""
        if self._rank is not None:
            self._refuse("barrier")

    def destroy(self) -> None:
        """There is no process group to destroy."""


install = installer(__name__, {"llamafactory.v1.accelerator.interface": [""]})
