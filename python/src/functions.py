"""Writes a module whose functions ask one object: functions.py FILE_OF_CLASS MODULE

From `deepspeed/_groups_class.py`, whose last class is `Groups`, it writes `deepspeed/groups.py`: what the file exports,
`current = Groups()`, every method of this class and of a class `Answers` that is written from rows, and every variable
of a class there. A name that the class sets to None is left out.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

TEXT = '''"""{doc}"""

from __future__ import annotations

{imports}from rankmesh.{package}.{file} import *  # noqa: F403
from rankmesh.{package}.{file} import {kind} as {kind}

current = {kind}()
"""The {kind} of this process, which the functions of this module use."""
{variables}
{functions}'''


def answers(tree: ast.Module) -> list[str]:
    """Returns the methods of the class `Answers` that the file imports."""
    imports = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
    of = [each.module or "" for each in imports if any(alias.name == "Answers" for alias in each.names)]
    found = [vars(importlib.import_module(name).Answers) for name in of]
    return [name for each in found for name in each if not name.startswith("__") and name != "_ask"]


def module(file: Path) -> str:
    """Returns the text of the module for a file with a class."""
    tree = ast.parse(file.read_text())
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    stated = [each for kind in classes for each in kind.body if isinstance(each, ast.AnnAssign)]
    variables = {ast.unparse(each.target): ast.unparse(each.annotation) for each in stated}
    kind, functions = classes[-1], []
    for each in kind.body:
        if isinstance(each, ast.FunctionDef):
            functions.append(each.name)
        elif isinstance(each, ast.Assign):
            functions += [name.id for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    functions += [name for name in answers(tree) if name not in functions]
    given_up = [each for each in kind.body if isinstance(each, ast.Assign) and ast.unparse(each.value) == "None"]
    functions = [name for name in functions if name not in {ast.unparse(each.targets[0]) for each in given_up}]
    shared = [f"{name}: {of}" for name, of in variables.items()]
    return TEXT.format(
        doc=ast.get_docstring(tree, clean=False),
        package=file.parent.name,
        file=file.stem,
        kind=kind.name,
        imports="from typing import Any\n\nfrom rankmesh._originals import share\n" if shared else "",
        variables="\n".join([*shared, f"share(__name__, current, {list(variables)})\n"]) if shared else "",
        functions="".join(f"{name} = current.{name}\n" for name in functions),
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.unlink(missing_ok=True)  # else a link of an earlier build would be written through
    target.write_text(module(source))
