"""Writes the Python module of each framework that is described by rows: modules.py FOLDER NAME...

Where the rows name a module, the framework is a package with that module in it; where they name a base, the module is
written by hand, and `_NAME.py` has the accessors that its class inherits.

From a file `_NAME_class.py`, given in place of a name, it writes `NAME.py`: what the file exports, an object `current`
of its last class, and functions that ask this object."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from textwrap import fill, indent
from typing import Any

from named_objects import GETTER
from rankmesh._frameworks.rows import rows

TYPES = {
    "group_list": "list[Any]",
    "ranks": "list[int]",
    "is_first": "bool",
    "is_last": "bool",
    "size_and_rank": "tuple[int, int]",
    "matrix": "Any",
    "mesh": "Mesh",
    "action": "None",
    "device_mesh": "Any",
}

HEAD = '''"""{title}

The names are those of {original}. Where torch.distributed is initialised,
`{initialize}` makes torch's groups; with `rank=67, world_size=65536` no process is needed, and a group is
its ranks. This file is written when the package is built.
"""

from __future__ import annotations

{standard}from typing import Any

from rankmesh._core import Mesh as Mesh
{imports}from rankmesh._rows import Current
'''

STATE = '''

class {state_class}(Current):
    """The state of the module for one rank. Every function of the module is a method."""

    def __init__(self, rank: int | None = None, world_size: int | None = None) -> None:
        Current.__init__(self, "{name}", rank, world_size)

    def {initialize}(
        self,
{parameters}
    ) -> None:
        """Creates the groups of rank `rank` of `world_size`, else of this process in torch.distributed.{notes}
        """
        self.initialize(locals())

    def model_parallel_is_initialized(self) -> bool:
        """Returns True if the groups exist."""
        return self.is_initialized()

    def destroy_model_parallel(self) -> None:
        """Forgets the groups and settings, and destroys torch's groups."""
        self.destroy()
'''

FUNCTIONS = '''

def for_rank(rank: int, world_size: int, **settings: Any) -> {state_class}:
    """Returns the state of any rank, by the arguments of `{initialize}`. Does not change the module's own state."""
    state = {state_class}(rank, world_size)
    state.{initialize}(**settings)
    return state


current = {state_class}()
"""The object that the functions of this module use."""

'''

VARIABLES = """

def __getattr__(name: str) -> Any:
    return current.variable(name)
"""

PACKAGE = '''"""{title}"""

from rankmesh._install import installer
from rankmesh.{name} import {module} as {module}
{imports}
install = installer(__name__, {{"{package}": ["{module}"]}})
'''

ENSURE = '''
    def {ensure}(
        self,
{parameters}
    ) -> None:
        """Creates the groups unless they exist. Raises if they exist with other settings."""
        self.ensure(locals())
'''

VARIABLE = '''

{variable}: {initialize}
"""The object that `{maker}` has made last; not there before."""


def {maker}(
{parameters}
) -> None:
    """Makes this process's `{initialize}`, the variable `{variable}` of this module."""
    global {variable}
    {variable} = {initialize}(**locals())
'''

CLASS = '''

class {initialize}(Current):
    """The groups of rank `rank` of `world_size`, else of this process's in torch.distributed.{notes}
    """

    def __init__(
        self,
{parameters}
    ) -> None:
        Current.__init__(self, "{name}")
        self.initialize(locals())
'''

BASE = '''"""{title}

The names are those of {original}. This file is written when the package is built.
"""

from __future__ import annotations

from typing import Any


class {base}:
    """What the original answers; a class that inherits this says how it is asked."""

    def _ask(self, accessor: str, **options: Any) -> Any:
        raise NotImplementedError
'''

ACCESSOR = '''\
def {name}({parameters}) -> {type}:
    """{doc}"""
    answer: {type} = self.{ask}("{name}"{given})
    return answer
'''


FIELD = '''
    @property
    def {name}(self) -> {type}:
        """The setting that was given."""
        value: {type} = self._settings["{name}"]
        return value
'''

ASKING = '''"""{doc}"""

from __future__ import annotations

{imports}from rankmesh.{package}.{file} import *  # noqa: F403
from rankmesh.{package}.{file} import {kind} as {kind}

current = {kind}()
"""The {kind} of this process, which the functions of this module use."""
{variables}
{functions}'''


def parameter(setting: dict[str, Any]) -> str:
    text = f"{setting['name']}: {setting['type']}"
    needed = setting["needed"] or (setting["default"] is None and setting["type"] == "int")
    return text if needed else f"{text} = {setting['default']!r}"


def notes(settings: list[dict[str, Any]]) -> str:
    """What the settings mean that have a sentence."""
    lines = [fill(f"`{each['name']}`: {each['doc']}.", 116) for each in settings if each["doc"]]
    return "".join("\n\n    " + line.replace("\n", "\n    ") for line in lines)


def type_of(accessor: dict[str, Any], handle: str) -> str:
    quantity = accessor["quantity"]
    kind: str = accessor["type"] if quantity == "value" else TYPES.get(quantity, "int")
    if quantity == "group":
        kind = handle
    may_lack = any(option["name"] == "check_initialized" for option in accessor["options"]) and kind != "Any"
    return f"{kind} | None" if accessor["without"] == (None,) or may_lack else kind


def accessor(each: dict[str, Any], handle: str, is_class: bool, ask: str) -> str:
    """A method; of a framework that is a class, a property where it has no options."""
    options = [parameter(option) for option in each["options"] if not option["apart"]]
    named_only = [parameter(option) for option in each["options"] if option["apart"]]
    text = ACCESSOR.format(
        name=each["name"],
        parameters=", ".join(["self", *options] + ["*"] * bool(named_only) + named_only),
        type=type_of(each, handle),
        doc=each["doc"].replace("\n\n", "\n\n    "),
        ask=ask,
        given="".join(f", {option['name']}={option['name']}" for option in each["options"]),
    )
    if each["quantity"] == "action":
        text = text.replace("    answer: None = ", "    ").replace("    return answer\n", "")
    is_attribute = is_class and not each["options"] and not each["called"]
    is_property = is_attribute and not each["name"].startswith("__")
    return "\n" + indent("@property\n" + text if is_property else text, "    ")


def accessors_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All but variables of the original, and names that its classes keep to themselves."""
    is_hidden = told["is_class"] or told["settings"]
    return [
        each
        for each in told["accessors"]
        if (
            not (each["name"].startswith("_") and (is_hidden or each["name"].isupper()))
            and not each["name"].startswith("__")
        )
        or each["name"] == "__str__"
    ]


def original_of(told: dict[str, Any]) -> str:
    return f"{told['original']} {told['version']}".rstrip()


def base(told: dict[str, Any]) -> str:
    """The text of the accessors that a class written by hand inherits."""
    text = BASE.format(**{**told, "original": original_of(told)})
    return text + "".join(accessor(each, "Any", told["is_class"], "_ask") for each in accessors_of(told))


def module(told: dict[str, Any]) -> str:
    """The text of a framework's module: a class, whose methods are the functions of a module of functions."""
    settings = [each for each in told["settings"] if not each["only_configured"]]
    handle, is_class = told["handle"] or "Any", told["is_class"]
    own = [f"    {parameter(each)}," for each in settings if not each["apart"]]
    apart = [f"    {parameter(each)}," for each in settings if each["apart"]]
    if told["backend_after"]:
        place = [each["name"] for each in settings if not each["apart"]] + ["("]
        own.insert((place.index(told["backend_after"]) + 1) % len(place), "    backend: str | None = None,")
    plain = "\n".join([*own, "    *,", *apart])
    parameters = f"{plain}\n    rank: int | None = None,\n    world_size: int | None = None,"
    words = {
        **told,
        "state_class": told["state_class"] or "ParallelState",
        "parameters": indent(parameters, "    "),
        "original": original_of(told),
        "standard": "import contextlib\nimport warnings\nfrom collections.abc import Iterator\n" * bool(told["getter"]),
        "imports": "from rankmesh._errors import UsageError\nfrom rankmesh._originals import original\n"
        * bool(told["getter"])
        + f"from rankmesh._rows import {told['handle']} as {told['handle']}\n" * bool(told["handle"]),
        "notes": notes(settings),
    }
    accessors = accessors_of(told)
    known = [each["name"] for each in accessors]
    text = (HEAD + (CLASS if is_class else STATE)).format(**words)
    text += ENSURE.format(**{**words, "parameters": indent(plain, "    ")}) if told["ensure"] else ""
    text += "".join(accessor(each, handle, is_class, "ask") for each in accessors)
    fields = [each for each in settings if told["by_value"] and not each["apart"] and each["name"] not in known]
    text += "".join(FIELD.format(**each) for each in fields)
    if not is_class:
        names = [told["initialize"], "model_parallel_is_initialized", "destroy_model_parallel", told["ensure"], *known]
        text += FUNCTIONS.format(**words) + "".join(f"{name} = current.{name}\n" for name in names if name)
        text += VARIABLES if told["state_class"] else ""
    if told["maker"]:
        if told["getter"]:
            parameters = parameters.replace("    *,", '    name: str = "base",\n    *,', 1)
        of = told["getter"].removeprefix("get_")
        text += (VARIABLE if told["variable"] else GETTER).format(**{**words, "parameters": parameters, "object": of})
    return text


def package(told: dict[str, Any]) -> str:
    """The text of a package's own file."""
    names = [told["initialize"], told["maker"]] if told["is_class"] else []
    imports = "".join(f"from rankmesh.{told['name']}.{told['module']} import {name} as {name}\n" for name in names)
    return PACKAGE.format(**told, imports=imports, package=told["original"].rpartition(".")[0])


def functions(file: Path) -> str:
    """The text of a module of functions: every method of the last class in a file and of its `Answers`, but for
    names that it sets to None, and every variable of a class there."""
    tree = ast.parse(file.read_text())
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    stated = [each for kind in classes for each in kind.body if isinstance(each, ast.AnnAssign)]
    shared = {ast.unparse(each.target): ast.unparse(each.annotation) for each in stated}
    names: dict[str, bool] = {}
    for each in classes[-1].body:
        if isinstance(each, ast.FunctionDef):
            names[each.name] = each.name != "__init__"
        elif isinstance(each, ast.Assign):
            assigned = [name.id for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            names |= dict.fromkeys(assigned, ast.unparse(each.value) != "None")
    for each in tree.body:
        if isinstance(each, ast.ImportFrom) and each.module and each.names[0].name == "Answers":
            inherited = [row["name"] for row in accessors_of(rows(each.module.removeprefix("rankmesh._")))]
            names |= {name: True for name in inherited if name not in names and not name.startswith("__")}
    variables = [f"{name}: {of}" for name, of in shared.items()] + [f"share(__name__, current, {list(shared)})\n"]
    return ASKING.format(
        doc=ast.get_docstring(tree, clean=False),
        package=file.parent.name,
        file=file.stem,
        kind=classes[-1].name,
        imports="from typing import Any\n\nfrom rankmesh._originals import share\n" if shared else "",
        variables="\n".join(variables) if shared else "",
        functions="".join(f"{name} = current.{name}\n" for name, is_there in names.items() if is_there),
    )


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # else a link of an earlier build would be written through
    path.write_text(text)


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        if name.endswith("_class.py"):
            file = Path(name)
            write(Path(folder) / file.name[1:].replace("_class", ""), functions(file))
            continue
        told = rows(name)
        if told["base"]:
            write(Path(folder) / f"_{name}.py", base(told))
        elif told["module"]:
            write(Path(folder) / name / "__init__.py", package(told))
            write(Path(folder) / name / f"{told['module']}.py", module(told))
        else:
            write(Path(folder) / f"{name}.py", module(told))
