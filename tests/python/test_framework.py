"""The frameworks that are described by rows: their modules, the answers for any rank, and groups of torch."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from rankmesh import UsageError, framework
from rankmesh._frameworks import rows
from with_numpy import needs_numpy

NAMES = [name for name in framework.names() if not rows.rows(name)["base"]]
"""Those whose module is written from their rows; others are written by hand, and inherit a base from them."""


def module(name: str) -> Any:
    own = rows.rows(name)["module"]
    return importlib.import_module(f"rankmesh.{name}.{own}" if own else f"rankmesh.{name}")


def owner(name: str) -> Any:
    """What has the accessors: the class that makes the groups, else the module."""
    make = getattr(module(name), rows.rows(name)["initialize"])
    return make if inspect.isclass(make) else module(name)


def is_needed(setting: dict[str, Any]) -> bool:
    return setting["needed"] or (setting["default"] is None and setting["type"] == "int")


def sizes(name: str, world: int) -> dict[str, int]:
    """Settings that the world divides: its first three axes have two ranks each."""
    settings = {each["name"]: each for each in rows.rows(name)["settings"] if each["axis"]}
    told = {key: each["axis"].split() for key, each in settings.items()}
    axes = list(dict.fromkeys(axis for each in told.values() for axis in each))[: world.bit_length() - 1]
    sizes = {key: 2 ** len(set(axes) & set(each)) for key, each in told.items()}
    needed = {key for key, each in settings.items() if is_needed(each)}
    return {key: size for key, size in sizes.items() if size > 1 or key in needed}


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_the_settings_and_accessors_of_its_rows(name: str) -> None:
    told = rows.rows(name)
    parameters = inspect.signature(getattr(module(name), told["initialize"])).parameters
    assert {
        each["name"]: None if is_needed(each) else each["default"]
        for each in told["settings"]
        if not each["only_configured"]
    } == {
        key: None if value.default is value.empty else value.default
        for key, value in parameters.items()
        if key not in ("rank", "world_size", "backend" if told["backend_after"] else "")
    }
    for each in told["accessors"]:
        if not each["name"].startswith("_"):  # else a variable
            assert inspect.getdoc(getattr(owner(name), each["name"])) == each["doc"]


@pytest.mark.parametrize("name", [pytest.param(each, marks=[needs_numpy] * (each == "nanotron")) for each in NAMES])
def test_a_module_answers_what_its_rows_say(name: str) -> None:
    for rank in range(8):
        state = framework.state(name, rank=rank, world_size=8, **sizes(name, 8))
        make = owner(name) if inspect.isclass(owner(name)) else module(name).for_rank
        current = make(rank=rank, world_size=8, **sizes(name, 8))
        for accessor, answer in state.answers().items():
            found = current.ask(accessor)
            found = found.flatten() if hasattr(found, "flatten") else found
            assert (
                list(found.ranks if hasattr(found, "ranks") else found) == answer
                if isinstance(answer, list)
                else found == answer
            )
        for kind, own in state.groups.items():
            group = current.group(kind)
            assert own == (None if group is None else list(getattr(group, "ranks", group)))
            assert own is None or own in state.partition(kind)


def live(rank: int, size: int) -> None:
    import torch
    import torch.distributed as dist

    for name in NAMES:
        told = rows.rows(name)
        made = getattr(module(name), told["initialize"])(**sizes(name, size))
        current = made or module(name).current
        state = framework.state(name, rank=rank, world_size=size, **sizes(name, size))
        for each in told["accessors"]:
            if each["quantity"] != "group" or each["name"] not in state.answers():
                continue
            group = getattr(made or module(name), each["name"])
            group = group if made and not each["options"] else group()
            ranks = state.ask(each["name"])
            if ranks is None:
                assert group is None
                continue
            group = getattr(group, "device_group", group)
            assert dist.get_process_group_ranks(group) == ranks
            total = torch.tensor([float(rank)])
            dist.all_reduce(total, group=group)
            assert total.item() == sum(ranks)
        current.destroy()
        assert not current.is_initialized()


def test_a_module_makes_groups_of_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch_ranks import ranks

    ranks(4, live, tmp_path)


def test_wrong_names_are_told() -> None:
    with pytest.raises(UsageError, match="did you mean 'tensor_model_parallel_size'"):
        framework.state("vllm", rank=0, world_size=8, tensor_model_parallel_siz=2)
    with pytest.raises(UsageError, match="vllm has no 'get_tb_group'; did you mean 'get_tp_group'"):
        framework.state("vllm", rank=0, world_size=8).ask("get_tb_group")


def test_a_module_names_the_nearest_accessor() -> None:
    from rankmesh import vllm

    with pytest.raises(UsageError, match="vllm has no 'get_tb_group'; did you mean 'get_tp_group'"):
        vllm.current.ask("get_tb_group")


def test_vllm_raises_what_the_original_raises() -> None:
    vllm = module("vllm")
    with pytest.raises(AssertionError, match="tensor model parallel group is not initialized"):
        vllm.get_tp_group()
    with pytest.raises(RuntimeError, match="a world of 8 ranks is not divided by dp 1 x pp 1 x pcp 1 x tp 3"):
        vllm.initialize_model_parallel(3, rank=0, world_size=8)
    with pytest.raises(RuntimeError, match="a world of 8 ranks is not divided by dp 1 x pp 1 x pcp 1 x tp 3"):
        vllm.for_rank(0, 8, tensor_model_parallel_size=3)
    with pytest.raises(AssertionError, match="EP group is only created for MoE models"):
        vllm.for_rank(0, 8, is_moe=False).ask("get_ep_group")
    state = vllm.for_rank(3, 8, tensor_model_parallel_size=4)
    assert repr(state) == "<vllm ParallelState: rank 3 of external_dp=2 dp=1 pp=1 pcp=1 tp=4>"
    assert repr(type(state)()) == "<vllm ParallelState: no groups yet>"
    group = state.ask("get_tp_group")
    assert (group.rank_in_group, group.next_rank, group.is_last_rank) == (3, 0, True)
    with pytest.raises(UsageError, match="a group without a process has ranks only"):
        _ = group.device_group


@needs_numpy
def test_a_class_answers_for_its_rank() -> None:
    make = module("nanotron").ParallelContext
    context = make(2, 2, 2, rank=5, world_size=8)
    assert (list(context.tp_pg), list(context.pp_pg), context.data_parallel_size) == ([4, 5], [1, 5], 2)
    assert (context.get_3d_ranks(), context.get_3d_ranks(world_rank=6)) == ([1, 0, 1], [1, 1, 0])
    assert context.world_rank_matrix.tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    with pytest.raises(AssertionError, match="a world of 8 ranks is not divided by data_parallel_size 3"):
        make(1, 1, 3, rank=0, world_size=8)
    with pytest.raises(ValueError, match="a world of 8 ranks is not expert 1 x pp 2 x dp 1 x tp 2, which is 4"):
        make(2, 2, 1, rank=0, world_size=8)
    with pytest.raises(UsageError, match="nanotron needs pipeline_parallel_size, which has no default"):
        framework.state("nanotron", rank=0, world_size=8, tensor_parallel_size=2, data_parallel_size=4)


def test_an_object_has_the_accessors_of_its_rows_as_properties() -> None:
    config = module("accelerate").ParallelismConfig(dp_shard_size=4, tp_size=2)
    assert (config.dp_shard_size, config.total_size, config.active_mesh_dims) == (4, 8, ["dp_shard", "tp"])
    assert list(config.group("dp_cp")) == [0, 2, 4, 6]
    with pytest.raises(UsageError, match="accelerate has no groups 'dp_shart'; did you mean 'dp_shard'"):
        config.group("dp_shart")
    with pytest.raises(ValueError, match="dp_shard_size is 0; every size is 1 or more"):
        module("accelerate").ParallelismConfig(dp_shard_size=0)


def test_the_object_that_a_function_made_is_given() -> None:
    veomni = module("veomni")
    with pytest.raises(UsageError, match="there is no ParallelState yet; call init_parallel_state first"):
        veomni.get_parallel_state()
    made = veomni.init_parallel_state(dp_size=4, extra_parallel_sizes=[2], rank=1, world_size=4)
    assert veomni.get_parallel_state() is made
    with pytest.warns(UserWarning, match="there is a ParallelState 'base' already, which stays"):
        assert veomni.init_parallel_state(dp_size=2) is made
    assert list(made.extra_parallel_group("ep")) == [0, 1]
    with pytest.raises(ValueError, match="extra_parallel_names does not have 'em'"):
        made.extra_parallel_group("em")


def test_the_size_of_the_world_alone_is_enough_for_a_configuration() -> None:
    dims = module("archon").ArchonParallelDims(tp=2, world_size=8)
    assert (dims.dp_shard_enabled, dims.context_and_model_parallel_size, dims.world_size) == (True, 2, 8)
    assert list(dims.get_group("tp")) == [0, 1]
    with pytest.raises(UsageError, match=r"was given rank alone; give world_size as well"):
        module("archon").ArchonParallelDims(rank=3)


def test_veomnis_states_have_names_and_one_of_them_is_current() -> None:
    veomni = module("veomni")
    veomni.clear_parallel_state()
    assert not veomni.is_parallel_state_initialized()
    first = veomni.init_parallel_state(dp_size=4, rank=1, world_size=4)
    second = veomni.init_parallel_state(tp_size=4, name="vision", rank=1, world_size=4)
    assert veomni.set_parallel_state(first) is second
    assert veomni.get_parallel_state_by_name("base") is first
    for state in ("vision", second):
        with veomni.use_parallel_state(state):
            assert veomni.get_parallel_state() is second
        assert veomni.get_parallel_state() is first
    with pytest.raises(ValueError, match=r"'audio' is not registered. Registered names: \['base', 'vision'\]"):
        veomni.get_parallel_state_by_name("audio")
    veomni.clear_parallel_state()
    with pytest.raises(UsageError, match="there is no ParallelState yet"):
        veomni.get_parallel_state()


@pytest.mark.parametrize("name", [name for name in NAMES if rows.rows(name)["by_value"]])
def test_objects_of_equal_settings_are_equal(name: str) -> None:
    settings = sizes(name, 8)
    make = owner(name)
    first, second = (make(**settings, rank=5, world_size=8) for _ in range(2))
    other = make(rank=0, world_size=1)
    assert first == second != other
    assert first != settings
    with pytest.raises(TypeError, match="unhashable type"):
        hash(first)
    for key, value in settings.items():
        assert getattr(first, key) == value
    accessors = {each["name"] for each in rows.rows(name)["accessors"]}
    for each in rows.rows(name)["settings"]:
        if not each["apart"] and not each["only_configured"] and each["name"] not in accessors | settings.keys():
            assert getattr(first, each["name"]) == each["default"]


def test_groups_that_exist_are_kept_if_their_settings_are_equal() -> None:
    from rankmesh import vllm

    vllm.initialize_model_parallel(2, 2, rank=5, world_size=8)
    try:
        vllm.ensure_model_parallel_initialized(2, 2)
        assert vllm.get_tp_group().ranks == [4, 5]
        with pytest.raises(AssertionError, match="the groups exist with tensor_model_parallel_size=2, not 4"):
            vllm.ensure_model_parallel_initialized(4, 2)
    finally:
        vllm.destroy_model_parallel()
    with pytest.raises(UsageError, match="give rank= and world_size="):
        vllm.ParallelState().ensure({"tensor_model_parallel_size": 2})


def test_the_backend_is_that_of_torchs_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import rankmesh.torch._named
    from rankmesh import nanotron, sglang, vllm
    from torch_ranks import fake_world

    made = []

    class Recorded(rankmesh.torch._named.NamedGroups):
        def __init__(self, said: str, wanted: Any) -> None:
            made.append((said, {each.backend for each in wanted}))
            super().__init__(said, wanted)

    monkeypatch.setattr(rankmesh.torch._named, "NamedGroups", Recorded)
    with fake_world(5, 8):
        nanotron.ParallelContext(2, 2, 2, backend="nccl").destroy()
        nanotron.ParallelContext(2, 2, 2).destroy()
    assert made[0][0].endswith("backend='nccl'")
    assert [backends for _, backends in made] == [{"nccl"}, {None}]
    for initialize, place in ((sglang.initialize_model_parallel, 0), (vllm.initialize_model_parallel, 4)):
        assert list(inspect.signature(initialize).parameters).index("backend") == place
