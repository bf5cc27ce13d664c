"""The grids and groups of DeepSpeed and AReaL over torch's process groups: what they have without a process, live."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.areal import (  # noqa: E402
    GLOBAL_PROCESS_GROUP_REGISTRY,
    ParallelGrid,
    ProcessTopology,
    destroy_all_comm_groups,
    new_or_get_group,
)
from rankmesh.deepspeed import PipelineParallelGrid, PipeModelDataParallelTopology, groups  # noqa: E402
from rankmesh.deepspeed.parallel_state_sp import SequenceState  # noqa: E402
from torch_ranks import NewGroups, fake_world, ranks  # noqa: E402

GRIDS = {
    PipelineParallelGrid: ["ds_model_proc_group", "dp_proc_group", "pp_proc_group", "slice_proc_group"],
    ParallelGrid: [
        "ds_model_proc_group",
        "ds_model_proc_group_gloo",
        "dp_proc_group",
        "dp_proc_group_gloo",
        "pp_proc_group",
        "pp_proc_group_gloo",
        "embedding_proc_group",
        "position_embedding_proc_group",
        "slice_proc_group",
        "slice_proc_group_gloo",
        "tp_dp_proc_group",
    ],
}
GETTERS = [
    "get_pipe_parallel_group",
    "get_data_parallel_group",
    "get_data_parallel_group_gloo",
    "get_model_parallel_group",
    "get_slice_parallel_group",
    "get_tensor_model_parallel_group",
    "get_tensor_model_parallel_cpu_group",
]
PLAIN = [
    "global_rank",
    "world_size",
    "stage_id",
    "data_parallel_id",
    "is_first_stage",
    "is_last_stage",
    "dp_group",
    "pp_group",
    "slice_group",
    "dp_groups",
    "pipe_groups",
    "model_groups",
    "p2p_groups",
    "mp_group",
    "ds_model_rank",
]


def handles(grid: Any) -> dict[str, Any]:
    """Every group of a grid, by the name of its attribute or getter."""
    found = {name: getattr(grid, name) for name in GRIDS[type(grid)]}
    return found | {name: getattr(grid, name)() for name in GETTERS if hasattr(grid, name)}


def check_like(live: Any, pure: Any) -> None:
    """A live grid has torch's groups where that of the same rank without a process has those ranks."""
    expected = handles(pure)
    for name, group in handles(live).items():
        of_torch = None if group is None else dist.get_process_group_ranks(group)
        assert of_torch == (None if expected[name] is None else list(expected[name])), name
    for name in PLAIN:
        assert getattr(live, name) == getattr(pure, name), name


WORLDS = [dims for dims in itertools.product((1, 2, 3), (1, 2, 4), (1, 2)) if dims != (1, 1, 1)]


@pytest.mark.parametrize(("pipe", "data", "model"), WORLDS)
def test_a_grid_of_deepspeed_has_torchs_groups_of_its_ranks(pipe: int, data: int, model: int) -> None:
    topo = PipeModelDataParallelTopology(num_pp=pipe, num_mp=model, num_dp=data)
    size = topo.world_size()
    for rank in range(size):
        with fake_world(rank, size), NewGroups() as made:
            live = PipelineParallelGrid(topology=topo, process_group=dist.group.WORLD)
            check_like(live, PipelineParallelGrid(topo, rank=rank, world_size=size))
            assert made == [list(each) for each in dict.fromkeys(map(tuple, made))]  # each set of ranks once
            assert all(rank in each for each in made)
            assert live.stage_to_global(pipe - 1) == live.pp_group[-1]


@pytest.mark.parametrize(("pipe", "data", "tensor"), WORLDS)
@pytest.mark.parametrize("axes", [["pipe", "data", "tensor"], ["data", "pipe", "tensor"]], ids="-".join)
def test_a_grid_of_areal_has_torchs_groups_of_its_ranks(axes: list[str], pipe: int, data: int, tensor: int) -> None:
    dims = {"pipe": pipe, "data": data, "tensor": tensor}
    topo = ProcessTopology(axes, [dims[axis] for axis in axes])
    size = 2 * topo.world_size() + 1
    mapping = {rank: 2 * rank + 1 for rank in range(topo.world_size())}
    for rank in range(size):
        with fake_world(rank, size), NewGroups() as made:
            model = dist.new_group(list(mapping.values()))
            made.clear()
            live = ParallelGrid(topo, model, mapping)
            check_like(live, ParallelGrid(topo, None, mapping, rank=rank, world_size=size))
            first = list(made)
            assert all(rank in each for each in first)
            registered = {each for each, _ in GLOBAL_PROCESS_GROUP_REGISTRY}
            assert sorted(map(tuple, first)) == sorted(registered)
            again = ParallelGrid(topo, model, mapping)
            assert all(group is handles(live)[name] for name, group in handles(again).items())
            assert made == first  # a second grid makes nothing
            if live.dp_proc_group is not None:
                assert new_or_get_group(dist.get_process_group_ranks(live.dp_proc_group)) is live.dp_proc_group
            destroy_all_comm_groups()
            assert len(GLOBAL_PROCESS_GROUP_REGISTRY) == 0


def made_of_groups(place: groups.Groups, expert: int, tensor: int) -> dict[str, Any]:
    """Everything that a Groups has after all kinds of groups were made."""
    sizes = [size for size in (1, 2, expert) if size]
    for size in dict.fromkeys(sizes):
        place._create_expert_and_data_parallel(size)
    place._init_tp_mesh_device(tensor)
    place._create_zero_param_parallel_group(expert)
    place.sequence_parallel_mesh(tensor)
    data, model = place._create_model_parallel(tensor)
    found: dict[str, Any] = {"data": data, "model": model}
    for name in dir(place):
        if not re.match("_?get_.*(group|rank|size|mygroup|dict|ranks)$", name) or "all_to_all" in name:
            continue
        try:
            found[name] = getattr(place, name)()
        except TypeError:  # of one expert size
            for size in sizes:
                found[f"{name} {size}"] = getattr(place, name)(f"ep_size_{size}")
    return found


def plain(value: Any) -> Any:
    """Ranks in place of a group."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, dist.ProcessGroup):
        return dist.get_process_group_ranks(value)
    return list(value) if isinstance(value, rankmesh.Group) else value


@pytest.mark.parametrize(("size", "expert", "tensor"), [(8, 4, 2), (8, 2, 4), (12, 6, 3), (2, 1, 2)])
def test_groups_of_deepspeed_are_torchs_of_their_ranks(size: int, expert: int, tensor: int) -> None:
    for rank in range(size):
        expected = made_of_groups(groups.Groups(rank=rank, world_size=size), expert, tensor)
        assert len(expected) > 40
        with fake_world(rank, size):
            place = groups.Groups()
            found = made_of_groups(place, expert, tensor)
            kinds = {name for name, value in found.items() if isinstance(value, dist.ProcessGroup)}
            assert kinds == {name for name, value in expected.items() if isinstance(value, rankmesh.Group)}
            assert {name: plain(value) for name, value in found.items()} == {n: plain(v) for n, v in expected.items()}
            name = f"ep_size_{expert}"
            for kind in ("expert", "expert_data"):
                group = getattr(place, f"_get_{kind}_parallel_group")(name)
                assert group.rank() == getattr(place, f"_get_{kind}_parallel_rank")(name)
                assert group.size() == getattr(place, f"_get_{kind}_parallel_world_size")(name)
            assert place._get_expert_broadcast_src_rank(name) == dist.get_global_rank(group, 0)
            of_node = place._get_local_all_to_all_group(device_per_node=2)
            assert place._get_local_all_to_all_group(device_per_node=2) is of_node
            pure = groups.Groups(rank=rank, world_size=size)._get_local_all_to_all_group(device_per_node=2)
            assert list(of_node) == list(pure)
            for each, group in of_node.items():
                mine = rank in pure[each]
                assert plain(group) == list(pure[each]) if mine else group is dist.GroupMember.NON_GROUP_MEMBER


def test_sequence_parallel_groups_of_deepspeed_are_torchs() -> None:
    for rank in range(8):
        pure = SequenceState(rank=rank, world_size=8)
        pure.initialize_sequence_parallel(4)
        with fake_world(rank, 8):
            live = SequenceState()
            live.initialize_sequence_parallel(4)
            for kind in ("sequence", "sequence_data"):
                group = getattr(live, f"get_{kind}_parallel_group")()
                assert plain(group) == plain(getattr(pure, f"get_{kind}_parallel_group")())
                assert group.rank() == getattr(live, f"get_{kind}_parallel_rank")()
                assert group.size() == getattr(live, f"get_{kind}_parallel_world_size")()


def test_unsorted_ranks_of_experts_stand_as_torch_sorts_them() -> None:
    for rank in range(8):
        with fake_world(rank, 8):
            place = groups.Groups()
            place._create_expert_and_data_parallel(8, mp_size=2)
            group = place._get_expert_parallel_group("ep_size_8")
            assert dist.get_process_group_ranks(group) == list(range(8))
            assert place._get_expert_parallel_group_ranks("ep_size_8") == [0, 2, 4, 6, 1, 3, 5, 7]
            assert place._get_expert_parallel_rank("ep_size_8") == group.rank() == rank


def test_an_mpu_and_a_device_mesh_of_clients_are_asked() -> None:
    with fake_world(5, 8):
        mpu = PipelineParallelGrid(PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=2))
        try:
            groups.mpu = mpu
            groups._create_expert_data_and_model_parallel(2, mpu)
            assert plain(groups._get_expert_parallel_group("ep_size_2")) == [5, 7] == mpu.dp_group
            assert groups._get_data_parallel_group() is mpu.dp_proc_group
            assert (groups._get_data_parallel_rank(), groups._get_broadcast_src_rank()) == (0, 5)
            groups.mpu = None
            groups.mesh_device = dist.init_device_mesh(
                "cpu", (4, 2), mesh_dim_names=("data_parallel", "sequence_parallel")
            )
            assert groups.current.mesh_device is groups.mesh_device
            assert plain(groups._get_data_parallel_group()) == [1, 3, 5, 7]
            assert plain(groups._get_sequence_parallel_group()) == [4, 5]
            assert (groups._get_data_parallel_rank(), groups._get_data_parallel_world_size()) == (2, 4)
            assert (groups._get_sequence_parallel_rank(), groups._get_sequence_parallel_world_size()) == (1, 2)
        finally:
            groups.current.destroy()
        assert groups.mesh_device is None


def test_an_mpu_over_a_plan_has_its_groups_under_deepspeeds_names() -> None:
    from rankmesh.deepspeed import mpu

    for rank in range(16):
        with fake_world(rank, 16):
            me = rankmesh.torch.init("pp=2 dp=2 sp=2 tp=2", over=[("pp", "tp"), ("dp", "sp")])
            unit = mpu(me, pipe="pp")
            assert not hasattr(unit, "get_sequence_parallel_group")  # DeepSpeed would take it for one with sequences
            assert unit.get_model_parallel_group() is me.group("pp", "tp")
            assert unit.get_data_parallel_group() is me.group("dp")
            assert unit.get_slice_parallel_group() is unit.get_tensor_model_parallel_group() is me.group("tp")
            assert unit.get_pipe_parallel_group() is me.group("pp")
            unit = mpu(me, pipe="pp", sequence="sp")
            assert unit.get_sequence_data_parallel_group() is me.group("dp", "sp")
            kinds = ("data", "model", "tensor_model", "pipe", "slice", "sequence", "sequence_data")
            for kind in kinds:
                group = getattr(unit, f"get_{kind}_parallel_group")()
                assert getattr(unit, f"get_{kind}_parallel_world_size")() == group.size()
                assert getattr(unit, f"get_{kind}_parallel_rank")() == group.rank()
            assert unit.get_data_parallel_group_ranks() == list(me.ranks("dp"))
            place = groups.Groups()
            place.mpu = unit
            assert place._get_sequence_data_parallel_group() is me.group("dp", "sp")
            assert place._get_broadcast_src_rank() == me.ranks("dp", "sp")[0]
            with pytest.raises(rankmesh.UsageError, match=re.escape('add over=[("pp", "dp")] to the declaration')):
                mpu(me, tensor="pp", pipe="dp")
            flat = mpu(me)
            assert (flat.get_pipe_parallel_group(), flat.get_pipe_parallel_rank()) == (None, 0)


def test_a_process_group_that_says_something_else_is_refused() -> None:
    topo = ProcessTopology(["pipe", "data", "tensor"], [2, 2, 1])
    with fake_world(5, 8):
        half = dist.new_group([4, 5, 6, 7])
        with pytest.raises(rankmesh.UsageError, match=r"over all 8 ranks, .* of ranks \{4\.\.7\}"):
            PipelineParallelGrid(process_group=half)
        with pytest.raises(rankmesh.UsageError, match="rank 5 is rank 1 of the process_group and rank -1 of the model"):
            ParallelGrid(topo, half)
        with pytest.raises(ValueError, match="rank 5 is rank 5 of the process_group and rank 1 of the model"):
            ParallelGrid(topo, None, {0: 4, 1: 5, 2: 6, 3: 7})
        assert ParallelGrid(topo, half, {0: 4, 1: 5, 2: 6, 3: 7}).global_rank == 1


def adds(group: Any, expected: Any) -> None:
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=group)
    assert total.item() == sum(expected)


def deepspeed_live(rank: int, size: int) -> None:
    topo = PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=2)
    with NewGroups() as made:
        live = PipelineParallelGrid(topology=topo)
    pure = PipelineParallelGrid(topo, rank=rank, world_size=size)
    check_like(live, pure)
    for name, group in handles(live).items():
        adds(group, handles(pure)[name])
    assert list(map(len, made)) == [4, 2, 2, 2]  # the original makes 14 groups, on every rank
    assert live.pp_proc_group.group_desc == "pp_proc_group"
    groups.mpu = live
    groups._create_expert_and_data_parallel(4)
    adds(groups._get_expert_parallel_group("ep_size_4"), groups._get_expert_parallel_group_ranks("ep_size_4"))
    adds(groups._get_expert_data_parallel_group("ep_size_4"), groups._get_expert_data_parallel_group_ranks("ep_size_4"))
    groups._init_tp_mesh_device(2)
    adds(groups.get_data_parallel_group(), range(rank % 2, 8, 2))
    with pytest.raises(rankmesh.Disagreement) as caught:
        PipelineParallelGrid(PipeModelDataParallelTopology(num_pp=2, num_mp=1 if rank == 6 else 2, num_dp=2))
    assert str(caught.value).splitlines()[1:] == [
        "  ranks {0..5, 7}: deepspeed: PipelineParallelGrid over pipe=2 data=2 model=2",
        "  rank 6: deepspeed: PipelineParallelGrid over pipe=2 data=2 model=1, which is wrong: Invalid Grid",
    ]
    with pytest.raises(AssertionError, match="Invalid Grid"):
        PipelineParallelGrid(PipeModelDataParallelTopology(num_pp=2, num_mp=1, num_dp=2))
    with pytest.raises(rankmesh.Disagreement, match=r"rank 1: deepspeed: _create_expert_and_data_parallel\("):
        groups._create_expert_and_data_parallel(8 if rank == 1 else 2)
    with pytest.raises(AssertionError, match="expert parallel group is not initialized"):
        groups._get_expert_parallel_group("ep_size_2")
    groups.current.destroy()
    with pytest.raises(AssertionError, match="data parallel group is not initialized"):
        groups.get_data_parallel_group()


def test_deepspeeds_grid_and_groups_move_data(tmp_path: Path) -> None:
    ranks(8, deepspeed_live, tmp_path)


def areal_live(rank: int, size: int) -> None:
    topo = ProcessTopology(["pipe", "data", "tensor"], [2, 2, 1])
    mapping = {0: 1, 1: 2, 2: 4, 3: 5}
    model = new_or_get_group(mapping.values())
    assert (model is dist.GroupMember.NON_GROUP_MEMBER) == (rank not in mapping.values())
    with NewGroups() as made:
        live = ParallelGrid(topo, model, mapping)
    pure = ParallelGrid(topo, None, mapping, rank=rank, world_size=size)
    check_like(live, pure)
    for name, group in handles(live).items():
        if group is not None:
            adds(group, handles(pure)[name])
            assert group._get_backend(torch.device("cpu")).options._timeout.total_seconds() == 7200
    assert all(rank in each for each in made)
    second = ParallelGrid(ProcessTopology(["data", "pipe", "tensor"], [2, 2, 1]), model, mapping)
    if rank in mapping.values():
        assert second.get_pipe_parallel_group() is live.get_data_parallel_group()
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: areal: ParallelGrid over pipe=4 data=1 tensor=1"):
        ParallelGrid(ProcessTopology(["pipe", "data", "tensor"], [4 if rank == 3 else 2, 1, 1]), None)
    with pytest.raises(rankmesh.Disagreement, match=r"rank 0: areal: new_or_get_group of {0, 1} on gloo"):
        new_or_get_group([0, 1 if rank == 0 else 2])
    dist.barrier()
    destroy_all_comm_groups()
    again = ParallelGrid(topo, new_or_get_group(mapping.values()), mapping)
    if again.dp_proc_group is not None:
        adds(again.dp_proc_group, pure.dp_proc_group)


def test_areals_grid_moves_data_between_the_ranks_of_a_model(tmp_path: Path) -> None:
    ranks(6, areal_live, tmp_path)
