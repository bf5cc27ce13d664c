"""scripts/differences on an invented framework, whose groups are strided where ours need not be."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

CHECKOUT = {
    "invented/__init__.py": "raise ImportError\n",
    "invented/kernels.py": "raise ImportError\n",
    "invented/groups.py": """
import absent.of_all
import torch.distributed as dist
from invented.kernels import Attention

OWN = None

class Tower(Attention): ...

def tower(of: Attention | None) -> absent.Tower: ...

def make(size):
    global OWN
    world = dist.get_world_size()
    assert world % size == 0, f"{size} does not divide {world}"
    for start in range(world // size):
        ranks = range(start, world, world // size)
        group = dist.new_group(ranks, backend="nccl")
        if dist.get_rank() in ranks:
            OWN = group
""",
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script as a module; what it imports is forgotten afterwards."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    loader = importlib.machinery.SourceFileLoader("differences", str(SCRIPTS / "differences"))
    spec = importlib.util.spec_from_loader("differences", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    yield module
    ours = ("original_groups", "substitution", "invented", "absent")
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that has the framework."""
    for name, text in CHECKOUT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


class Invented:
    """As a file of scripts/original_groups; `stride` says whether ours has the groups of the original."""

    def __init__(self, checkout: Path, fake: bool, stride: bool = True) -> None:
        sources, self.meshes = self.part("sources"), self.part("meshes")
        self.source = sources.Source("invented", "invented", ("invented.groups",), checkout)
        self.module = self.source.load("invented.groups")
        self.fake, self.stride = fake, stride

    @staticmethod
    def part(name: str) -> Any:
        return importlib.import_module(f"original_groups.{name}")

    def original(self, settings: dict[str, int], rank: int, world: int) -> Any:
        answers, torch = self.part("answers"), importlib.import_module("torch")
        place = self.meshes.fake_world(rank, world) if self.fake else self.source.on(rank, world)
        with place as seen:
            try:
                self.module.make(**settings)
            except Exception as error:
                return answers.refusal(error)
            made = seen[""] if self.fake else [group.ranks for group in seen.made]
            own = torch.distributed.get_process_group_ranks(self.module.OWN)
        return answers.Answers(partitions={"tp": made}, groups={"tp": own}, answers={"rank": own.index(rank)})

    def ours(self, settings: dict[str, int], rank: int, world: int) -> Any:
        answers, size = self.part("answers"), settings["size"]
        if world % size:
            return answers.Answers(refused="it does not divide")
        count = world // size
        groups = [list(range(each, world, count)) for each in range(count)]
        if not self.stride:
            groups = [list(range(each * size, each * size + size)) for each in range(count)]
        own = next(group for group in groups if rank in group)
        return answers.Answers(partitions={"tp": groups}, groups={"tp": own}, answers={"rank": own.index(rank)})

    @staticmethod
    def settings(draw: random.Random) -> tuple[int, dict[str, int]]:
        size = draw.choice((1, 2, 4))
        return size * draw.choice((1, 2, 3)) + draw.choice((0, 0, 1)), {"size": size}


def compare(script: Any, framework: Invented) -> Any:
    """The comparison of 40 settings."""
    comparison, draw = script.Comparison(framework), random.Random(1)
    for _ in range(40):
        world, settings = framework.settings(draw)
        comparison.add(world, settings, range(world))
    return comparison


@pytest.mark.parametrize("fake", [False, True])
def test_equal_answers_are_no_difference(script: Any, checkout: Path, capsys: Any, fake: bool) -> None:
    comparison = compare(script, Invented(checkout, fake))
    assert comparison.close() == 0
    assert 0 < comparison.refused < 40
    assert capsys.readouterr().out == f"40 settings, {comparison.refused} refused by both, 0 differences\n"


@pytest.mark.parametrize("fake", [False, True])
def test_a_difference_is_shown_with_what_repeats_it(script: Any, checkout: Path, capsys: Any, fake: bool) -> None:
    comparison = compare(script, Invented(checkout, fake, stride=False))
    assert comparison.close() == 1
    times, refused = comparison.different, comparison.refused
    assert capsys.readouterr().out.splitlines() == [
        "rank 0 of --again '(6, {'size': 2})'",  # the first of each name
        "  groups of tp: [[0, 3], [1, 4], [2, 5]] in the original, [[0, 1], [2, 3], [4, 5]] in ours",
        "  group of tp: [0, 3] in the original, [0, 1] in ours",
        f"{times} times different: groups of tp",
        f"{times} times different: group of tp",
        f"40 settings, {refused} refused by both, {times} differences",
    ]


def test_refusals_of_one_side_are_differences(script: Any) -> None:
    answers = importlib.import_module("original_groups.answers")

    def counts(original: Any, ours: Any) -> tuple[int, int, int]:
        framework = SimpleNamespace(original=lambda *place: original, ours=lambda *place: ours)
        comparison = script.Comparison(framework)
        comparison.add(1, {}, [0])
        return comparison.different, comparison.refused, sum(comparison.rules.values())

    refused, taken = answers.Answers(refused="no"), answers.Answers(partitions={"tp": [[0]]})
    assert counts(refused, taken) == counts(taken, refused) == (1, 0, 0)
    assert counts(refused, refused) == (0, 1, 0)
    assert counts(taken, answers.Answers(refused="no", deliberately="a rule")) == (0, 0, 1)
    one, other = (answers.Answers(answers={"src_rank": answer}) for answer in (0, answers.Raised("no", "a rule")))
    assert counts(one, other) == (0, 0, 1)
    assert counts(one, answers.Answers(answers={"src_rank": answers.Raised("no")})) == (1, 0, 0)


def test_what_is_no_refusal_is_raised(script: Any) -> None:
    with pytest.raises(ImportError):
        importlib.import_module("original_groups.answers").refusal(ImportError("a stub that is missing"))


@pytest.mark.parametrize("archive", ["invented-1.2.0-py3-none-any.whl", "invented-1.2.0.tar.gz"])
def test_an_archive_is_as_good_as_a_checkout(script: Any, checkout: Path, archive: str) -> None:
    path = checkout / archive
    if archive.endswith(".whl"):
        with zipfile.ZipFile(path, "w") as wheel:
            for name in CHECKOUT:
                wheel.write(checkout / name, name)
    else:
        with tarfile.open(path, "w:gz") as tar:
            for name in CHECKOUT:
                tar.add(checkout / name, f"invented-1.2.0/src/{name}")
    framework = Invented(path, fake=True)
    assert framework.source.name == archive
    assert framework.original({"size": 2}, 1, 4).groups == {"tp": [1, 3]}


def test_torchs_meshes_are_of_any_rank(script: Any) -> None:
    meshes, torch = importlib.import_module("original_groups.meshes"), importlib.import_module("torch")
    with meshes.fake_world(5, 8) as made:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        assert meshes.described(mesh["tp"]) == {
            "names": ["tp"], "shape": [4], "ranks": [4, 5, 6, 7], "coordinate": [1],
            "groups": {"tp": [4, 5, 6, 7]}, "local_ranks": {"tp": 1},
        }  # fmt: skip
        assert meshes.partitions_of(made, 8)["mesh_dp"] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert not torch.distributed.is_initialized()
