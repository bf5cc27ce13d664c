# SPDX-License-Identifier: Apache-2.0
"""What is replaced in a process once it imports the original: its modules, its devices, packages that it does not use."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys


def arrange(replaced):
    """Has the first import of the original replace what is said; processes without one pay nothing."""
    sys.meta_path.insert(0, _First(**replaced))


class _First(importlib.abc.MetaPathFinder):
    def __init__(self, package, install, stubs, bare, torch):
        self.package, self.install, self.stubs, self.bare = package, install, stubs, bare
        self.torch = torch

    def find_spec(self, fullname, path, target=None):
        if fullname != self.package:
            return None
        sys.meta_path.remove(self)
        sys.meta_path[:0] = [Stubs(self.stubs), _Bare(self.bare)]
        if self.torch:
            import cuda_on_host

            cuda_on_host.replace_devices()
        if self.install:
            importlib.import_module(self.install).install()
        return importlib.util.find_spec(fullname)


class _Bare(importlib.abc.MetaPathFinder):
    """Packages whose modules are found as ever, but whose own __init__.py does not run."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, fullname, path, target=None):
        found = fullname in self.names and importlib.machinery.PathFinder.find_spec(fullname, path)
        if not found:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec


class Unused:
    """What a stub has under any name: a decorator, a function, a base class, a namespace; of no use."""

    def __call__(self, *args, **options):
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __mro_entries__(self, bases):
        return ()

    def __or__(self, other):  # in an annotation
        return self

    __ror__ = __getitem__ = __or__


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages that have every name, which is `what`, or unused."""

    def __init__(self, names, what=None):
        self.names, self.what = tuple(names), Unused() if what is None else what

    def find_spec(self, fullname, path, target=None):
        if any(fullname == name or fullname.startswith(name + ".") for name in self.names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = self.what.__getattr__
