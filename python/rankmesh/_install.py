"""Installs modules of this package under the names of the originals: a program's imports then find them."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from rankmesh._errors import UsageError

_ours: dict[str, str] = {}  # our module under each name of an original's


class _Loader(importlib.abc.Loader):
    """Loads a module of rankmesh without changing it. A package finds the original's modules beside its own."""

    def __init__(self, original: importlib.machinery.ModuleSpec | None) -> None:
        self._folders = original.submodule_search_locations if original is not None else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours[spec.name])
        self._spec = module.__spec__
        if self._folders is not None and hasattr(module, "__path__"):
            module.__path__.extend(self._folders)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has set the original's


class _Modules(importlib.abc.MetaPathFinder):
    """Finds rankmesh's modules before the originals."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _ours:
            return None
        original = importlib.machinery.PathFinder.find_spec(fullname, path)
        return importlib.machinery.ModuleSpec(fullname, _Loader(original))


class _Packages(importlib.abc.MetaPathFinder):
    """Finds an empty package if the parent package of a module of rankmesh does not exist."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(name.startswith(fullname + ".") for name in _ours):
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        return None


_finders = _Modules(), _Packages()


def installer(
    package: str, originals: Mapping[str, Sequence[str]], aliases: Mapping[str, str] | None = None
) -> Callable[[], None]:
    """Returns the function `install` of a package. Modules can belong to packages of the original; "" is the package
    itself. An alias is another full name of the original's for a module."""
    named = {f"{original}.{module}": module for original, names in originals.items() for module in names}
    named.update(aliases or {})
    modules = {name.rstrip("."): f"{package}.{module}".rstrip(".") for name, module in named.items()}

    def install() -> None:
        for name, ours in modules.items():
            there = sys.modules.get(name)
            if there is not None and there is not sys.modules.get(ours):
                where = getattr(there, "__file__", None) or "no file"
                raise UsageError(
                    f"{name} was imported before, from {where}, and what was taken from it would stay; "
                    f"call {package}.install() before the first import of it"
                )
        _ours.update(modules)
        if _finders[0] not in sys.meta_path:
            sys.meta_path.insert(0, _finders[0])
            sys.meta_path.append(_finders[1])

    install.__doc__ = (
        f"Has every import of {', '.join(modules)} find rankmesh's, whether the original is installed or not.\n\n"
        "What was taken from an original before would stay the original's, so that is a UsageError."
    )
    install.__module__ = package
    return install
