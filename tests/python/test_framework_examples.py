"""The examples in the docstrings of the vocabularies are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

FRAMEWORKS = ["_device_mesh", "deepspeed", "llamafactory", "olmo", "torchtitan"]


def modules() -> Iterator[str]:
    for name in FRAMEWORKS:
        module = importlib.import_module(f"rankmesh.{name}")
        yield module.__name__
        for part in pkgutil.iter_modules(getattr(module, "__path__", []), f"{module.__name__}."):
            yield part.name


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module_are_true(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        pytest.skip("PyTorch is not installed")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_vocabulary_has_examples(name: str) -> None:
    finder = doctest.DocTestFinder()
    of_framework = [part for part in modules() if part.startswith(f"rankmesh.{name}")]
    assert any(test.examples for part in of_framework for test in finder.find(importlib.import_module(part)))
