"""JAX's meshes of ours and back, on eight devices of the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import rankmesh
from rankmesh import Mesh, Placement, UsageError

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
jax = pytest.importorskip("jax", reason="JAX is not installed")

from rankmesh.jax import from_jax, to_jax  # noqa: E402


def ids(mesh: Any) -> list[int]:
    return [device.id for device in mesh.devices.flat]


@pytest.mark.parametrize("text", ["dp=2 tp=4", "dp=2 pp=2 tp=2", "all=8", "dp=2 tp=2"])
def test_a_mesh_has_the_devices_of_its_ranks_and_comes_back(text: str) -> None:
    mesh = Mesh(text)
    made = to_jax(mesh)
    assert dict(made.shape) == dict(zip(mesh.axes, mesh.shape, strict=True))
    assert ids(made) == list(mesh.ranks)
    assert from_jax(made) == mesh == from_jax(to_jax(text))


def test_a_placement_orders_the_devices_and_comes_back() -> None:
    placement = Placement("a=2 b=2 @[3,1,2,0]")
    assert ids(to_jax(placement)) == [3, 1, 2, 0] == ids(to_jax(placement.text))
    assert from_jax(to_jax(placement)) == placement
    assert ids(to_jax("dp=2 tp=2 @4")) == [4, 5, 6, 7]
    permuted = Mesh("dp=2 tp=4").permuted("tp", "dp")
    back = from_jax(to_jax(permuted))
    assert list(back.ranks) == list(permuted.ranks) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_what_asks_of_meshes_takes_jax_ones() -> None:
    for made in (to_jax("dp=2 tp=4"), to_jax(Placement("dp=2 tp=4 @[7,6,5,4,3,2,1,0]"))):
        ours = from_jax(made)
        assert rankmesh.check(ours)
        assert "tp" in str(rankmesh.draw(ours))
    placed = rankmesh.place(from_jax(to_jax("dp=2 tp=4")), on="node:2(25GB/s) gpu:4(450GB/s)")
    assert sorted(ids(to_jax(placed.order))) == list(range(8))


def test_a_rank_without_a_device_is_told() -> None:
    with pytest.raises(UsageError, match="the mesh reaches rank 15, and there are 8 devices"):
        to_jax("dp=4 tp=4")
    made = to_jax("dp=8")
    with pytest.raises(UsageError, match="is not among the 4 devices; give devices="):
        from_jax(made, jax.devices()[:4])


def test_rankmesh_does_not_import_jax() -> None:
    code = "import sys, rankmesh, rankmesh.jax; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
