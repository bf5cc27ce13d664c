"""As much of torch's DeviceMesh as frameworks ask of it, for any rank without a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankmesh import Group, Mesh
from rankmesh._dialects import device_mesh
from rankmesh._originals import DialectError, raises
from rankmesh._world import world_of


def _kind(error: DialectError) -> type[Exception]:
    """What torch raises, by fault and where one fault has several types by text."""
    if error.fault == "unknown" or "ascending order" in str(error):
        return KeyError
    return RuntimeError


class DeviceMesh:
    """One rank's view of a mesh over the world, or of a part of it, with torch's names.

    Parts share one root, which flattening makes indexable by further names.

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
        """The names of the dimensions; None where it has no names, or no dimensions."""
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
        """The ranks, row-major; torch has a tensor of them."""
        return self._of.ranks()

    @property
    def root(self) -> Mesh:
        """The mesh of the world that this is a part of."""
        return self._of.root

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, of one dimension where it is given."""
        return self._of.size() if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This rank in the world."""
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
        """The ranks along one dimension, which need not be said where there is only one."""
        return self._of.get_group(self._name_of(mesh_dim))

    @raises(_kind)
    def get_local_rank(self, mesh_dim: str | int | None = None) -> int:
        """This rank's place in that group."""
        return self._of.get_local_rank(self._name_of(mesh_dim))

    @raises(_kind)
    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All dimensions as one, by whose name the root is indexable afterwards."""
        return self._like(self._of.flatten(mesh_dim_name))

    def new_groups(self) -> list[tuple[str, list[list[int]]]]:
        """Every group that torch has made for the root, by its `group_desc`, in the order of creation."""
        return self._of.new_groups()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and (self.mesh_dim_names, self.shape, self.mesh, self.root) == (
            other.mesh_dim_names,
            other.shape,
            other.mesh,
            other.root,
        )

    def __hash__(self) -> int:
        return hash((self.mesh_dim_names, self.shape, self.mesh))

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
    """The mesh of this shape over the world as a rank sees it, row-major."""
    rank, world_size = world_of("init_device_mesh", rank, world_size)
    return DeviceMesh(device_mesh.init_device_mesh(mesh_shape, mesh_dim_names, rank, world_size), device_type)


def native_of(mesh: Any) -> device_mesh.DeviceMesh:
    """What answers for a mesh; for torch's it has the same dimensions, and is rank 0's."""
    if isinstance(mesh, DeviceMesh):
        return mesh._of
    return device_mesh.init_device_mesh(mesh.shape, mesh.mesh_dim_names, 0, mesh.size())
