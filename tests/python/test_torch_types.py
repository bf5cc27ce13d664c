"""spmd_types on rankmesh's groups: examples/python/train_types.py finds wrong sums that are planted into train.py."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
spmd = pytest.importorskip("spmd_types", reason="spmd_types is not installed")
import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import Mesh
from spmd_types import P, R, V
from spmd_types.checker import typecheck
from torch_ranks import fake_world, preload, ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"
WHOLE = "pp=2 dp=2 cp=2 tp=2"
preload("torch._dynamo")


class Bug(NamedTuple):
    """A mistake: what stands in train.py, what is planted there, a mesh of four ranks that it harms, and the error."""

    name: str
    right: str
    wrong: str
    mesh: str
    error: str


COLUMN = "F.linear(Copy.apply(x, self.group), self.weight, self.bias)"
ROW = "Sum.apply(F.linear(x, self.weight), self.group) + self.bias"
ADAM, STEP, TABLE = 'me.group("dp", "cp"))\n', "            adam.step()\n", "gpt.table.weight.grad, group=ends"
BUGS = [
    Bug("no sum over tp of an input's gradient", COLUMN, "F.linear(x, self.weight, self.bias)", "dp=2 tp=2", "x"),
    Bug("two sums over tp of an input's gradient", COLUMN, COLUMN.replace("Copy.apply(x", "Copy.apply(Copy.apply(x, self.group)"), "dp=2 tp=2", "x"),
    Bug("no sum over tp of outputs", ROW, "F.linear(x, self.weight) + self.bias", "dp=2 tp=2", "x"),
    Bug("two sums over tp of outputs", ROW, f"Sum.apply({ROW}, self.group)", "dp=2 tp=2", "x"),
    Bug("a bias inside of the sum over tp", ROW, "Sum.apply(F.linear(x, self.weight, self.bias), self.group)", "dp=2 tp=2", "x"),
    Bug("no sum over cp of gradients", ADAM, 'me.group("dp"))\n', "dp=2 cp=2", "x"),
    Bug("no sum over dp of gradients", ADAM, 'me.group("cp"))\n', "dp=2 cp=2", "x"),
    Bug("two sums over dp of gradients", STEP, '            for p in gpt.parameters():\n                dist.all_reduce(p.grad, group=me.group("dp"))\n' + STEP, "dp=2 tp=2", "x"),
    Bug("a sum over tp of gradients that are equal along it", STEP, '            dist.all_reduce(gpt.blocks[0].norm1.weight.grad, group=me.group("tp"))\n' + STEP, "dp=2 tp=2", "x"),
    Bug("no sum of a tied table's gradient over its stages", TABLE, "gpt.table.weight.grad.clone(), group=ends", "pp=2 dp=2", "x"),
    Bug("a tied table's gradient summed over dp besides", TABLE, 'gpt.table.weight.grad, group=me.group("dp")', "pp=2 dp=2", "x"),
    Bug("a mean of the rank's own tokens", 'reduction="sum") / (BATCH * SEQUENCE)', 'reduction="mean") / MICROBATCHES', "dp=2 cp=2", "x"),
    Bug("a sum divided by the number of the rank's own tokens", 'reduction="sum") / (BATCH * SEQUENCE)', 'reduction="sum") / (targets >= 0).sum() / MICROBATCHES', "dp=2 cp=2", "x"),
]


def program(bug: Bug | None = None) -> Any:
    """train.py as a new module, with a bug."""
    source = (EXAMPLES / "train.py").read_text(encoding="utf-8")
    if bug is not None:
        assert source.count(bug.right) == 1
        source = source.replace(bug.right, bug.wrong)
    module = types.ModuleType("train")
    exec(compile(source, "train.py", "exec"), vars(module))
    return module


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("train", "train_types"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import train_types

    return train_types.check


@pytest.mark.parametrize("mesh", [WHOLE, "dp=4 tp=2 pp=1 cp=1", "tp=2 pp=1 dp=1 cp=4"])
def test_types_of_the_right_program_fit(check: Any, mesh: str) -> None:
    for rank in (0, Mesh(mesh).size - 1):
        check(program(), Mesh(mesh), rank)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_types_when_a_sum_is_wrong_do_not_fit(check: Any, bug: Bug) -> None:
    with pytest.raises(spmd.SpmdTypeError) as caught:
        for rank in (0, 15):
            check(program(bug), Mesh(WHOLE), rank)
    print('\nXX', bug.name, "::", str(caught.value).splitlines()[0])
