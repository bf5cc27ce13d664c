"""Converts a Mesh or Placement to JAX's Mesh and back. Rank 5 is device 5 of `jax.devices()`.

>>> mesh = to_jax("dp=2 tp=4")  # doctest: +SKIP
>>> from_jax(mesh)  # doctest: +SKIP
Mesh('dp=2 tp=4')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankmesh import Mesh, Placement, UsageError


def _devices(given: Sequence[Any] | None) -> list[Any]:
    import jax

    return list(jax.devices() if given is None else given)


def to_jax(mesh: str | Mesh | Placement, devices: Sequence[Any] | None = None) -> Any:
    """Returns a jax.sharding.Mesh with these axes. Rank i is `devices[i]`; default: `jax.devices()[i]`.

    Raises UsageError for a rank without a device.
    """
    from jax.sharding import Mesh as JaxMesh

    if isinstance(mesh, str):
        mesh = Placement(mesh) if "@[" in mesh else Mesh(mesh)
    known = _devices(devices)
    ranks = mesh.numpy()
    if (last := int(ranks.max())) >= len(known):
        raise UsageError(f"the mesh reaches rank {last}, and there are {len(known)} devices")
    import numpy as np

    placed = np.empty(ranks.shape, dtype=object)
    for place, rank in np.ndenumerate(ranks):
        placed[place] = known[rank]
    names = mesh.axes if isinstance(mesh, Mesh) else mesh.mesh.axes
    return JaxMesh(placed, tuple(names))


def from_jax(mesh: Any, devices: Sequence[Any] | None = None) -> Mesh | Placement:
    """Returns the Mesh of a jax.sharding.Mesh, or a Placement if strides cannot express the order of its devices.

    Raises UsageError for a device that is not in `devices`; default: `jax.devices()`.
    """
    rank_of = {device: rank for rank, device in enumerate(_devices(devices))}
    if missing := [device for device in mesh.devices.flat if device not in rank_of]:
        raise UsageError(f"{missing[0]} of the mesh is not among the {len(rank_of)} devices; give devices=")
    ranks = [rank_of[device] for device in mesh.devices.flat]
    plain = Mesh([(name, size) for name, size in mesh.shape.items()])
    return plain if ranks == list(range(len(ranks))) else Placement(plain, ranks)
