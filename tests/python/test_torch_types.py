"""spmd_types on rankmesh's groups: examples/python/train_types.py finds wrong sums that are planted into train.py."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("spmd_types", reason="spmd_types is not installed")
import rankmesh.torch
import spmd_types as spmd
import torch
import torch.distributed as dist
from rankmesh import Mesh
from spmd_types import P, R, V
from spmd_types._mesh_axis import _reset
from spmd_types.checker import typecheck
from torch_ranks import fake_world, preload, ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"
DOCUMENT = EXAMPLES.parents[1] / "docs/python-torch-types.md"
WHOLE = "pp=2 dp=2 cp=2 tp=2"
STEPS = 3
preload("torch._dynamo")  # which the first optimizer of a process imports, in a second


class Bug(NamedTuple):
    """A mistake in train.py, a mesh of four ranks that it harms, and how the error of the types begins."""

    name: str
    right: str
    wrong: str
    mesh: str
    error: str = ""


COLUMN = "F.linear(Copy.apply(x, self.group), self.weight, self.bias)"
ROW = "Sum.apply(F.linear(x, self.weight), self.group) + self.bias"
ADAM, STEP, TABLE = 'me.group("dp", "cp"))\n', "            adam.step()\n", "gpt.table.weight.grad, group=ends"
LOSS = 'reduction="sum") / (BATCH * SEQUENCE)'
BUGS = [
    Bug(
        "no sum over tp of the gradient of a layer's input",
        COLUMN,
        COLUMN.replace("Copy.apply(x, self.group)", "x"),
        "dp=2 tp=2",
        "Invariant type on axis tp cannot mix with other types.",
    ),
    Bug(
        "two sums over tp of the gradient of a layer's input",
        COLUMN,
        COLUMN.replace("Copy.apply(x", "Copy.apply(Copy.apply(x, self.group)"),
        "dp=2 tp=2",
        "rules.convert(tp, src=I, dst=R) expects its input to be I on axis tp, but it is R",
    ),
    Bug(
        "no sum over tp of a layer's output",
        ROW,
        "F.linear(x, self.weight) + self.bias",
        "dp=2 tp=2",
        "Invariant type on axis tp cannot mix with other types.",
    ),
    Bug(
        "two sums over tp of a layer's output",
        ROW,
        f"Sum.apply({ROW}, self.group)",
        "dp=2 tp=2",
        "rules.all_reduce(tp, src=V, dst=I) expects its input to be V on axis tp, but it is I",
    ),
    Bug(
        "a bias inside of the sum over tp",
        ROW,
        "Sum.apply(F.linear(x, self.weight, self.bias), self.group)",
        "dp=2 tp=2",
        "Invariant type on axis tp cannot mix with other types.",
    ),
    Bug(
        "no sum over cp of gradients",
        ADAM,
        'me.group("dp"))\n',
        "dp=2 cp=2",
        "Partial type on axis cp cannot combine with Varying.",
    ),
    Bug(
        "no sum over dp of gradients",
        ADAM,
        'me.group("cp"))\n',
        "dp=2 cp=2",
        "Partial type on axis dp cannot combine with Varying.",
    ),
    Bug(
        "two sums over dp of gradients",
        STEP,
        '            for p in gpt.parameters():\n                dist.all_reduce(p.grad, group=me.group("dp"))\n'
        + STEP,
        "dp=2 tp=2",
        "SPMD type mismatch on axis dp: tensor has R, expected P",
    ),
    Bug(
        "a sum over tp of a gradient that is equal along tp",
        STEP,
        '            dist.all_reduce(gpt.blocks[0].norm1.weight.grad, group=me.group("tp"))\n' + STEP,
        "dp=2 tp=2",
        "SPMD type mismatch on axis tp: tensor has I, expected P",
    ),
    Bug(
        "no sum over pp of the gradient of a tied table",
        TABLE,
        "gpt.table.weight.grad.clone(), group=ends",
        "pp=2 dp=2",
        "Partial type on axis pp cannot combine with Varying.",
    ),
    Bug(
        "the gradient of a tied table summed over dp",
        TABLE,
        'gpt.table.weight.grad, group=me.group("dp")',
        "pp=2 dp=2",
        "Partial type on axis dp in a linear op requires all operands to be Partial",
    ),
    Bug(
        "the mean of each rank's own tokens as its part of a sum",
        LOSS,
        'reduction="mean") / MICROBATCHES',
        "dp=2 cp=2",
        "backward() on a Varying loss on axis cp would produce incorrect gradients.",
    ),
    Bug(
        "a sum divided by the number of each rank's own tokens",
        LOSS,
        'reduction="sum") / (targets >= 0).sum() / MICROBATCHES',
        "dp=2 cp=2",
        "Partial type on axis cp cannot combine with Varying.",
    ),
]
UNSEEN = [
    Bug(
        "an autograd function whose backward pass lacks its sum",
        "        dist.all_reduce(grad, group=ctx.group)\n",
        "",
        "dp=2 tp=2",
    ),
    Bug("a wrong constant factor", "/ (BATCH * SEQUENCE)", "/ BATCH", "dp=2 tp=2"),
    Bug(
        "attention to the rank's own part of a sequence",
        "RingAttention.apply(q, k, v, me)",
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "dp=2 cp=2",
    ),
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


def error_of(error: Exception) -> str:
    """An error with the names of types as users write them."""
    return str(error).replace("PerMeshAxisLocalSpmdType.", "")


@pytest.fixture(autouse=True)
def _one_thread_and_no_names() -> Iterator[None]:
    _reset()  # spmd_types keeps the names of axes of earlier meshes
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the machine may be busy
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("train", "train_types"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import train_types

    def both_ends(bug: Bug | None, mesh: str) -> None:
        for rank in (0, Mesh(mesh).size - 1):  # of the pipeline
            train_types.check(program(bug), Mesh(mesh), rank)

    return both_ends


@pytest.mark.parametrize("mesh", [WHOLE, "dp=4 tp=2", "tp=2 cp=4"])
def test_types_of_the_right_program_fit(check: Any, mesh: str) -> None:
    check(None, mesh)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_types_when_a_sum_is_wrong_do_not_fit(check: Any, bug: Bug) -> None:
    with pytest.raises(spmd.SpmdTypeError) as caught:
        check(bug, WHOLE)
    assert error_of(caught.value).startswith(bug.error)


@pytest.mark.parametrize("bug", UNSEEN, ids=lambda bug: bug.name)
def test_types_of_other_mistakes_fit(check: Any, bug: Bug) -> None:
    check(bug, WHOLE)


def losses(rank: int, size: int) -> list[list[float]]:
    found = []
    for bug in [None, *BUGS, *UNSEEN]:
        train = program(bug)
        found.append(train.train(train.mesh_of(bug.mesh if bug else "dp=2 tp=2"), STEPS))
    return found


def test_each_planted_bug_changes_the_losses(tmp_path: Path) -> None:
    alone = program().train_alone(STEPS)
    right, *wrong = ranks(4, losses, tmp_path)[0]
    assert max(abs(a - b) for a, b in zip(right, alone, strict=True)) < 1e-9
    for bug, found in zip(BUGS + UNSEEN, wrong, strict=True):
        change = max(abs(a - b) for a, b in zip(found, alone, strict=True))
        (shown,) = re.findall(rf"^\| {bug.name} \| (\S+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
        assert float(shown) / 2 < change < float(shown) * 2, bug.name


def step_of_experts(me: Any, router_over: tuple[str, ...], experts_over: tuple[str, ...]) -> None:
    """A step of a layer whose experts are on the ranks along ep, with tokens of its own on every rank."""
    with spmd.set_current_mesh(me.device_mesh()):
        router = spmd.assert_type(torch.ones(4, 4, requires_grad=True), R)
        expert = spmd.assert_type(torch.ones(4, 4, requires_grad=True), {"dp": R, "ep": V})
        tokens = spmd.assert_type(torch.ones(2, 3, 4), V)  # for the experts of each rank
        with typecheck():
            there = spmd.all_to_all(tokens @ router, me.group("ep"), src=V, dst=V)
            back = spmd.all_to_all(there @ expert, me.group("ep"), src=V, dst=V)
            loss = back.square().sum()
            for axis in ("dp", "ep"):
                loss = spmd.reinterpret(loss, axis, src=V, dst=P)
            loss.backward()
            for parameter, over in ((router, router_over), (expert, experts_over)):
                types = spmd.get_local_type(parameter)
                spmd.assert_type(parameter.grad, {axis: kind.backward_type() for axis, kind in types.items()})
                for axis in over:
                    dist.all_reduce(parameter.grad, group=me.group(axis))
                with torch.no_grad():
                    parameter -= parameter.grad


EXPERTS = {
    "no sum over ep of the gradient of a router": (("dp",), ("dp",), "Partial type on axis ep in a linear op requires"),
    "no sum over dp of the gradient of experts": (("dp", "ep"), (), "Partial type on axis dp in a linear op requires"),
    "a sum over ep of the gradients of different experts": (
        ("dp", "ep"),
        ("dp", "ep"),
        "all_reduce: expected input type P on axis ep, got V",
    ),
}


@pytest.mark.parametrize("bug", [None, *EXPERTS])
def test_types_of_experts_fit_exactly_when_sums_are_right(bug: str | None) -> None:
    with fake_world(0, 4), rankmesh.torch.init("dp=2 ep=2") as me:
        if bug is None:
            step_of_experts(me, ("dp", "ep"), ("dp",))
            return
        router_over, experts_over, error = EXPERTS[bug]
        with pytest.raises(spmd.SpmdTypeError) as caught:
            step_of_experts(me, router_over, experts_over)
        assert error_of(caught.value).startswith(error)


def test_the_document_shows_these_bugs_and_errors() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \|.* `(.*)` \|$", text, re.MULTILINE)
    assert [row for row in rows if len(row[0]) > 20] == [
        *((bug.name, bug.error) for bug in BUGS),
        *((name, error) for name, (_, _, error) in EXPERTS.items()),
    ]


def test_snippets_of_the_document_are_code_that_runs() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (EXAMPLES / "train_types.py", Path(__file__))]
    shown = re.findall(r"^ *```python\n(.*?)^ *```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    for block in shown:
        assert any(block in source for source in sources), block


def test_the_command_prints_what_the_document_shows(
    check: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, printed = re.findall(r"^\$ python train_types.py \"(.*)\"\n(.*)$", DOCUMENT.read_text(), re.MULTILINE)[0]
    monkeypatch.setattr(sys, "argv", ["train_types.py", command])
    import train_types

    train_types.main()
    assert capsys.readouterr().out.strip() == printed
