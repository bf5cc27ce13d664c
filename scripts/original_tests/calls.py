# SPDX-License-Identifier: Apache-2.0
"""Counts calls of functions of the package that replaces modules, by others: a byte for each, in a file for each file of tests.

A finder's calls by Python's imports do not count, nor does install().
Tests start processes in many ways and end them in as many, so that each call is written when it is made."""

import ast
import importlib.machinery
import os
import sys
from pathlib import Path

CURRENT = "current"  # in the folder of results: the file of tests that runs now
_CALLED = "__rankmesh_called__"
_PYTHON, _PARTS = "<frozen importlib", str(Path(__file__).parent) + os.sep  # callers that are no test's


def count(package, folder):
    """From now on, the functions of the package that are imported in this process begin with a call that counts."""
    sys.meta_path.insert(0, _Counted(package, folder))


def counted(folder, file):
    """How many calls the tests of this file have made."""
    path = _path(folder, file)
    return path.stat().st_size if path.exists() else 0


def _path(folder, file):
    return folder / ("calls." + file.replace("/", "."))


class _Counter:
    def __init__(self, ours, folder):
        self.others, self.folder = (ours, _PYTHON, _PARTS), folder
        self.current, self.number, self.file = str(folder / CURRENT), None, None

    def __call__(self):
        if sys._getframe(2).f_code.co_filename.startswith(self.others):
            return
        try:
            number = os.stat(self.current).st_ino
        except OSError:  # no test has begun
            return
        if number != self.number:
            if self.file is not None:
                os.close(self.file)
            path = _path(self.folder, Path(self.current).read_text())
            self.number, self.file = number, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self.file, b".")


class _Counted(importlib.machinery.PathFinder):
    """Finds the modules of the package."""

    def __init__(self, name, folder):
        self.name, self.folder, self.counter = name, folder, None

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] != self.name:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec and fullname == self.name:
            ours = os.path.dirname(spec.origin) + os.sep if spec.submodule_search_locations else spec.origin
            self.counter = _Counter(ours, self.folder)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            spec.loader.counter = self.counter
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):  # without the cache, whose functions do not count
        tree = ast.parse(self.get_data(self.path))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                call = ast.parse(f"{_CALLED}()").body[0]
                node.body.insert(ast.get_docstring(node, clean=False) is not None, call)
        return compile(ast.fix_missing_locations(tree), self.path, "exec")

    def exec_module(self, module):
        setattr(module, _CALLED, self.counter)
        super().exec_module(module)
