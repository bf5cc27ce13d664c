"""inspect.signature works on everything public that can be called."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rankmesh


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function, class that can be called, and method of the package, by name."""
    for name in rankmesh.__all__:
        value = getattr(rankmesh, name)
        if isinstance(value, type) and issubclass(value, dict):
            continue  # whose methods have none
        if isinstance(value, type):
            if not isinstance(vars(value).get("__init__"), types.WrapperDescriptorType):  # of nanobind, which raises
                yield name, value
            for method, of in inspect.getmembers(value, callable):
                if not method.startswith("_") and not isinstance(of, type) and not hasattr(BaseException, method):
                    yield f"{name}.{method}", of
        elif callable(value):
            yield name, value


ALL = dict(public())


@pytest.mark.parametrize("name", ALL)
def test_everything_public_has_a_signature(name: str) -> None:
    signature = inspect.signature(ALL[name])
    owner, _, _ = name.rpartition(".")
    if type(ALL[name]).__name__ == "nb_method":
        assert next(iter(signature.parameters)) == "self"
    assert owner or "self" not in signature.parameters


def test_parameters_have_their_kinds_defaults_and_types() -> None:
    assert {"check", "Mesh", "Mesh.group", "Communicator.all_reduce", "World.from_environment"} <= ALL.keys()
    shown = inspect.signature(rankmesh.show)
    assert str(shown.replace(return_annotation=inspect.Signature.empty)) == (
        "(mesh: 'str | Mesh | Placement', *, on: 'str | None' = None, rank: 'int | None' = None)"
    )
    assert shown.return_annotation == "Picture"
    neighbor = inspect.signature(rankmesh.Mesh.neighbor)
    assert list(neighbor.parameters) == ["self", "rank", "axis", "by", "edge"]
    assert neighbor.parameters["edge"].default == "open"
    assert inspect.signature(rankmesh.place).parameters["bytes"].default == 64 << 20
    group = inspect.signature(rankmesh.Mesh.group).parameters
    assert [group[name].kind for name in group] == [
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.VAR_POSITIONAL,
    ]
    inspect.signature(rankmesh.Mesh).bind("dp=2 tp=*", 8)
    with pytest.raises(TypeError):
        inspect.signature(rankmesh.show).bind("dp=2", "node:2")


def test_a_bound_method_has_no_self() -> None:
    mesh = rankmesh.Mesh("dp=2 tp=2")
    assert list(inspect.signature(mesh.coord).parameters) == ["rank"]
    assert list(inspect.signature(mesh.group).parameters) == ["rank", "axes"]
    assert str(inspect.signature(mesh.shifted)) == "(by: 'int') -> 'Mesh'"


def test_overloads_have_any_parameters() -> None:
    assert str(inspect.signature(rankmesh.Group.__getitem__)) == "(self, /, *args, **kwargs) -> 'int'"
