"""The names of vLLM's first parallel_state in Python, in what the recorded cases do not cover."""

from __future__ import annotations

from typing import Any

import pytest
import rankmesh
import signatures
from rankmesh import Group, Mesh
from rankmesh.megatron2022 import parallel_state
from rankmesh.megatron2022.parallel_state import ParallelState, for_rank


@pytest.fixture(autouse=True)
def _module_is_as_it_was_imported() -> Any:
    yield
    parallel_state.destroy_model_parallel()


def test_signatures_are_the_originals() -> None:
    assert signatures.differences("megatron2022") == []


@pytest.mark.parametrize(("world", "tp", "pp"), [(1, 1, 1), (16, 2, 4), (36, 3, 2), (24, 1, 6)])
def test_groups_are_those_of_the_mesh_on_every_rank(world: int, tp: int, pp: int) -> None:
    mesh = Mesh(pp=pp, dp=world // tp // pp, tp=tp)
    for rank in range(world):
        state = for_rank(rank, world, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp)
        assert state.get_tensor_model_parallel_group() == mesh.group(rank, "tp")
        assert state.get_pipeline_model_parallel_group() == mesh.group(rank, "pp")
        assert state.get_data_parallel_group() == mesh.group(rank, "dp")
        assert state.get_model_parallel_group() == mesh.group(rank, "pp", "tp")
        assert state.get_data_parallel_rank() == mesh.index(rank, "dp")
        assert list(state.get_data_parallel_group()) in state.groups.partition("_DATA_PARALLEL_GROUP")
        assert type(state.get_data_parallel_group()) is Group


def test_the_module_speaks_for_one_rank_and_for_rank_for_any() -> None:
    parallel_state.initialize_model_parallel(2, 4, rank=5, world_size=16)
    assert parallel_state.get_pipeline_model_parallel_rank() == 1
    assert parallel_state._PIPELINE_GLOBAL_RANKS == [1, 5, 9, 13]
    assert parallel_state._DATA_PARALLEL_GLOBAL_RANKS == [5, 7]
    assert Group([5, 7]) == parallel_state._DATA_PARALLEL_GROUP
    assert parallel_state._EMBEDDING_GROUP is None
    assert for_rank(67, 65536, tensor_model_parallel_size=8).get_tensor_model_parallel_rank() == 3
    assert parallel_state.get_tensor_model_parallel_world_size() == 2
    parallel_state.destroy_model_parallel()
    assert parallel_state._MODEL_PARALLEL_GROUP is None
    parallel_state.initialize_model_parallel(rank=0, world_size=4)
    assert list(parallel_state.get_data_parallel_group()) == [0, 1, 2, 3]


def test_what_was_set_before_stays_when_the_world_is_known() -> None:
    state = ParallelState()
    state.set_tensor_model_parallel_rank(1)
    state.initialize_model_parallel(2, rank=0, world_size=2)
    assert state.get_tensor_model_parallel_rank() == 1


def wrong_calls() -> list[tuple[Any, type[Exception], str]]:
    def init(*sizes: Any) -> Any:
        return lambda: ParallelState(0, 8).initialize_model_parallel(*sizes)

    made = for_rank(4, 8, pipeline_model_parallel_size=4)
    return [
        (init(3), RuntimeError, "world_size (8) is not divisible by tensor_model_parallel_size (3)"),
        (init(0), ZeroDivisionError, "world_size (8) is not divisible"),
        (init(1, 2, 2), RuntimeError, "pipeline-model-parallel size should be greater than 2"),
        (init(1, 4, None, 4), IndexError, "pipeline_model_parallel_split_rank 4 of 4 stages is out of range"),
        (init(-2), RuntimeError, "tensor_model_parallel_size is -2; every size is 1 or more"),
        (init("2"), TypeError, "tensor_model_parallel_size is '2', which is str; it must be an int"),
        (ParallelState().initialize_model_parallel, AssertionError, "give rank= and world_size="),
        (lambda: ParallelState(9, 8), ValueError, "rank 9 of a world of 8; ranks are 0..7"),
        (made.initialize_model_parallel, AssertionError, "data parallel group is already initialized"),
        (
            lambda: made.initialize_model_parallel(rank=1, world_size=8),
            AssertionError,
            "data parallel group is already initialized",
        ),
        (made.get_embedding_group, AssertionError, "embedding group is not initialized on rank 4"),
        (ParallelState(0, 8).get_data_parallel_rank, AssertionError, "data parallel group is not initialized"),
        (ParallelState(0, 8).is_rank_in_embedding_group, TypeError, "embedding group is not initialized"),
        (lambda: ParallelState(0, 8).groups, AssertionError, "is not initialized"),
        (lambda: made.set_tensor_model_parallel_world_size(0), ValueError, "every size is 1 or more"),
    ]


@pytest.mark.parametrize(("call", "kind", "text"), wrong_calls())
def test_what_the_original_refuses_is_refused_by_its_own_exception(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
    assert isinstance(caught.value, rankmesh.Error)


def test_a_stage_beyond_the_pipeline_is_an_index_error() -> None:
    state = for_rank(0, 8, pipeline_model_parallel_size=4)
    state.set_pipeline_model_parallel_world_size(9)
    with pytest.raises(IndexError, match="its size was set to more than 4"):
        state.get_pipeline_model_parallel_last_rank()
