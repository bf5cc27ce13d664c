"""examples/python/train.py: in every layout the losses are those of one process."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import rankmesh

pytest.importorskip("torch", reason="PyTorch is not installed")
from torch_ranks import preload, ranks

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLE = SOURCE / "examples/python/train.py"
DOCUMENT = SOURCE / "docs/python-torch-measured.md"
STEPS = 3
preload("torch._dynamo")  # which the first optimizer of a process imports, in a second
LAYOUTS = [
    ["dp=8", "dp=2 tp=4"],
    ["cp=8", "pp=4 cp=2"],
    ["pp=2 dp=2 cp=2", "pp=2 cp=2 tp=2", "dp=2 cp=2 tp=2"],
]
ORDERS = [  # of the same sizes, as the frameworks lay them out
    ("pp=2 dp=2 tp=2", ("megatron", "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2")),
    ("dp=2 pp=2 tp=2", ("picotron", {"tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2})),
    ("tp=2 dp=2 pp=2", ("deepspeed", {"axes": ["model", "data", "pipe"], "dims": [2, 2, 2]})),
    ("pp=2 dp=2 tp=2", ("torchtitan", {"pipeline_parallel_degree": 2, "tensor_parallel_degree": 2})),
]


def example() -> Any:
    spec = importlib.util.spec_from_file_location("train", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def losses_alone() -> list[float]:
    found: list[float] = example().train_alone(STEPS)
    return found


def losses(rank: int, size: int, layouts: list[tuple[str, Any]]) -> list[tuple[str, list[float]]]:
    train = example()
    meshes = [train.mesh_of(settings, framework) for framework, settings in layouts]
    return [(mesh.text, train.train(mesh, STEPS)) for mesh in meshes]


def check(layouts: list[tuple[str, Any]], folder: Path) -> list[str]:
    """The meshes of these settings of frameworks, in each of which the losses must be those of one process."""
    alone = losses_alone()
    assert alone[-1] < alone[0] - 0.1  # it learns
    results = ranks(8, losses, folder, layouts)
    for rank, found in enumerate(results):
        assert len(found) == len(layouts)
        for mesh, together in found:
            apart = [abs(a - b) for a, b in zip(together, alone, strict=True)]
            assert all(each < 1e-9 for each in apart), f"{mesh} on rank {rank}: {together}, by one process {alone}"
    return [mesh for mesh, _ in results[0]]


@pytest.mark.parametrize("layouts", LAYOUTS, ids=", ".join)
def test_the_losses_of_every_layout_are_those_of_one_process(layouts: list[str], tmp_path: Path) -> None:
    check([("rankmesh", mesh) for mesh in layouts], tmp_path)


def test_so_they_are_in_the_orders_of_other_frameworks(tmp_path: Path) -> None:
    meshes = check([settings for _, settings in ORDERS], tmp_path)
    for text, (order, _) in zip(meshes, ORDERS, strict=True):
        mesh, expected = rankmesh.Mesh(text), rankmesh.Mesh(order)
        assert [mesh.group(5, axis) for axis in ("pp", "dp", "tp")] == [
            expected.group(5, axis) for axis in ("pp", "dp", "tp")
        ]


def test_meshes_of_the_documents_commands_fit_their_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    train, text = example(), DOCUMENT.read_text(encoding="utf-8").replace("\\\n", "")
    told = []
    for command in re.findall(r"^    torchrun --nproc-per-node .* train\.py .*$", text, re.MULTILINE):
        _, _, size, _, *words = shlex.split(command)
        monkeypatch.setattr(train.dist, "get_world_size", lambda size=size: int(size))
        framework = words[1] if words[0] == "--from" else "rankmesh"
        for settings in words[2:] if words[0] == "--from" else words:
            assert train.mesh_of(settings, framework).size == int(size)
            told += [settings] if framework == "rankmesh" else []
    assert f"In each of these {len(told)} meshes" in text


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 300
