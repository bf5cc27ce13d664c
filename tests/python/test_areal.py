"""AReaL's names where the recorded cases say nothing: signatures, types of errors, any rank in one process."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import rankmesh
import signatures
from rankmesh import Group, Mesh
from rankmesh.areal import (
    GLOBAL_PROCESS_GROUP_REGISTRY,
    DataPipeTensorParallelTopology,
    FakeGrid,
    ParallelGrid,
    PipeDataTensorParallelTopology,
    ProcessTopology,
    destroy_all_comm_groups,
    new_or_get_group,
)

AXES = ["pipe", "data", "tensor"]


def test_signatures_are_the_originals() -> None:
    assert signatures.differences("areal") == []


@pytest.mark.parametrize("dims", [[1, 1, 1], [2, 3, 4], [4, 1, 3]], ids=str)
def test_a_grid_has_the_groups_of_the_mesh_on_every_rank(dims: list[int]) -> None:
    mesh = Mesh(dict(zip(AXES, dims, strict=True)))
    topo = ProcessTopology(AXES, dims)
    for rank in range(mesh.size):
        grid = ParallelGrid(topo, None, rank=rank, world_size=mesh.size)
        assert grid.get_pipe_parallel_group() == mesh.group(rank, "pipe")
        assert grid.get_data_parallel_group() == grid.get_data_parallel_group_gloo() == mesh.group(rank, "data")
        assert grid.get_tensor_model_parallel_group() == mesh.group(rank, "tensor")
        assert grid.get_model_parallel_group() == mesh.group(rank, "pipe", "tensor")
        assert grid.tp_dp_proc_group == mesh.group(rank, "data", "tensor")
        assert grid.ds_model_world_size == len(mesh.group(rank, "pipe", "tensor"))
        assert grid.slice_group == list(mesh.group(rank, "tensor"))
        assert grid.rank_mapping == {r: r for r in range(mesh.size)}
        assert grid.topo is grid.topology() is topo
        assert topo.get_coord(rank) == tuple(mesh.coord(rank).values())


@pytest.mark.parametrize("mapping", [{r: 3 + 2 * r for r in range(8)}, dict(enumerate([0, 1, 2, 4, 7, 8, 9, 20]))])
def test_handles_hold_ranks_of_the_world_and_groups_those_of_the_model(mapping: dict[int, int]) -> None:
    topo = ProcessTopology(AXES, [2, 2, 2])
    inside = {world: rank for rank, world in mapping.items()}
    for rank in range(24):
        grid = ParallelGrid(topo, None, mapping, rank=rank, world_size=24)
        assert grid.global_rank == inside.get(rank, -1)
        assert grid.rank_mapping is mapping
        if rank not in inside:
            assert grid.pp_proc_group is grid.slice_group is None
            assert grid.dp_group == []
            with pytest.raises(AttributeError):
                grid.get_model_parallel_world_size()
            assert not hasattr(grid, "ds_model_world_size")
            continue
        assert list(grid.pp_proc_group or ()) == [mapping[r] for r in grid.pp_group]
        assert type(grid.dp_proc_group) is Group


def test_a_grid_answers_for_one_of_many_ranks() -> None:
    grid = ParallelGrid(ProcessTopology(AXES, [64, 128, 8]), None, rank=67, world_size=65536)
    assert grid.stage_id == 0
    assert len(grid.tp_dp_proc_group or ()) == 1024


def test_the_registry_knows_sets_of_ranks_once_a_backend() -> None:
    before = len(GLOBAL_PROCESS_GROUP_REGISTRY)
    assert new_or_get_group([3, 1, 2]) == new_or_get_group((1, 2, 3)) == Group([1, 2, 3])
    new_or_get_group([1, 2, 3], "gloo")
    assert len(GLOBAL_PROCESS_GROUP_REGISTRY) == before + 2
    destroy_all_comm_groups()
    assert len(GLOBAL_PROCESS_GROUP_REGISTRY) == before + 2


def test_coordinates_pickle_and_topologies_compare_by_their_tables() -> None:
    topo = PipeDataTensorParallelTopology(2, 2, 2, True, False, True)
    coord = topo.get_coord(5)
    assert pickle.loads(pickle.dumps(coord)) == coord == (1, 0, 1)
    assert topo == DataPipeTensorParallelTopology(2, 2, 2, False)
    assert topo != ProcessTopology(AXES, [2, 2, 1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(topo)


def wrong_calls() -> list[tuple[Any, type[Exception], str]]:
    topo = ProcessTopology(AXES, [2, 2, 2])

    def grid(mapping: Any = None, rank: int | None = 0) -> ParallelGrid:
        return ParallelGrid(topo, None, mapping, rank=rank, world_size=8 if rank is not None else None)

    return [
        (lambda: ProcessTopology(["a", "b"], [2, 2]), KeyError, "Corresponding coordinate namedtuple not implemented"),
        (lambda: ProcessTopology(AXES, [2, 2]), IndexError, ""),
        (lambda: ProcessTopology(AXES, [0, 2, 2]), ValueError, "every dim is 1 or more"),
        (lambda: ProcessTopology(AXES, ["2", 2, 2]), TypeError, "a number of dims is '2', which is str"),
        (lambda: topo.get_coord(8), ValueError, "rank 8 not found in topology."),
        (lambda: topo.get_rank(pipe=0), ValueError, "get_rank() does not support slices"),
        (lambda: topo.filter_match(jeff=0), AttributeError, "has no attribute 'jeff'"),
        (lambda: grid({0: 1}), KeyError, "1"),
        (lambda: grid({r: 7 - r for r in range(8)}), ValueError, "each rank must be above the one before"),
        (lambda: grid({r: r + 1 for r in range(8)}), ValueError, "rank 8 is not in a world of 8"),
        (lambda: grid([0, 1]), TypeError, "the rank mapping is [0, 1], which is list"),
        (lambda: grid(rank=8), ValueError, "rank 8 of a world of 8; ranks are 0..7"),
        (lambda: grid(rank=None), ValueError, "give rank= and world_size="),
        (lambda: grid().stage_to_global(2), AssertionError, "key {'pipe': 2, 'data': 0, 'tensor': 0} invalid"),
        (lambda: FakeGrid(8, topo), ValueError, "rank 8 not found in topology."),
        (lambda: FakeGrid(0, topo).get_data_parallel_group(), RuntimeError, "No groups in fake grid."),
    ]


@pytest.mark.parametrize(("call", "kind", "text"), wrong_calls())
def test_what_the_original_refuses_is_refused_by_its_own_exception(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
    assert isinstance(caught.value, rankmesh.Error)
