"""usage: alone.py COMPILER COMPILE_COMMANDS ROOT

Compiles each source of the library, the command and the Python package by itself, without making code of it, where the build
compiles several as one (RANKMESH_UNITY): a file that lacks an #include then finds it in a file before it.

A precompiled header stands in for the first include of a file only if the file reaches it before it has read anything private:
what the file sees is then what it includes, and nothing that it lacks is hidden. Public headers that are read before it do not
matter, since each is compiled by itself too (RANKMESH_COMPILE_CHECKS).
"""

from __future__ import annotations

import collections
import concurrent.futures
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

# What is precompiled, the largest first.
HEADERS = (
    "rankmesh/engine/member.hpp",
    "rankmesh/engine/detail/call.hpp",
    "rankmesh/core/mesh.hpp",
    "rankmesh/core/error.hpp",
)
SOURCES = ("src", "cli", "python/src")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
# Of a template that one file declares and another defines, the build with several as one would make what it needs.
WARNINGS = ("-Wundefined-func-template",)


@functools.cache
def includes(file: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(file.read_text())


@functools.cache
def found(folders: tuple[Path, ...], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def read_by(file: Path, folders: tuple[Path, ...], seen: dict[Path, None]) -> dict[Path, None]:
    """The project's files that this one includes, in the order in which the compiler has read them."""
    for kind, name in includes(file):
        header = found(((file.parent, *folders) if kind == '"' else folders), name)
        if header is not None and header not in seen:
            seen[header] = None  # which breaks a cycle
            read_by(header, folders, seen)
            seen[header] = seen.pop(header)
    return seen


def sources(commands: Path, compiler: str, root: Path) -> dict[Path, tuple[str, ...]]:
    """Each source that is compiled with others as one, and the options that it is compiled with."""
    of = {}
    for entry in json.loads(commands.read_text()):
        file = Path(entry["directory"], entry["file"])
        if not re.fullmatch(r"unity_\d+_cxx\.cxx", file.name):
            continue
        words = shlex.split(entry["command"])
        words = words[words.index(compiler) + 1 :]
        at = words.index("-o")
        options = tuple(word for word in words[:at] + words[at + 2 :] if word not in ("-c", entry["file"]))
        for _, name in includes(file):
            each = Path(name)
            if any(each.is_relative_to(root / folder) for folder in SOURCES):
                of.setdefault(each, options)
    return of


def main(compiler: str, commands: Path, root: Path) -> int:
    of = sources(commands, compiler, root)
    folders = tuple(root / folder for folder in ("include", *SOURCES))
    public = {header: folders[0] / header for header in HEADERS}
    # What is searched for headers does not change what stands in one that was found.
    kinds = {file: tuple(word for word in options if not word.startswith(("-I", "-W"))) for file, options in of.items()}
    first: dict[Path, str] = {}
    for file in of:
        read = list(read_by(file, folders, {}))
        before = {each for each in read[: next((i for i, each in enumerate(read) if folders[0] not in each.parents), None)]}
        first[file] = next((header for header in HEADERS if public[header] in before), "")
    users = collections.Counter((kinds[file], header) for file, header in first.items() if header)

    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:

        def precompiled(of: tuple[int, tuple[tuple[str, ...], str]]) -> Path:
            number, (options, header) = of
            made = Path(work, f"{number}.pch")
            subprocess.run([compiler, *options, f"-I{folders[0]}", "-x", "c++-header", public[header], "-o", made], check=True)
            return made

        wanted = [each for each, files in users.items() if files > 3]  # fewer read it quicker than it is made
        made = dict(zip(wanted, pool.map(precompiled, enumerate(wanted))))

        def compiled(file: Path) -> tuple[Path, bool]:
            header = made.get((kinds[file], first[file]))
            done = subprocess.run(
                [compiler, *(("-include-pch", header) if header else ()), *of[file], *WARNINGS, "-fsyntax-only", file],
                stderr=subprocess.PIPE,
                text=True,
                cwd=root,
                check=False,
            )
            print(done.stderr, end="", file=sys.stderr, flush=True)
            return file, done.returncode == 0

        failed = sorted(str(file.relative_to(root)) for file, well in pool.map(compiled, of) if not well)
    print(f"{len(of)} sources, {sum(users[each] for each in wanted)} of them with one of {len(wanted)} precompiled headers")
    if not of:
        print(f"{commands} compiles no sources of {', '.join(SOURCES)} as one", file=sys.stderr)
    if failed:
        print(
            f"by themselves these do not compile, for the reasons above; an #include that is missing is found in other files "
            f"where several are compiled as one: {', '.join(failed)}",
            file=sys.stderr,
        )
    return 1 if failed or not of else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).resolve()))
