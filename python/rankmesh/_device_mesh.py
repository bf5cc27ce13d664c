"""The part of torch's DeviceMesh that frameworks use, for any rank and without processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankmesh._frameworks import device_mesh as _native
from rankmesh._originals import FrameworkError, raises
from rankmesh._world import world_of


def _kind(error: FrameworkError) -> type[Exception]:
    """Returns torch's exception type by fault, or by text if a fault has several types."""
    if error.fault == "unknown" or "ascending order" in str(error):
        return KeyError
    return RuntimeError


class DeviceMesh(_native.DeviceMesh):
    """One rank's view of a mesh over the world, or of a submesh, with torch's names.

    Submeshes share one root. Flattening adds names by which the root can be indexed.

    >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "dp"), rank=5, world_size=8)
    >>> mesh["dp"].get_group()
    Group('{4..7}')
    """

    device_type: str

    def __init__(self, of: _native.DeviceMesh, device_type: str) -> None:
        super().__init__(of)
        self.device_type = device_type

    def size(self, mesh_dim: int | None = None) -> int:
        """Returns the number of ranks, or the size of one dimension."""
        return super().size() if mesh_dim is None else self.shape[mesh_dim]

    @raises(_kind)
    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        return DeviceMesh(self.part(mesh_dim_names), self.device_type)

    get_group = raises(_kind)(_native.DeviceMesh.get_group)
    get_local_rank = raises(_kind)(_native.DeviceMesh.get_local_rank)

    @raises(_kind)
    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Returns all dimensions as one. The root can be indexed by its name afterwards."""
        return DeviceMesh(self.flatten(mesh_dim_name), self.device_type)

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
    return DeviceMesh(_native.init_device_mesh(mesh_shape, mesh_dim_names, rank, world_size), device_type)


def native_of(mesh: Any) -> _native.DeviceMesh:
    """Returns the native mesh of a mesh. For torch's mesh, returns a mesh of rank 0 with the same dimensions."""
    if isinstance(mesh, DeviceMesh):
        return mesh
    return _native.init_device_mesh(mesh.shape, mesh.mesh_dim_names, 0, mesh.size())
