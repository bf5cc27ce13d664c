"""The part of torch's DeviceMesh that frameworks use, for any rank and without processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankmesh import Group, Mesh
from rankmesh._dialects import device_mesh
from rankmesh._originals import DialectError, raises
from rankmesh._world import world_of


def _kind(error: DialectError) -> type[Exception]:
    """Returns torch's exception type by fault, or by text if a fault has several types."""
    if error.fault == "unknown" or "ascending order" in str(error):
        return KeyError
    return RuntimeError


class DeviceMesh:
    """One rank's view of a mesh over the world, or of a submesh, with torch's names.

    Submeshes share one root. Flattening adds names by which the root can be indexed.

    >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "dp"), rank=5, world_size=8)
    >>> mesh["dp"].get_group()
    Group('{4..7}')
    """

    device_type: str

    def __init__(self, of: device_mesh.DeviceMesh, device_type: str) -> None:
        self._of = of
        self.device_type = device_type

    def _like(self, of: device_mesh.DeviceMesh) -> DeviceMesh:
        return DeviceMesh(of, self.device_type)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions; None without names or without dimensions."""
        names = self._of.mesh_dim_names
        return None if names is None else tuple(names)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self._of.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._of.ndim

    @property
    def mesh(self) -> Group:
        """The ranks, row-major. In torch this is a tensor."""
        return self._of.ranks()

    @property
    def root(self) -> Mesh:
        """The mesh of the world. This mesh is a part of it."""
        return self._of.root

    def size(self, mesh_dim: int | None = None) -> int:
        """Returns the number of ranks, or the size of one dimension."""
        return self._of.size() if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """Returns this rank's world rank."""
        return self._of.get_rank()

    def get_coordinate(self) -> list[int] | None:
        """This rank's index on every dimension."""
        return self._of.get_coordinate()

    @raises(_kind)
    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        return self._like(self._of.part(mesh_dim_names))

    def _name_of(self, mesh_dim: str | int | None) -> str | None:
        names = self.mesh_dim_names or tuple(f"dim_{i}" for i in range(self.ndim))
        return names[mesh_dim] if isinstance(mesh_dim, int) else mesh_dim

    @raises(_kind)
    def get_group(self, mesh_dim: str | int | None = None) -> Group:
        """Returns the ranks along one dimension, which is optional if there is only one."""
        return self._of.get_group(self._name_of(mesh_dim))

    @raises(_kind)
    def get_local_rank(self, mesh_dim: str | int | None = None) -> int:
        """Returns this rank's index along one dimension."""
        return self._of.get_local_rank(self._name_of(mesh_dim))

    @raises(_kind)
    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Returns all dimensions as one. The root can be indexed by its name afterwards."""
        return self._like(self._of.flatten(mesh_dim_name))

    def new_groups(self) -> list[tuple[str, list[list[int]]]]:
        """Returns all groups that torch would create for the root, by `group_desc`, in the order of creation."""
        return self._of.new_groups()

    def _key(self) -> tuple[Any, ...]:
        return self.mesh_dim_names, self.shape, self.mesh, self.root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key()[:-1])

    def __repr__(self) -> str:
        names = self.mesh_dim_names or [""] * self.ndim
        dims = ", ".join(f"{name}={size}" if name else str(size) for name, size in zip(names, self.shape, strict=True))
        return f"DeviceMesh({dims}) of rank {self.get_rank()}"


@raises(_kind)
def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> DeviceMesh:
    """Returns one rank's view of a row-major mesh of this shape over the world."""
    rank, world_size = world_of("init_device_mesh", rank, world_size)
    return DeviceMesh(device_mesh.init_device_mesh(mesh_shape, mesh_dim_names, rank, world_size), device_type)


def native_of(mesh: Any) -> device_mesh.DeviceMesh:
    """Returns the native mesh of a mesh. For torch's mesh, returns a mesh of rank 0 with the same dimensions."""
    if isinstance(mesh, DeviceMesh):
        return mesh._of
    return device_mesh.init_device_mesh(mesh.shape, mesh.mesh_dim_names, 0, mesh.size())
