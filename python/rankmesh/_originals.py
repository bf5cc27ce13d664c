"""Exceptions that have an original framework's type and are also errors of rankmesh."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from rankmesh._errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")


class FrameworkError(UsageError):
    """An original's error. `rule` names the row of docs/frameworks.md if the original silently continues."""

    fault: str
    rule: str

    def __init__(self, text: str = "", fault: str = "", rule: str = "") -> None:
        super().__init__(text)
        self.fault = fault
        self.rule = rule

    def __reduce__(self) -> tuple[Any, ...]:
        _, *kind = type(self).__bases__  # of a class that `original` has made, the original's type is the second
        return original, (*(kind or [FrameworkError]), str(self), self.fault, self.rule)


_classes: dict[type[Exception], type[FrameworkError]] = {}


def original(kind: type[Exception], text: str, fault: str = "", rule: str = "") -> FrameworkError:
    """Returns an exception of the original's type with this text, which is also a rankmesh.Error."""
    if issubclass(FrameworkError, kind):
        return FrameworkError(text, fault, rule)
    if kind not in _classes:
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _classes[kind] = type(kind.__name__, (FrameworkError, kind), names)
    return _classes[kind](text, fault, rule)


def refuse_if(condition: object, kind: type[Exception], text: str, fault: str, rule: str = "") -> None:
    """Raises an exception of the original's type if a condition holds."""
    if condition:
        raise original(kind, text, fault, rule)


def raises(
    default: type[Exception] | Callable[[FrameworkError], type[Exception]], **kinds: type[Exception]
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Makes a function raise the original's types, by fault, for errors of its framework.

    If a fault has several types in the original, `default` is a function that returns the type.

    >>> @raises(AssertionError, unknown=KeyError)
    ... def get_dim(axis): ...
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except FrameworkError as error:
                if type(error) is not FrameworkError:  # an inner function has chosen the type
                    raise
                other = default if isinstance(default, type) else default(error)
                kind = kinds.get(error.fault.replace(" ", "_"), other)
                if isinstance(error, kind):
                    raise
                raise original(kind, str(error), error.fault, error.rule) from None

        return call

    return decorate


def share(module: str, current: object, names: Iterable[str]) -> None:
    """Redirects variables of a module to an object, because programs set them in the module."""

    def variable(name: str) -> property:
        return property(lambda _: getattr(current, name), lambda _, value: setattr(current, name, value))

    kind = type("Module", (types.ModuleType,), {name: variable(name) for name in names})
    sys.modules[module].__class__ = kind
