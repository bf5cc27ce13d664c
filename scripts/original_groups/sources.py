# SPDX-License-Identifier: Apache-2.0
"""An original's sources, of which few modules run; all others are stubs."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from substitution import Stubs, Unused

from .recorder import Recorder, recording


class Nothing(Unused):
    """What a stub has under any name; it is false, empty, a context and a type as well."""

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __getitem__(self, key):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, kind):
        return False


NOTHING = Nothing()


class Source(importlib.abc.MetaPathFinder):
    """The modules `runs` of a package, from `place` or PyPI. What else they import is a stub.

    A name in `runs` is a module, or with .* a package with all that is in it. `needs` are packages of PyPI that
    the modules cannot do without.
    """

    def __init__(self, distribution, package, runs, place=None, needs=()):
        self.package = package
        self.runs = tuple(runs)
        self.given = {}  # names in stubs that are to have a value: {"vllm.platforms": {"current_platform": ...}}
        self._folder = tempfile.TemporaryDirectory(prefix="original-")
        folder = Path(self._folder.name)
        place = Path(place) if place else self._download(distribution, folder)
        self.name = place.name
        self.root = self._unpack(place, folder)
        missing = [
            need for need in needs if importlib.util.find_spec(need.partition("==")[0].replace("-", "_")) is None
        ]
        if missing:
            self._pip("install", "--target", str(folder / "needs"), *missing)
            sys.path.append(str(folder / "needs"))
        self._stubs = Stubs((), NOTHING)
        self._missing = False
        sys.meta_path.insert(0, self)
        sys.meta_path.append(_Missing(self))

    @staticmethod
    def _pip(*arguments):
        subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)

    def _download(self, distribution, folder):
        self._pip("download", "--no-deps", "--dest", str(folder / "download"), distribution)
        return next((folder / "download").iterdir())

    def _unpack(self, place, folder):
        """The folder in which the package is."""
        if place.is_dir():
            found = [each for each in (place, place / "src", place / "python") if (each / self.package).is_dir()]
            if not found:
                raise SystemExit(f"{place} has no folder {self.package}")
            return found[0]
        if zipfile.is_zipfile(place):
            with zipfile.ZipFile(place) as archive:
                archive.extractall(folder, filter(self._is_wanted, archive.namelist()))
            return folder
        with tarfile.open(place) as archive:
            members = []
            for member in archive:
                _, _, member.name = member.name.partition("/")
                member.name = member.name.removeprefix("src/")
                if self._is_wanted(member.name):
                    members.append(member)
            archive.extractall(folder, members, filter="data")
        return folder

    def _is_wanted(self, path):
        """True for the file of a module that runs."""
        module = path.removesuffix(".py").removesuffix("/__init__")
        return path.endswith(".py") and self._is_run(module.replace("/", "."))

    def _is_run(self, fullname):
        return any(
            fullname == name or (name.endswith(".*") and f"{fullname}.".startswith(name[:-1])) for name in self.runs
        )

    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] != self.package:
            return None
        where = self.root.joinpath(*fullname.split("."))
        if self._is_run(fullname):
            package = (where / "__init__.py").is_file()
            file = where / "__init__.py" if package else where.with_suffix(".py")
            return importlib.util.spec_from_file_location(
                fullname, file, submodule_search_locations=[str(where)] if package else None
            )
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._stubs.exec_module(module)
        module.__dict__.update(self.given.get(module.__name__, {}))

    @contextlib.contextmanager
    def on(self, rank, world):
        """Within it the original runs as this rank, and packages that are not installed are stubs."""
        before, self._missing = self._missing, True
        try:
            with recording(Recorder(rank, world)) as recorder:
                yield recorder
        finally:
            self._missing = before

    def load(self, module):
        with self.on(0, 1):
            return importlib.import_module(module)


class _Missing(importlib.abc.MetaPathFinder):
    """The last finder, which has all that others lack."""

    def __init__(self, source):
        self.source = source

    def find_spec(self, fullname, path, target=None):
        if not self.source._missing or fullname.partition(".")[0] in ("torch", "rankmesh"):
            return None
        return importlib.machinery.ModuleSpec(fullname, self.source, is_package=True)
