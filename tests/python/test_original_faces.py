"""What rankmesh's module lacks of its original's, which the pages of frameworks list: every difference is found."""

from __future__ import annotations

import importlib
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rankmesh._frameworks import rows

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import original_faces  # type: ignore[import-not-found,unused-ignore]

ORIGINAL = """
@dataclass(frozen=True)
class Config:
    tp: int = 1
    pp: int = 2
    _kept: int = 3

    @property
    def size(self): ...
    def mesh(self, kind): ...

class Plain:
    def __init__(self, a, *, b=None): ...

def get(name, rank=0): ...
def make(tp=1, backend=None, *, host="a"): ...
def _hidden(): ...
alias = get
"""


class Plain:
    def __init__(self, a: int, *, b: int | None = None) -> None: ...


@dataclass(frozen=True)
class Config:
    tp: int = 1
    pp: int = 2

    @property
    def size(self) -> int:
        return self.tp

    def mesh(self, kind: str) -> None: ...


def get(name: str, rank: int = 0, world_size: int | None = None) -> None: ...


def make(tp: int = 1, backend: str | None = None, *, host: str = "a") -> None: ...


def module(**others: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"Config": Config, "Plain": Plain, "get": get, "make": make, "alias": get, **others})


def test_a_module_with_all_names_lacks_none() -> None:
    names = original_faces.record(ORIGINAL)
    assert names["Config"] == ["tp=1", "pp=2"]
    assert not [name for name in names if "_kept" in name or "hidden" in name]
    assert list(original_faces.lacking(names, module())) == []


def test_what_a_module_lacks_is_found() -> None:
    class Other:
        def __init__(self, pp: int = 2, tp: int = 1) -> None: ...
        def size(self) -> None: ...

        @property
        def mesh(self) -> None: ...

        tp = pp = property()

    names = original_faces.record(ORIGINAL)
    for others, expected in (
        (
            {"Config": Other},
            {
                ("Config(tp)", "by place"),
                ("Config(pp)", "by place"),
                ("Config.size", "properties"),
                ("Config.mesh", "methods"),
                ("Config", "equality"),
            },
        ),
        ({"make": lambda tp=2, host="a": None}, {("make(tp)", "defaults"), ("make(backend)", "parameters")}),
        ({"get": lambda name, *, rank=0: None}, {("get(rank)", "by place")}),
        ({"Plain": lambda other: None}, {("Plain()", "parameters")}),
    ):
        assert set(original_faces.lacking(names, module(**others))) == expected
    without = module()
    del without.get
    assert list(original_faces.lacking(names, without)) == [("get", "names")]


def test_an_attribute_of_each_object_reads_as_a_property() -> None:
    class Attributes:
        size: int

    names = {"Plain.size": "property", "Plain.mesh": "property"}
    assert list(original_faces.lacking(names, module(Plain=Attributes))) == [("Plain.mesh", "names")]


@pytest.mark.parametrize("name", original_faces.faces())
def test_the_names_are_those_of_the_version_that_was_compared(name: str) -> None:
    face = original_faces.faces()[name]
    assert face["version"] == rows.rows(name)["version"]
    lacking = {name for name, _ in original_faces.lacking(face["names"], importlib.import_module(f"rankmesh.{name}"))}
    assert len(lacking) < len(face["names"])
