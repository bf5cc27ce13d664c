"""The names of other frameworks over torch's process groups, on processes over Gloo."""

from __future__ import annotations

import datetime
import inspect
import json
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from torch_ranks import NewGroups, ranks  # noqa: E402


def check(group: Any, expected: Any) -> None:
    """A group of torch is of these ranks, in this order, and adds over them."""
    assert dist.get_process_group_ranks(group) == list(expected)
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total, group=group)
    assert total.item() == sum(expected)


def picotron(rank: int, size: int) -> None:
    from rankmesh.picotron import process_group_manager as pgm

    with NewGroups() as made:
        pgm.setup_process_group_manager(2, 1, 2, 2)
    live = pgm.process_group_manager
    pure = pgm.ProcessGroupManager(2, 1, 2, 2, rank=rank, world_size=size)
    for name in ("tp", "cp", "pp", "dp", "cp_dp", "pp_dp"):
        check(getattr(live, f"{name}_group"), getattr(pure, f"{name}_group"))
    assert live.cp_dp_group is live.dp_group
    assert live.world_group is dist.group.WORLD
    assert (live.tp_rank, live.pp_next_rank, str(live)) == (pure.tp_rank, pure.pp_next_rank, str(pure))
    assert list(map(len, made)) == [2, 1, 2, 2, 4]  # the original makes 26 groups, on every rank
    with pytest.raises(
        rankmesh.Disagreement, match=re.escape("rank 5: picotron: tp_size=2, cp_size=1, pp_size=4, dp_size=1")
    ):
        pgm.ProcessGroupManager(2, 1, 4 if rank == 5 else 2, 1 if rank == 5 else 2)
    with pytest.raises(AssertionError, match=re.escape("World size (8) != TP (3)")):
        pgm.ProcessGroupManager(3, 1, 1, 1)


def test_picotrons_manager_has_torchs_groups(tmp_path: Path) -> None:
    ranks(8, picotron, tmp_path)


def archon(rank: int, size: int) -> None:
    from rankmesh.archon import ArchonParallelDims

    dims = ArchonParallelDims(tp=2, world_size=size)
    check(dims.get_group("tp"), [rank // 2 * 2, rank // 2 * 2 + 1])
    with pytest.raises(rankmesh.UsageError, match="was given world_size alone; give rank as well"):
        ArchonParallelDims(tp=2, world_size=2 * size)


def test_archon_takes_the_size_of_torchs_world(tmp_path: Path) -> None:
    ranks(4, archon, tmp_path)


def one_is_missing(rank: int, size: int, store: str, framework: str) -> str:
    from rankmesh.megatron import parallel_state
    from rankmesh.picotron import process_group_manager as pgm

    dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1))  # which torch itself may need for the start
    if rank == 2:
        return ""
    makes = {
        "picotron": lambda: pgm.setup_process_group_manager(2, 1, 2, 1),
        "megatron": lambda: parallel_state.initialize_model_parallel(2),  # whose groups have a timeout of 30 minutes
    }
    with pytest.raises(rankmesh.Timeout) as caught:
        makes[framework]()
    assert (caught.value.arrived, caught.value.missing) == ([0, 1, 3], [2])
    return str(caught.value)


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("picotron", "picotron: tp_size=2, cp_size=1, pp_size=2, dp_size=1"),
        ("megatron", "megatron: tensor_model_parallel_size=2"),
    ],
)
def test_a_missing_rank_is_named_after_the_timeout_of_the_default_group(
    framework: str, said: str, tmp_path: Path
) -> None:
    texts = ranks(4, one_is_missing, tmp_path, str(tmp_path / "own"), framework, initialised=False)
    for rank in (0, 1, 3):
        assert texts[rank].startswith(f"the timeout of 1 s expired in init on rank {rank}: "), texts[rank]
        assert texts[rank].endswith(f"missing rank 2; this rank says {said}")


def timeout_on_the_backend(rank: int, size: int, store: str) -> None:
    from rankmesh.picotron import process_group_manager as pgm

    dist.init_process_group(
        "rankmesh",
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=40),
    )
    pgm.setup_process_group_manager(2, 1, 1, 1)
    assert timeout_of(pgm.process_group_manager.tp_group) == 40


def test_groups_on_the_backend_have_the_timeout_of_the_default_group(tmp_path: Path) -> None:
    ranks(2, timeout_on_the_backend, tmp_path, str(tmp_path / "own"), initialised=False)


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "context_parallel_size": 2},
    {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "order": "tp-pp-dp"},
    {"expert_model_parallel_size": 4, "expert_tensor_parallel_size": 1, "tensor_model_parallel_size": 2},
    {"num_distributed_optimizer_instances": 2, "create_gloo_process_groups": False},
    {"context_parallel_size": 4, "hierarchical_context_parallel_sizes": [2, 2], "distributed_timeout_minutes": 1},
    {"pipeline_model_parallel_size": 4, "get_embedding_ranks": lambda ranks: [ranks[0], ranks[-2]]},
]


def timeout_of(group: Any) -> float:
    """The timeout of a group's operations, in seconds."""
    options = group._get_backend(torch.device("cpu")).options
    return float(options._timeout.total_seconds())


def megatron(rank: int, size: int) -> None:
    from rankmesh.megatron import parallel_state as ps

    with pytest.raises(RuntimeError, match="is not divisible by"):
        ps.initialize_model_parallel(3, rank=1, world_size=64)
    ps.initialize_model_parallel(2, rank=1, world_size=64)
    ps.destroy_model_parallel()
    ps.initialize_model_parallel(2)  # not the rank of before
    assert (dist.get_world_size(), ps.get_data_parallel_world_size()) == (size, size // 2)
    check(ps.get_tensor_model_parallel_group(), [rank - rank % 2, rank - rank % 2 + 1])
    ps.destroy_model_parallel()
    for sizes in LAYOUTS:
        with NewGroups() as made:
            ps.initialize_model_parallel(**sizes)
        pure = ps.for_rank(rank, size, **sizes)
        distinct = set()
        for name in (name for name in dir(ps.current) if name.startswith("get_") and name.endswith(("group", "gloo"))):
            if "hierarchical" in name or "hybrid" in name:
                continue
            try:
                expected = getattr(pure, name)()
            except AssertionError as error:
                with pytest.raises(AssertionError, match=re.escape(str(error))):
                    getattr(ps, name)()
                continue
            if expected is None:
                assert getattr(ps, name)() is None
                continue
            check(getattr(ps, name)(), expected)
            distinct.add(tuple(expected))
        if "hierarchical_context_parallel_sizes" in sizes:
            levels = zip(
                ps.get_hierarchical_context_parallel_groups(),
                pure.get_hierarchical_context_parallel_groups(),
                strict=True,
            )
            for group, expected in levels:
                check(group, expected)
        assert distinct - {tuple(range(size))} <= set(map(tuple, made))
        assert len(made) == len(set(map(tuple, made)))  # each rank makes a group of these ranks once
        assert ps.get_tensor_model_parallel_rank() == pure.get_tensor_model_parallel_rank()
        assert ps.get_all_ranks() == pure.get_all_ranks()
        again, _ = ps.create_all_gather_groups()
        assert again is not ps.get_data_parallel_group(with_context_parallel=True)
        ps.destroy_model_parallel()
        assert not ps.model_parallel_is_initialized()
    ps.initialize_model_parallel(create_all_gather_group=True)
    to_gather = ps.get_data_parallel_group(with_context_parallel=True, independent_all_gather=True)
    check(to_gather, rankmesh.Group(range(size)))
    assert to_gather is not ps.get_data_parallel_group(with_context_parallel=True)
    ps.destroy_model_parallel()
    with pytest.raises(rankmesh.Disagreement) as caught:
        ps.initialize_model_parallel(tensor_model_parallel_size=4 if rank == 3 else 2)
    assert str(caught.value).splitlines()[1:] == [
        "  ranks {0..2, 4..7}: megatron: tensor_model_parallel_size=2",
        "  rank 3: megatron: tensor_model_parallel_size=4",
    ]
    assert not ps.model_parallel_is_initialized()
    picked = -1 if rank == 3 else 0
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: megatron: .*, get_embedding_ranks=\[1\]"):
        ps.initialize_model_parallel(pipeline_model_parallel_size=2, get_embedding_ranks=lambda ranks: [ranks[picked]])
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: megatron: .*=3, which is wrong: world_size \(8\)"):
        ps.initialize_model_parallel(tensor_model_parallel_size=3 if rank == 3 else 2)
    with pytest.raises(rankmesh.NotBuilt, match=r"use_sharp requires GPUs and the backend nccl, .* runs on gloo"):
        ps.initialize_model_parallel(use_sharp=True)
    if not dist.is_nccl_available():
        with pytest.raises(rankmesh.NotBuilt, match="this PyTorch is built without NCCL"):
            ps.initialize_model_parallel(high_priority_stream_groups=["dp"])
    assert not ps.model_parallel_is_initialized()
    ps.initialize_model_parallel(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)
    assert ps.get_tensor_model_parallel_group().group_desc == "TENSOR_MODEL_PARALLEL_GROUP"
    created = ps.create_group(range(size), group_desc="all")
    assert created.group_desc == "all"
    groups = (created, dist.group.WORLD, ps.get_tensor_model_parallel_group(), ps.get_pipeline_model_parallel_group())
    ps.update_pg_timeout(datetime.timedelta(seconds=50), created)
    assert [timeout_of(group) for group in groups] == [50, 1800, 1800, 1800]
    ps.update_pg_timeout(datetime.timedelta(seconds=40))
    assert [timeout_of(group) for group in groups] == [40, 40, 40, 40]


def test_megatrons_parallel_state_has_torchs_groups(tmp_path: Path) -> None:
    ranks(8, megatron, tmp_path)


def megatron_on_nccl(rank: int, size: int, config: str) -> None:
    """With stand-ins for what only a PyTorch with NCCL has."""
    from rankmesh.megatron import _nccl
    from rankmesh.megatron import parallel_state as ps

    sys.modules.setdefault("yaml", types.SimpleNamespace(safe_load=json.load))  # type: ignore[arg-type]

    class Options:
        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self.config = types.SimpleNamespace()

    made: dict[str, tuple[Any, str | None, str | None]] = {}
    original = dist.new_group

    def new_group(*args: Any, pg_options: Any = None, backend: str | None = None, **options: Any) -> Any:
        made[options["group_desc"]] = pg_options, backend, os.environ.get("NCCL_COLLNET_ENABLE")
        return original(*args, **options)

    new_group.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    dist.new_group = new_group
    dist.ProcessGroupNCCL = types.SimpleNamespace(Options=Options)
    connected: list[tuple[str, str | None]] = []
    _nccl._connect = lambda group: connected.append((group.group_desc, os.environ.get("NCCL_COLLNET_ENABLE")))
    _nccl.check_sharp = lambda: None
    ps.initialize_model_parallel(
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=2,
        nccl_communicator_config_path=config,
        high_priority_stream_groups=["dp_cp", "ep_dp"],
        use_sharp=True,
        pipeline_model_parallel_comm_backend="nccl",
    )
    with_cp, _, collnet = made["DATA_PARALLEL_GROUP_WITH_CP"]
    assert with_cp.is_high_priority_stream
    assert vars(with_cp.config) == {}
    assert collnet == "1"
    assert connected == [("DATA_PARALLEL_GROUP_WITH_CP", "1")]
    tp, _, collnet = made["TENSOR_MODEL_PARALLEL_GROUP"]
    assert vars(tp.config) == {"cga_cluster_size": 2, "max_ctas": 16, "net_name": "IB"}
    assert not tp.is_high_priority_stream
    assert collnet is None
    assert made["PIPELINE_MODEL_PARALLEL_GROUP"] == (None, "nccl", None)
    assert made["MODEL_PARALLEL_GROUP"][0] is None
    assert made["EXPERT_DATA_PARALLEL_GROUP"][0].is_high_priority_stream
    # Equal ranks with other options are another communicator.
    assert ps.get_data_parallel_group() is not ps.get_data_parallel_group(with_context_parallel=True)
    assert "NCCL_COLLNET_ENABLE" not in os.environ
    ps.destroy_model_parallel()
    Path(f"{config}.{rank}").write_text(json.dumps({"tp": {"max_ctas": 8 if rank == 3 else 16}}))
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: megatron: .*'max_ctas': 8"):
        ps.initialize_model_parallel(nccl_communicator_config_path=f"{config}.{rank}")
    with pytest.raises(rankmesh.Disagreement, match=r"rank 3: .*, which is wrong: .*No such file"):
        ps.initialize_model_parallel(nccl_communicator_config_path=f"{config}.none" if rank == 3 else None)
    assert not ps.model_parallel_is_initialized()


@pytest.mark.parametrize(
    ("gpus", "backends", "refused"),
    [
        (True, "cpu:gloo,cuda:nccl", False),  # of init_process_group without a backend, whose get_backend is undefined
        (True, "nccl", False),
        (True, "cpu:gloo,cuda:gloo", True),
        (False, "cpu:gloo,cuda:nccl", True),
    ],
)
def test_sharp_is_for_each_devices_backend_to_allow(
    monkeypatch: pytest.MonkeyPatch, gpus: bool, backends: str, refused: bool
) -> None:
    from rankmesh.megatron import _nccl

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus)
    monkeypatch.setattr(dist, "get_backend_config", lambda: backends)
    monkeypatch.setattr(dist, "get_backend", lambda: "undefined")
    if not refused:
        _nccl.check_sharp()
        return
    with pytest.raises(rankmesh.NotBuilt, match=r"use_sharp requires GPUs .* nccl, .*; leave it out"):
        _nccl.check_sharp()


def test_megatrons_options_for_nccl_reach_torchs_groups(tmp_path: Path) -> None:
    (tmp_path / "stores").mkdir()
    config = tmp_path / "nccl.yaml"
    sections = {"tp": {"cga_cluster_size": 2, "max_ctas": 16, "net_name": "IB"}, "unknown": {"max_ctas": 1}}
    config.write_text(json.dumps(sections))  # JSON is YAML
    ranks(8, megatron_on_nccl, tmp_path / "stores", str(config))


def megatron2022(rank: int, size: int) -> None:
    from rankmesh.megatron2022 import parallel_state as ps

    ps.initialize_model_parallel(2, rank=1, world_size=64)
    ps.destroy_model_parallel()
    for sizes in ((1, 1), (2, 2), (2, 4), (1, 4, 2, 2)):
        ps.initialize_model_parallel(*sizes)
        pure = ps.ParallelState(rank, size)
        pure.initialize_model_parallel(*sizes)
        for kind in ("data", "model", "tensor_model", "pipeline_model"):
            name = f"get_{kind}_parallel_group" if kind != "model" else "get_model_parallel_group"
            check(getattr(ps, name)(), getattr(pure, name)())
        for name in ("get_embedding_group", "get_position_embedding_group"):
            try:
                expected = getattr(pure, name)()
            except AssertionError:
                with pytest.raises(AssertionError):
                    getattr(ps, name)()
            else:
                check(getattr(ps, name)(), expected)
        ps.destroy_model_parallel()
    said = r"rank 1: megatron2022: tensor_model_parallel_size=2, pipeline_model_parallel_size=4"
    with pytest.raises(rankmesh.Disagreement, match=said):
        ps.initialize_model_parallel(2, 4 if rank == 1 else 2)
    assert not ps.model_parallel_is_initialized()


def test_the_parallel_state_of_2022_has_torchs_groups(tmp_path: Path) -> None:
    ranks(8, megatron2022, tmp_path)


def hyper_comm_grid(rank: int, size: int) -> None:
    from rankmesh.megatron import HyperCommGrid

    live = HyperCommGrid([2, 2, 2], ["tp", "cp", "dp"])
    pure = HyperCommGrid([2, 2, 2], ["tp", "cp", "dp"], rank=rank, world_size=size)
    for dims in ("tp", ["dp", "cp"], ["tp", "cp", "dp"]):
        group = live.create_pg(dims, group_desc="described")
        check(group, pure.create_pg(dims))
        assert group.group_desc == "described"
        assert live.get_pg(dims) is group
    with pytest.raises(KeyError, match="already been created"):
        live.create_pg("tp")
    dist.barrier()
    live.destroy()
    with pytest.raises(KeyError):
        live.get_pg("tp")
    with pytest.raises(ValueError, match="Invalid process group"):
        dist.destroy_process_group(group)


def test_a_grid_of_megatron_has_torchs_groups(tmp_path: Path) -> None:
    ranks(8, hyper_comm_grid, tmp_path)
