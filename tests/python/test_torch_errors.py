"""Errors of rankmesh.torch: whatever ranks cause together is also torch's DistBackendError."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Disagreement, EngineFailure, Error, PeerLost, Sharding, Timeout
from rankmesh.torch import _errors
from rankmesh.torch.backend import register
from torch.distributed.device_mesh import init_device_mesh
from torch_ranks import free_port, ranks

SECOND = timedelta(seconds=1)


def started(rank: int, backend: str = "cpu:rankmesh", timeout: timedelta = timedelta(seconds=20)) -> None:
    dist.init_process_group(backend, timeout=timeout)
    rankmesh.torch.install()


def other_plans(rank: int) -> None:
    rankmesh.torch.init("dp=2 tp=1" if rank else "dp=1 tp=2")


def other_plans_later(rank: int) -> None:
    started(rank, "gloo")
    rankmesh.torch.init("dp=2 tp=1" if rank else "dp=1 tp=2")


def other_meshes(rank: int) -> None:
    started(rank)
    init_device_mesh("cpu", (2, 1) if rank else (1, 2), mesh_dim_names=("dp", "tp"))


def other_meshes_on_gloo(rank: int) -> None:
    started(rank, "gloo")
    init_device_mesh("cpu", (2, 1) if rank else (1, 2), mesh_dim_names=("dp", "tp"))


def other_meshes_at_the_start(rank: int) -> None:
    rankmesh.torch.init_device_mesh("cpu", (2, 1) if rank else (1, 2), mesh_dim_names=("dp", "tp"))


def other_settings_of_a_framework(rank: int) -> None:
    from rankmesh.megatron import parallel_state

    started(rank)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=1 + rank)


def other_layouts(rank: int) -> None:
    started(rank)
    state = {"w": torch.ones(2, 3)}
    rankmesh.torch.reshard(
        state, {}, from_={"w": Sharding("tp=2", (2, 6), "1=tp") if rank else Sharding("tp=2", (4, 3), "0=tp")}
    )


def no_rank_0(rank: int) -> None:
    if rank:
        rankmesh.torch.init("dp=2", timeout=SECOND)


def no_rank_1(rank: int) -> None:
    if not rank:
        rankmesh.torch.init("dp=2", timeout=SECOND)


def no_rank_1_in_a_mesh(rank: int) -> None:
    started(rank, timeout=SECOND)
    if not rank:
        init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))


def no_rank_1_in_a_group(rank: int) -> None:
    started(rank, timeout=SECOND)
    if not rank:
        dist.new_group([0, 1], timeout=SECOND, use_local_synchronization=True)


def no_rank_1_in_a_start(rank: int) -> None:
    if not rank:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True)
        dist.init_process_group("cpu:rankmesh", store=store, rank=0, world_size=2, timeout=SECOND)


CASES: list[tuple[Callable[[int], None], type[Error], int]] = [
    (other_plans, Disagreement, 2),
    (other_plans_later, Disagreement, 2),
    (other_meshes, Disagreement, 2),
    (other_meshes_on_gloo, Disagreement, 2),
    (other_meshes_at_the_start, Disagreement, 2),
    (other_settings_of_a_framework, Disagreement, 2),
    (other_layouts, Disagreement, 2),
    (no_rank_0, Timeout, 1),
    (no_rank_1, Timeout, 1),
    (no_rank_1_in_a_mesh, Timeout, 1),
    (no_rank_1_in_a_group, Timeout, 1),
    (no_rank_1_in_a_start, Timeout, 1),
]


def raised(rank: int, size: int, port: int, program: Callable[[int], None]) -> list[Any]:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    register()
    try:
        program(rank)
    except Exception as error:
        same = pickle.loads(pickle.dumps(error))
        kinds = [type(error).__name__, isinstance(error, dist.DistBackendError), type(same) is type(error)]
        return [kinds, str(error) == str(same), same.__dict__ == error.__dict__, str(error)]
    return []


@pytest.mark.parametrize(("program", "kind", "most"), CASES, ids=lambda each: getattr(each, "__name__", ""))
def test_what_ranks_cause_together_is_an_error_of_torch(
    program: Callable[[int], None], kind: type[Error], most: int, tmp_path: Path
) -> None:
    found = [each for each in ranks(2, raised, tmp_path, free_port(), program, initialised=False) if each]
    assert [each[:3] for each in found] == [[[kind.__name__, True, True], True, True]] * most, found


@pytest.mark.parametrize(
    "error", [Disagreement("a", [1]), PeerLost("b", [2]), Timeout("c", [0], [1]), EngineFailure("d")]
)
def test_an_error_of_the_engine_keeps_its_ranks(error: Error) -> None:
    for ending in ("", "; in mesh dp=2 that is rank 1"):
        made = _errors.of_backend(error, ending)
        assert isinstance(made, dist.DistBackendError)
        assert isinstance(made, type(error))
        assert (str(made), made.__dict__) == (f"{error}{ending}", error.__dict__)
    assert _errors.of_backend(KeyError("x")).args == ("x",)
