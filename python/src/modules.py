"""Writes the Python module of each framework that is described by rows: modules.py FOLDER NAME..."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill, indent
from typing import Any

from rankmesh._dialects.rows import rows

TYPES = {
    "ranks": "list[int]",
    "is_first": "bool",
    "is_last": "bool",
    "size_and_rank": "tuple[int, int]",
    "matrix": "Any",
}

HEAD = '''"""{title}

The names are those of {original} {version}. Where torch.distributed is initialised,
`{initialize}` makes torch's groups; with `rank=67, world_size=65536` no process is needed, and a group is
its ranks. This file is written when the package is built.
"""

from __future__ import annotations

from typing import Any

from rankmesh._rows import Current
{imports}'''

FUNCTIONS = '''
current = Current("{name}")
"""What the functions of this module ask."""


def {initialize}(
{parameters}
    rank: int | None = None,
    world_size: int | None = None,
) -> None:
    """Says who stands together; of rank `rank` of `world_size`, else of this process's in torch.distributed.{notes}
    """
    settings = locals()
    current.initialize(settings, settings.pop("rank"), settings.pop("world_size"))


def model_parallel_is_initialized() -> bool:
    """True if the groups are made."""
    return current.is_initialized()


def destroy_model_parallel() -> None:
    """Forgets the groups; torch's are ended."""
    current.destroy()


def for_rank(rank: int, world_size: int, **settings: Any) -> Current:
    """The groups of any rank, by the arguments of `{initialize}`: `for_rank(...).ask("{example}")`."""
    other = Current("{name}")
    other.initialize(settings, rank, world_size)
    return other
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

MAKER = '''

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
    answer: {type} = {asked}.ask("{name}"{given})
    return answer
'''


def is_required(setting: dict[str, Any]) -> bool:
    """True for a number without a default."""
    return setting["default"] is None and setting["type"] == "int"


def parameter(setting: dict[str, Any]) -> str:
    text = f"{setting['name']}: {setting['type']}"
    return text if is_required(setting) else f"{text} = {setting['default']!r}"


def notes(settings: list[dict[str, Any]]) -> str:
    """What the settings mean that have a sentence."""
    lines = [fill(f"`{each['name']}`: {each['doc']}.", 116) for each in settings if each["doc"]]
    return "".join("\n\n    " + line.replace("\n", "\n    ") for line in lines)


def type_of(accessor: dict[str, Any], handle: str) -> str:
    kind: str = accessor["type"] if accessor["quantity"] == "value" else TYPES.get(accessor["quantity"], "int")
    if accessor["quantity"] == "group":
        kind = handle
    return f"{kind} | None" if accessor["without"] == (None,) else kind


def accessor(each: dict[str, Any], handle: str, is_member: bool) -> str:
    """A function; of a class a property where it has no options, else a method."""
    options = [parameter(option) for option in each["options"]]
    text = ACCESSOR.format(
        name=each["name"],
        parameters=", ".join(["self"] * is_member + options),
        type=type_of(each, handle),
        doc=each["doc"],
        asked="self" if is_member else "current",
        given="".join(f", {option['name']}={option['name']}" for option in each["options"]),
    )
    if not is_member:
        return "\n\n" + text
    return "\n" + indent(text if options else "@property\n" + text, "    ")


def module(name: str) -> str:
    """The text of a framework's module; what makes the groups is a class where its name is capitalised."""
    told = rows(name)
    settings, handle = told["settings"], told["handle"] or "Any"
    is_class = told["is_class"]
    own = [f"    {parameter(each)}," for each in settings if not each["apart"]]
    apart = [f"    {parameter(each)}," for each in settings if each["apart"]]
    parameters = "\n".join([*own, "    *,", *apart])
    imports = f"from rankmesh._rows import {handle} as {handle}\n" if told["handle"] else ""
    if told["maker"]:
        imports += "from rankmesh._errors import UsageError\n"
    text = (HEAD + (CLASS if is_class else FUNCTIONS)).format(
        name=name,
        title=told["title"],
        original=told["original"],
        version=told["version"],
        initialize=told["initialize"],
        imports=imports,
        parameters=indent(parameters, "    ") if is_class else parameters,
        notes=notes(settings),
        example=told["accessors"][0]["name"],
    )
    text += "".join(accessor(each, handle, is_class) for each in told["accessors"])
    if not told["maker"]:
        return text
    return text + MAKER.format(
        initialize=told["initialize"], maker=told["maker"], getter=told["getter"], parameters=parameters
    )


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names:
        (Path(folder) / f"{name}.py").write_text(module(name))
