"""DeepSpeed's names where the recorded cases say nothing: signatures, types of errors, any rank in one process."""

from __future__ import annotations

import itertools
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import rankmesh
from rankmesh.deepspeed import groups, parallel_state_sp
from rankmesh.deepspeed.topology import (
    PipeDataParallelTopology,
    PipelineParallelGrid,
    PipeModelDataParallelTopology,
    ProcessTopology,
    _prime_factors,
)
from signatures import signature

WORLD = ("rank", "world_size")


def test_signatures_are_the_originals() -> None:
    for ours, theirs in {
        ProcessTopology: "(axes, dims)",
        ProcessTopology.get_rank: "(self, **coord_kwargs)",
        ProcessTopology.get_rank_repr: "(self, rank, omit_axes=['data', 'pipe'], inner_sep='_', outer_sep='-')",
        ProcessTopology.get_dim: "(self, axis)",
        ProcessTopology.get_coord: "(self, rank)",
        ProcessTopology.get_axis_comm_lists: "(self, axis)",
        ProcessTopology.filter_match: "(self, **filter_kwargs)",
        ProcessTopology.get_axis_list: "(self, axis, idx)",
        PipeDataParallelTopology: "(num_pp, num_dp)",
        PipeModelDataParallelTopology: "(num_pp, num_mp, num_dp)",
        PipelineParallelGrid.stage_to_global: "(self, stage_id, **kwargs)",
        _prime_factors: "(N)",
        groups._init_tp_mesh_device: "(tensor_model_parallel_size=1, data_parallel_size=None)",
        groups._create_model_parallel: "(model_parallel_size_)",
        groups._create_expert_and_data_parallel: "(expert_parallel_size_, mp_size=None, pp_size=None, mp_mode='tp', "
        "use_data_before_expert_parallel_=False, folding_spec=None)",
        groups._create_expert_data_and_model_parallel: "(expert_parallel_size_, mpu, "
        "use_data_before_expert_parallel_=False)",
        groups._get_expert_parallel_ranks: "(world_size, tensor_parallel_size_, expert_parallel_size_, "
        "pipeline_parallel_size_=1, use_data_before_expert_parallel_=False)",
        groups._create_zero_param_parallel_group: "(group_size)",
        groups.set_tensor_model_parallel_rank: "(rank)",
        groups.initialize: "(ep_size=1, mpu=None)",
        groups.get_data_parallel_rank: "()",
        groups._get_expert_parallel_world_size: "(group_name)",
    }.items():
        assert signature(ours) == theirs
    assert signature(PipelineParallelGrid, *WORLD) == "(topology=None, process_group=None)"
    assert signature(groups._get_local_all_to_all_group, "device_per_node") == "()"
    assert groups._get_expert_parallel_rank.__qualname__.endswith("._get_expert_parallel_rank")


@pytest.mark.parametrize("dims", [[2, 3, 4], [1, 1], [5], [2, 1, 3, 2]], ids=str)
def test_every_answer_of_a_topology_is_that_of_a_table(dims: list[int]) -> None:
    axes = ["pipe", "data", "model", "row"][: len(dims)]
    topo = ProcessTopology(axes, dims)
    table = list(itertools.product(*map(range, dims)))
    assert topo.mapping == {coord: rank for rank, coord in enumerate(table)}
    assert str(topo) == str(topo.mapping)
    assert topo.world_size() == len(table)
    for rank, coord in enumerate(table):
        assert topo.get_coord(rank) == coord == topo.ProcessCoord(*coord)
        assert topo.get_rank(**topo.get_coord(rank)._asdict()) == rank
        assert getattr(topo.get_coord(rank), axes[-1]) == coord[-1]
    for i, axis in enumerate(axes):
        for index in range(dims[i]):
            same = [rank for rank, coord in enumerate(table) if coord[i] == index]
            assert topo.get_axis_list(axis, index) == topo.filter_match(**{axis: index}) == same
        together: dict[Any, list[int]] = {}
        for rank, coord in enumerate(table):
            together.setdefault(coord[:i] + coord[i + 1 :], []).append(rank)
        assert topo.get_axis_comm_lists(axis) == list(together.values())
    assert topo.get_axis_comm_lists("none") == []
    assert topo.get_dim("none") == 0


def test_errors_are_the_originals_and_rankmeshs() -> None:
    topo = ProcessTopology(axes=["pipe", "data"], dims=[2, 2])
    grid = PipelineParallelGrid(topo, rank=3, world_size=4)
    for kind, text, call in (
        (ValueError, "does not support slices", lambda: topo.get_rank(pipe=0)),
        (TypeError, "unexpected keyword", lambda: topo.get_rank(pipe=0, row=0)),
        (AssertionError, "key {'pipe': 2, 'data': 0} invalid", lambda: topo.get_rank(pipe=2, data=0)),
        (ValueError, "rank 4 not found in topology", lambda: topo.get_coord(4)),
        (ValueError, "is not in list", lambda: topo.get_axis_list("row", 0)),
        (AttributeError, "no attribute 'row'", lambda: topo.filter_match(row=0)),
        (ValueError, "strictly positive", lambda: _prime_factors(0)),
        (IndexError, "1 dims for 2 axes", lambda: ProcessTopology(["a", "b"], [2])),
        (ValueError, "keyword", lambda: ProcessTopology(["class"], [2])),
        (ValueError, "every dim is 1 or more", lambda: ProcessTopology(["a"], [0])),
        (AssertionError, "Invalid Grid", lambda: PipelineParallelGrid(topo, rank=0, world_size=8)),
        (AssertionError, "invalid", lambda: grid.stage_to_global(2)),
        (TypeError, "multiple values", lambda: grid.stage_to_global(1, pipe=1)),
        (ValueError, "unexpected field names", lambda: grid.stage_to_global(1, row=1)),
        (
            AttributeError,
            "needs pipe and data",
            lambda: PipelineParallelGrid(ProcessTopology(["data"], [4]), rank=0, world_size=4),
        ),
        (TypeError, "must be an int", lambda: topo.get_coord("zero")),  # type: ignore[arg-type]
        (TypeError, "must be an int", lambda: PipelineParallelGrid(topo, rank="0", world_size=4)),  # type: ignore
        (TypeError, "must be a ProcessTopology", lambda: PipelineParallelGrid([2, 2], rank=0, world_size=4)),  # type: ignore
        (TypeError, "dims must be a sequence of ints, not None", lambda: ProcessTopology(["a"], None)),  # type: ignore[arg-type]
        (ValueError, "more than 64 bits", lambda: ProcessTopology(["a"], [2**70])),
        (groups.DeprecatedException, "groups.initialize", groups.initialize),
    ):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)


@pytest.mark.parametrize(("pipe", "model", "data"), [(2, 2, 3), (1, 4, 1), (3, 1, 2)])
def test_a_grid_answers_for_every_rank(pipe: int, model: int, data: int) -> None:
    topo = PipeModelDataParallelTopology(num_pp=pipe, num_mp=model, num_dp=data)
    size = topo.world_size()
    grids = [PipelineParallelGrid(topology=topo, rank=rank, world_size=size) for rank in range(size)]
    for rank, grid in enumerate(grids):
        me = topo.get_coord(rank)
        assert (grid.get_stage_id(), grid.get_data_parallel_id(), grid.get_slice_parallel_rank()) == me[:1] + me[1:]
        assert grid.dp_group[grid.get_data_parallel_rank()] == rank
        assert grid.pp_group[grid.get_pipe_parallel_rank()] == rank
        assert grid.slice_group[grid.get_slice_parallel_rank()] == rank
        assert grid.get_model_parallel_group()[grid.get_model_parallel_rank()] == rank
        assert list(grid.get_data_parallel_group()) == grid.dp_group == grid.get_data_parallel_group_ranks()
        assert list(grid.get_pipe_parallel_group()) == grid.pp_group
        assert grid.pp_group in grid.pipe_groups
        assert grid.dp_group in grid.dp_groups
        assert grid.slice_group in grid.model_groups
        assert [grid.stage_to_global(stage) for stage in range(pipe)] == grid.pp_group
        assert [grid.stage_to_global(stage_id=stage) for stage in range(pipe)] == grid.pp_group  # as its engine asks
        next_stage = grids[grid.p2p_groups[rank][1]]
        assert next_stage.stage_id == (grid.stage_id + 1) % pipe
        assert next_stage.data_parallel_id == grid.data_parallel_id
        assert (grid.is_first_stage, grid.is_last_stage) == (me.pipe == 0, me.pipe == pipe - 1)
        assert grid.topology() is topo
        assert grid._is_grid_valid()


def test_a_rank_of_a_large_world_lists_only_its_groups() -> None:
    topo = PipeModelDataParallelTopology(num_pp=64, num_mp=8, num_dp=2**20)
    grid = PipelineParallelGrid(topo, rank=2**29 - 1, world_size=2**29)
    assert grid.pp_group[-1] == 2**29 - 1
    assert len(grid.dp_proc_group) == 2**20
    assert topo.get_coord(2**29 - 1) == (63, 2**20 - 1, 7)


def test_without_a_rank_and_without_torch_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    with pytest.raises(rankmesh.UsageError, match=r"give rank= and world_size=.*init_process_group"):
        PipelineParallelGrid()
    with pytest.raises(rankmesh.UsageError, match="give world_size as well"):
        PipelineParallelGrid(rank=1)
    with pytest.raises(rankmesh.UsageError, match="give rank= and world_size="):
        groups.Groups()._create_expert_and_data_parallel(2)


def test_groups_of_several_ranks_stand_in_one_process() -> None:
    world = [groups.Groups(rank=rank, world_size=12) for rank in range(12)]
    for rank, place in enumerate(world):
        data, tensor = place._init_tp_mesh_device(2) or ((), ())
        assert place._init_tp_mesh_device(3) is None
        assert data[place.get_data_parallel_rank()] == rank == tensor[place.get_tensor_model_parallel_rank()]
        assert place.get_tensor_model_parallel_src_rank() == tensor[0]
        place._create_expert_and_data_parallel(3)
        place._create_expert_and_data_parallel(3, use_data_before_expert_parallel_=True)  # there already
        place._create_expert_and_data_parallel(6)
        for name in ("ep_size_3", "ep_size_6"):
            expert = place._get_expert_parallel_group_ranks(name)
            assert expert[place._get_expert_parallel_rank(name)] == rank
            assert len(expert) == place._get_expert_parallel_world_size(name) == int(name[-1])
            replicas = place._get_expert_data_parallel_group_ranks(name)
            assert replicas[place._get_expert_data_parallel_rank(name)] == rank
            assert place._get_expert_broadcast_src_rank(name) == replicas[0]
            assert list(place._get_expert_parallel_group_dict()[name]) == expert
            assert place._get_expert_parallel_src_rank(name) == expert[0]
        assert place._get_max_expert_size() == 6
        assert len(place._get_max_expert_parallel_group()) == 6
        place._create_zero_param_parallel_group(4)
        zero = place._get_zero_param_intra_parallel_group_ranks()
        assert zero[place._get_zero_param_intra_parallel_rank_in_mygroup()] == rank
        assert len(place._get_data_parallel_group()) == place._get_data_parallel_world_size() == 12
        assert place._get_data_parallel_group_ranks() == list(range(12))
        mesh = place.sequence_parallel_mesh(4)
        assert place._get_sequence_parallel_group()[place._get_sequence_parallel_rank()] == rank
        assert place._get_sequence_parallel_world_size() == 4 == mesh.size_of("sequence_parallel")
        assert place._get_sequence_data_parallel_group()[place._get_data_parallel_rank()] == rank
        assert place._get_broadcast_src_rank() == place._get_data_parallel_group()[0]
        assert place._get_data_parallel_group_ranks() == list(place._get_data_parallel_group())


def test_a_source_outside_the_expert_group_is_refused() -> None:
    for rank in range(8):
        place = groups.Groups(rank=rank, world_size=8)
        place._create_expert_and_data_parallel(2, mp_size=2)
        expert = place._get_expert_parallel_group_ranks("ep_size_2")
        source = rank - rank % 2
        if source in expert:
            assert place._get_expert_parallel_src_rank("ep_size_2") == source
            continue
        text = f"be {source}, which is not in its expert group; broadcast from the group's first rank, {expert[0]}"
        with pytest.raises(AssertionError, match=text) as caught:
            place._get_expert_parallel_src_rank("ep_size_2")
        assert getattr(caught.value, "rule", None) == "source-outside"


def test_what_was_not_made_is_the_originals_error() -> None:
    place = groups.Groups(rank=0, world_size=4)
    for kind, text, call in (
        (AssertionError, "intra_layer_model parallel group is not initialized", place.get_tensor_model_parallel_group),
        (AssertionError, "data parallel group is not initialized", place.get_data_parallel_rank),
        (AssertionError, "expert parallel group is not initialized", lambda: place._get_expert_parallel_rank("x")),
        (KeyError, "No sequence parallel group found", place._get_sequence_parallel_group),
        (
            NotImplementedError,
            "not supported with mp_size > 1",
            lambda: place._create_expert_and_data_parallel(2, mp_size=2, use_data_before_expert_parallel_=True),
        ),
        (AssertionError, "4 is not divisible by 3", lambda: place._create_zero_param_parallel_group(3)),
        (AssertionError, "leaves ranks of a world of 4 out", lambda: place._init_tp_mesh_device(3)),
        (ValueError, "device_per_node", place._get_local_all_to_all_group),
    ):
        with pytest.raises(kind, match=re.escape(text)) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)
    assert place._get_max_expert_size() is None
    assert place._get_max_expert_size_name() == "ep_size_None"
    assert place._zero_param_parallel_is_initialized() is False
    assert place._get_zero_param_intra_parallel_group() is None
    assert place._get_zero_param_intra_parallel_group_ranks() == [0, 1, 2, 3]  # None is torch's group of all ranks
    assert place._get_zero_param_intra_parallel_group_world_size() == 4
    assert groups.Groups(rank=3, world_size=4)._get_zero_param_intra_parallel_rank_in_mygroup() == 3
    place.set_tensor_model_parallel_world_size(4)
    place.set_tensor_model_parallel_rank(3)
    assert (place.get_model_parallel_world_size(), place.get_model_parallel_rank()) == (4, 3)


def test_the_module_keeps_the_groups_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups.current, "_given", (9, 16))
    mpu = PipelineParallelGrid(PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=4), rank=9, world_size=16)
    try:
        groups.mpu = mpu
        assert groups.current.mpu is mpu
        groups._create_expert_data_and_model_parallel(4, mpu)
        assert groups._get_expert_parallel_group_ranks("ep_size_4") == [9, 11, 13, 15] == mpu.dp_group
        assert groups.expert_tensor_parallel_world_size == 2 == groups._get_expert_model_parallel_world_size()
        assert groups._get_data_parallel_group() == mpu.dp_proc_group
        assert groups._get_model_parallel_world_size() == 4
    finally:
        groups.current.destroy()
    assert groups.mpu is None
    assert groups._get_max_expert_size() is None


def test_groups_of_experts_that_are_there_stay_with_another_mpu() -> None:
    place = groups.Groups(rank=0, world_size=8)
    place._create_expert_and_data_parallel(8)

    def grid(pipe: int, model: int) -> PipelineParallelGrid:
        topology = PipeModelDataParallelTopology(num_pp=pipe, num_mp=model, num_dp=8 // pipe // model)
        return PipelineParallelGrid(topology, rank=0, world_size=8)

    place._create_expert_data_and_model_parallel(8, grid(2, 2))  # which alone would be refused
    assert place._get_expert_parallel_group_ranks("ep_size_8") == list(range(8))
    assert place._get_expert_model_parallel_world_size() == 2
    place._create_expert_and_data_parallel(2)
    assert place._get_expert_model_parallel_world_size() == 2
    with pytest.raises(AssertionError, match="2 is not divisible by 4"):
        place._create_expert_data_and_model_parallel(4, grid(2, 2))


def spec_of(**others: int) -> Any:
    """A folding of DeepSpeed's auto_ep_folding."""
    return SimpleNamespace(**{"world_size": 8, "pp_size": 1, "tp_size": 2, "ep_size": 4} | others)


def test_experts_fold_over_tensor_lanes() -> None:
    for rank in range(8):
        place = groups.Groups(rank=rank, world_size=8)
        place._create_expert_and_data_parallel(4, mp_size=2, folding_spec=spec_of())
        place._create_expert_and_data_parallel(4, mp_size=2, folding_spec=spec_of())  # there already
        assert list(place._get_expert_parallel_group("ep_size_4")) == [rank // 4 * 4 + i for i in range(4)]
        assert list(place._get_expert_data_parallel_group("ep_size_4")) == [rank % 4, rank % 4 + 4]


def test_what_does_not_fold_is_refused() -> None:
    place = groups.Groups(rank=2, world_size=8)
    with pytest.raises(rankmesh.UsageError, match=r"\(8, 1, 4, 4\), where the call has \(8, 1, 2, 4\)"):
        place._create_expert_and_data_parallel(4, mp_size=2, folding_spec=spec_of(tp_size=4))
    place._create_expert_and_data_parallel(4, mp_size=2)
    with pytest.raises(RuntimeError, match=re.escape("group (0, 2, 4, 6) does not match folding spec")):
        place._create_expert_and_data_parallel(4, mp_size=2, folding_spec=spec_of())


def test_sequences_of_alst_are_shared_by_neighbours() -> None:
    for rank in range(8):
        state = parallel_state_sp.SequenceState(rank=rank, world_size=8)
        for ask in (state.get_sequence_parallel_group, state.get_sequence_data_parallel_rank):
            with pytest.raises(AssertionError, match=r"sequence (data )?parallel group is not initialized"):
                ask()
        state.initialize_sequence_parallel(4)
        first = rank // 4 * 4
        assert list(state.get_sequence_parallel_group()) == list(range(first, first + 4))
        assert list(state.get_sequence_data_parallel_group()) == list(range(8))
        assert (state.get_sequence_parallel_rank(), state.get_sequence_parallel_world_size()) == (rank % 4, 4)
        assert (state.get_sequence_data_parallel_rank(), state.get_sequence_data_parallel_world_size()) == (rank, 8)
        assert state.get_model_parallel_group() == state.get_sequence_parallel_group()
        place = groups.Groups(rank=rank, world_size=8)
        place.mpu = state
        assert place._get_sequence_parallel_group() == state.get_sequence_parallel_group()
        assert place._get_sequence_data_parallel_world_size() == 8
        assert place._get_data_parallel_group() is None
        with pytest.raises(AssertionError, match="already initialized"):
            state.initialize_sequence_parallel(2)
        for size, kind in ((16, RuntimeError), (1, ValueError), (3, RuntimeError)):
            with pytest.raises(kind, match="sequence_parallel_size"):
                state.initialize_sequence_parallel(size)
        state.destroy()
        state.initialize_sequence_parallel(2)
