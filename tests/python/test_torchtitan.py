"""torchtitan's names where the recorded cases say nothing."""

from __future__ import annotations

import dataclasses
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import rankmesh
from rankmesh import torchtitan
from rankmesh.torchtitan import MeshAxisName, ParallelDims
from signatures import signature

SIZES: dict[str, int] = {"dp_replicate": 2, "dp_shard": 2, "cp": 1, "tp": 2, "pp": 3, "ep": 4, "world_size": 24}


def test_signatures_are_the_originals() -> None:
    assert signature(ParallelDims) == "(dp_replicate, dp_shard, cp, tp, pp, ep, world_size, spmd_backend='spmd_types')"
    assert signature(ParallelDims.from_config) == "(parallelism_config, world_size)"
    assert signature(ParallelDims.build_mesh, "rank") == "(self)"
    assert signature(ParallelDims.get_optional_mesh) == "(self, dims, *, include_singleton_axes=False)"
    assert signature(ParallelDims.get_mesh) == "(self, dims)"
    assert signature(ParallelDims.resolve_shared_mesh) == "(self, placements)"
    assert torchtitan.unfold_dp_axes(["dp", MeshAxisName.TP]) == ["dp_replicate", "dp_shard", "tp"]
    assert torchtitan.unfold_dp_axis(MeshAxisName.DP) == (MeshAxisName.DP_REPLICATE, MeshAxisName.DP_SHARD)


@pytest.mark.parametrize("backend", ["spmd_types", "full_dtensor", "partial_dtensor"])
def test_meshes_of_all_ranks_stand_in_one_process(backend: Any) -> None:
    for rank in range(24):
        dims = ParallelDims(**SIZES, spmd_backend=backend)
        assert dims._single_axis_meshes == {}
        assert list(dims.build_mesh(rank=rank).mesh) == list(range(24))
        for name, mesh in dims._single_axis_meshes.items():
            assert dims.get_optional_mesh(name, include_singleton_axes=True) is mesh
            assert mesh.mesh[mesh.get_local_rank()] == rank
            assert mesh.get_group() == mesh.mesh
        assert all(dims.get_mesh(name) is mesh for name, mesh in dims.get_all_one_dimensional_meshes().items())
        several = ["dp_replicate", "fsdp" if backend == "partial_dtensor" else "dp_shard"]
        assert dims.get_mesh(several) is dims.get_mesh(several)
        assert dims.get_mesh(several).shape == (2, 2)
        if backend != "full_dtensor":  # which has no mesh of tp alone
            layout = SimpleNamespace(axes=lambda: (MeshAxisName.TP, MeshAxisName.PP))
            assert dims.resolve_shared_mesh([None, layout]) is dims.get_mesh("tp")
        assert dims.resolve_shared_mesh([None]) is None
        assert dims.world_mesh is dims.world_mesh


def test_under_full_dtensor_layouts_are_on_the_meshes_of_dense_layers_and_experts() -> None:
    dims = ParallelDims(**SIZES, spmd_backend="full_dtensor")
    dims.build_mesh(rank=13)
    dense, sparse = dims.spmd_meshes()
    assert dense.mesh_dim_names == ("dp_replicate", "dp_shard", "tp")
    assert sparse.mesh_dim_names == ("dp_replicate", "efsdp", "ep")
    assert dims.resolve_mesh([MeshAxisName.DP, MeshAxisName.CP, MeshAxisName.TP]) is dense
    assert dims.resolve_mesh(["dp_replicate", "efsdp", "ep"]) is sparse
    assert dims.get_mesh(["ep", "efsdp"]).shape == (4, 1)  # an axis of one rank stands anywhere
    assert list(dims.get_dense_tp_mesh().get_group()) == list(dims.get_mesh("tp").get_group())
    with pytest.raises(ValueError, match=re.escape("Resolved mesh ['tp'] does not match any SPMD mesh")):
        dims.resolve_mesh(["tp"])
    alone = ParallelDims(**{**SIZES, "tp": 1, "world_size": 12, "ep": 2}, spmd_backend="full_dtensor")
    alone.build_mesh(rank=0)
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        alone.get_dense_tp_mesh()


def test_a_config_says_the_degrees() -> None:
    config = SimpleNamespace(
        data_parallel_replicate_degree=1,
        data_parallel_shard_degree=-1,
        context_parallel_degree=2,
        tensor_parallel_degree=2,
        pipeline_parallel_degree=1,
        expert_parallel_degree=1,
        spmd_backend="partial_dtensor",
    )
    dims = ParallelDims.from_config(config, 16)
    assert dims == ParallelDims(1, 4, 2, 2, 1, 1, 16, "partial_dtensor")
    assert (dims.dp_shard, dims.fsdp_enabled, dims.dp_replicate_enabled) == (4, True, False)


def test_a_layout_says_which_axes_shard_which_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    dp, cp, tp = MeshAxisName.DP, MeshAxisName.CP, MeshAxisName.TP
    shard = dataclasses.make_dataclass("Shard", ["dim"], frozen=True)
    monkeypatch.setitem(sys.modules, "spmd_types", SimpleNamespace(Shard=shard, S=shard))  # type: ignore[arg-type]
    layout = torchtitan.SpmdLayout({dp: "V", cp: "V", tp: "R"}, partition_spec=(dp, None, (cp, tp)))
    assert layout.axes() == (dp, cp, tp)
    assert layout.per_axis_spmd_types() == {dp: shard(0), cp: shard(2), tp: shard(2)}
    assert torchtitan.SpmdLayout({dp: shard(1), tp: "R"}).per_axis_spmd_types() == {dp: shard(1), tp: "R"}
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "axes dp and cp shard dim 1", lambda: torchtitan.SpmdLayout({dp: shard(1), cp: shard(1)})),
        (ValueError, "axis dp shards dim 1 beside a partition_spec", lambda: torchtitan.SpmdLayout({dp: shard(1)}, ())),
        (TypeError, "lists 'dp'", lambda: torchtitan.SpmdLayout({dp: "V"}, ("dp",)).per_axis_spmd_types()),
    ]
    for kind, text, call in wrong:
        with pytest.raises(kind, match=text) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)


def test_errors_are_the_originals_and_rankmeshs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    dims = ParallelDims(**SIZES)
    dims.build_mesh(rank=0)
    tp, pp = (SimpleNamespace(axes=lambda a=axis: (a,)) for axis in ("tp", "pp"))
    calls: list[tuple[type[Exception], str, Any]] = [
        (AssertionError, "Invalid parallel dims", lambda: ParallelDims(**{**SIZES, "tp": 3})),
        (AssertionError, "Parallelism degree should be >= 1", lambda: ParallelDims(**{**SIZES, "tp": 0})),
        (ValueError, "must divide dp_shard * cp * tp (4)", lambda: ParallelDims(**{**SIZES, "ep": 3})),
        (ValueError, "Invalid mesh dim: 'nothing'", lambda: dims.get_optional_mesh("nothing")),
        (ValueError, "Mesh 'cp' is not available", lambda: dims.get_mesh("cp")),
        (ValueError, "Invalid mesh name combinations", lambda: dims.get_mesh(["batch", "ep"])),
        (KeyError, "ascending order", lambda: dims.get_mesh(["tp", "pp"])),
        (AssertionError, "Inconsistent mesh axes", lambda: dims.resolve_shared_mesh([tp, pp])),
        (ValueError, "is not a valid MeshAxisName", lambda: torchtitan.unfold_dp_axis("row")),
        (ValueError, "ranks are 0..23", lambda: dims.build_mesh(rank=24)),
        (ValueError, "give rank=, which needs no process", lambda: ParallelDims(**SIZES).get_mesh("tp")),
    ]
    for kind, text, call in calls:
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)
