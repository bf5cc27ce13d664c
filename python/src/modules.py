"""Writes the Python module of each framework that is described by rows: modules.py FOLDER NAME...

Where the rows name a module, the framework is a package with that module in it; where they name a base, the module is
written by hand, and `_NAME.py` has the accessors that its class inherits."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill, indent
from typing import Any

from rankmesh._dialects.rows import rows

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

from typing import Any

from rankmesh._core import Mesh as Mesh
{imports}from rankmesh._rows import Current
'''

FUNCTIONS = '''
current = Current("{name}")
"""The object that the functions of this module use."""


def {initialize}(
{parameters}
    rank: int | None = None,
    world_size: int | None = None,
) -> None:
    """Creates the groups of rank `rank` of `world_size`, else of this process in torch.distributed.{notes}
    """
    settings = locals()
    current.initialize(settings, settings.pop("rank"), settings.pop("world_size"))


def model_parallel_is_initialized() -> bool:
    """Returns True if the groups exist."""
    return current.is_initialized()


def destroy_model_parallel() -> None:
    """Forgets the groups and destroys torch's groups."""
    current.destroy()


def for_rank(rank: int, world_size: int, **settings: Any) -> Current:
    """Returns the groups of any rank, by the arguments of `{initialize}`: `for_rank(...).ask("{example}")`."""
    other = Current("{name}")
    other.initialize(settings, rank, world_size)
    return other
'''

OWN_CLASS = '''

class {state_class}(Current):
    """The state of the module for one rank. Every function of the module is a method."""

    def __init__(self, rank: int | None = None, world_size: int | None = None) -> None:
        Current.__init__(self, "{name}", rank, world_size)

    def {initialize}(
        self,
{parameters}
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        """Creates the groups of rank `rank` of `world_size`, else of this process in torch.distributed.{notes}
        """
        settings = locals()
        del settings["self"]
        self.initialize(settings, settings.pop("rank"), settings.pop("world_size"))

    def model_parallel_is_initialized(self) -> bool:
        """Returns True if the groups exist."""
        return self.is_initialized()

    def destroy_model_parallel(self) -> None:
        """Forgets the groups and settings, and destroys torch's groups."""
        self.destroy()
'''

OWN_FUNCTIONS = '''

def for_rank(rank: int, world_size: int, **settings: Any) -> {state_class}:
    """Returns the state of any rank, by the arguments of `{initialize}`. Does not change the module's own state."""
    state = {state_class}(rank, world_size)
    state.{initialize}(**settings)
    return state


def __getattr__(name: str) -> Any:
    return current.variable(name)


current = {state_class}()
"""The object that the functions of this module use."""

'''

PACKAGE = '''"""{title}"""

from rankmesh._install import installer
from rankmesh.{name} import {module} as {module}
{imports}
install = installer(__name__, {{"{package}": ["{module}"]}})
'''

ENSURE = '''

def {ensure}(
{parameters}
) -> None:
    """Creates the groups unless they exist. Raises if they exist with other settings."""
    current.ensure(locals())
'''

VARIABLE = '''

{variable}: {initialize}
"""The object that `{maker}` has made last; not there before."""


def {maker}(
{parameters}
    rank: int | None = None,
    world_size: int | None = None,
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
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        settings = locals()
        del settings["self"]
        Current.__init__(self, "{name}")
        self.initialize(settings, settings.pop("rank"), settings.pop("world_size"))
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

GETTER = '''

_made: {initialize} | None = None


def {maker}(
{parameters}
    rank: int | None = None,
    world_size: int | None = None,
) -> {initialize}:
    """Makes a `{initialize}`, which `{getter}` gives from then on."""
    global _made
    _made = {initialize}(**locals())
    return _made


def {getter}() -> {initialize}:
    """The `{initialize}` that `{maker}` has made; raises UsageError where it has made none."""
    if _made is None:
        raise UsageError("there is no {initialize} yet; call {maker} first")
    return _made
'''

ACCESSOR = '''\
def {name}({parameters}) -> {type}:
    """{doc}"""
    answer: {type} = {asked}("{name}"{given})
    return answer
'''


FIELD = '''
    @property
    def {name}(self) -> {type}:
        """The setting that was given."""
        value: {type} = self._settings["{name}"]
        return value
'''


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


def accessor(each: dict[str, Any], handle: str, kind: str, ask: str = "self.ask") -> str:
    """A function, or a member: a method, and of a class of attributes a property where it has no options."""
    options = [parameter(option) for option in each["options"] if not option["apart"]]
    named_only = [parameter(option) for option in each["options"] if option["apart"]]
    text = ACCESSOR.format(
        name=each["name"],
        parameters=", ".join(["self"] * (kind != "function") + options + ["*"] * bool(named_only) + named_only),
        type=type_of(each, handle),
        doc=each["doc"].replace("\n\n", "\n\n    "),
        asked="current.ask" if kind == "function" else ask,
        given="".join(f", {option['name']}={option['name']}" for option in each["options"]),
    )
    if each["quantity"] == "action":
        text = text.replace("    answer: None = ", "    ").replace("    return answer\n", "")
    if kind == "function":
        return "\n\n" + text
    is_attribute = kind == "property" and not each["options"] and not each["called"]
    is_property = is_attribute and not each["name"].startswith("__")
    return "\n" + indent("@property\n" + text if is_property else text, "    ")


def accessors_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All but variables of the original, and names that its classes keep to themselves."""
    is_hidden = told["is_class"] or told["settings"]
    return [
        each
        for each in told["accessors"]
        if not (each["name"].startswith("_") and (is_hidden or each["name"].isupper())) or each["name"] == "__str__"
    ]


def original_of(told: dict[str, Any]) -> str:
    return f"{told['original']} {told['version']}".rstrip()


def base(told: dict[str, Any]) -> str:
    """The text of the accessors that a class written by hand inherits."""
    text = BASE.format(**{**told, "original": original_of(told)})
    kind = "property" if told["is_class"] else "method"
    return text + "".join(accessor(each, "Any", kind, "self._ask") for each in accessors_of(told))


def module(told: dict[str, Any]) -> str:
    """The text of a framework's module; what makes the groups is a class where its name is capitalised."""
    settings = [each for each in told["settings"] if not each["only_configured"]]
    handle = told["handle"] or "Any"
    kind = "property" if told["is_class"] else "method" if told["state_class"] else "function"
    own = [f"    {parameter(each)}," for each in settings if not each["apart"]]
    apart = [f"    {parameter(each)}," for each in settings if each["apart"]]
    if told["backend_after"]:
        place = [each["name"] for each in settings if not each["apart"]] + ["("]
        own.insert((place.index(told["backend_after"]) + 1) % len(place), "    backend: str | None = None,")
    parameters = "\n".join([*own, "    *,", *apart])
    words = {
        **told,
        "parameters": parameters if kind == "function" else indent(parameters, "    "),
        "original": original_of(told),
        "imports": "from rankmesh._errors import UsageError\n" * bool(told["getter"])
        + f"from rankmesh._rows import {told['handle']} as {told['handle']}\n" * bool(told["handle"]),
        "notes": notes(settings),
        "example": told["accessors"][0]["name"],
    }
    head = {"property": CLASS, "method": OWN_CLASS, "function": FUNCTIONS}[kind]
    accessors = accessors_of(told)
    text = (HEAD + head).format(**words) + "".join(accessor(each, handle, kind) for each in accessors)
    known = [each["name"] for each in accessors]
    fields = [each for each in settings if told["by_value"] and not each["apart"] and each["name"] not in known]
    text += "".join(FIELD.format(**each) for each in fields)
    if kind == "method":
        names = [told["initialize"], "model_parallel_is_initialized", "destroy_model_parallel"]
        text += OWN_FUNCTIONS.format(**words)
        text += "".join(f"{name} = current.{name}\n" for name in [*names, *(each["name"] for each in accessors)])
    if told["ensure"]:
        text += ENSURE.format(**words)
    if told["maker"]:
        text += (VARIABLE if told["variable"] else GETTER).format(**{**words, "parameters": parameters})
    return text


def package(told: dict[str, Any]) -> str:
    """The text of a package's own file."""
    names = [told["initialize"], told["maker"]] if told["is_class"] else []
    imports = "".join(f"from rankmesh.{told['name']}.{told['module']} import {name} as {name}\n" for name in names)
    return PACKAGE.format(**told, imports=imports, package=told["original"].rpartition(".")[0])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # else a link of an earlier build would be written through
    path.write_text(text)


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        told = rows(name)
        if told["base"]:
            write(Path(folder) / f"_{name}.py", base(told))
        elif told["module"]:
            write(Path(folder) / name / "__init__.py", package(told))
            write(Path(folder) / name / f"{told['module']}.py", module(told))
        else:
            write(Path(folder) / f"{name}.py", module(told))
