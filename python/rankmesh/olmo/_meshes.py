"""What answers for a mesh of OLMo-core's, torch's or one without a process."""

from __future__ import annotations

from typing import Any

from rankmesh._device_mesh import DeviceMesh
from rankmesh._dialects import device_mesh as _native


def twin(mesh: Any) -> _native.DeviceMesh:
    """A mesh's own, or for torch's one of the same dimensions."""
    if isinstance(mesh, DeviceMesh):
        return mesh._of
    return _native.init_device_mesh(mesh.shape, mesh.mesh_dim_names, 0, mesh.size())
