#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program may use of a framework's module, and what of it rankmesh's module lacks.

    python scripts/original_faces.py vllm WHEEL     records the public names of a wheel, or of a folder that has the package

`original_faces.json` has for each framework its module's public functions and classes: the parameters with their
defaults, which members are properties, and classes that compare by value. `scripts/framework_pages` lists on each page
what rankmesh lacks of them. No code of the original runs."""

import ast
import inspect
import json
import sys
import zipfile
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")


def faces():
    return json.loads(FILE.read_text())


def _decorators(node):
    return [ast.unparse(each).rpartition(".")[2] for each in node.decorator_list]


def _parameters(arguments):
    """`a`, `b=1`, `*`, `c=None`, `**rest`, without self."""
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(given) - len(arguments.defaults)) + arguments.defaults
    said = [(each.arg, default) for each, default in zip(given, defaults, strict=True) if each.arg not in ("self", "cls")]
    if arguments.vararg or arguments.kwonlyargs:
        said.append(("*" + (arguments.vararg.arg if arguments.vararg else ""), None))
    said += [(each.arg, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        said.append(("**" + arguments.kwarg.arg, None))
    return [name + (f"={ast.unparse(default)}" if default else "") for name, default in said]


def _members(kind):
    """The constructor and the public members of a class."""
    fields, names = [], {}
    is_data = any(each.startswith("dataclass") for each in map(ast.unparse, kind.decorator_list))
    for each in kind.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            names[kind.name] = _parameters(each.args)
        elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            is_property = {"property", "cached_property"} & set(_decorators(each))
            names[f"{kind.name}.{each.name}"] = "property" if is_property else _parameters(each.args)
        elif isinstance(each, ast.AnnAssign) and is_data and not ast.unparse(each.target).startswith("_"):
            value = "" if each.value is None else "=" + ast.unparse(each.value)
            fields.append(ast.unparse(each.target) + value)
            names[f"{kind.name}.{ast.unparse(each.target)}"] = "property"
    if is_data:
        names |= {kind.name: fields, f"{kind.name}.__eq__": "by value"}
    return {kind.name: names.pop(kind.name, []), **names}


def record(text):
    """The public names of a module's source."""
    names = {}
    for each in ast.parse(text).body:
        if isinstance(each, ast.FunctionDef):
            names[each.name] = _parameters(each.args)
        elif isinstance(each, ast.ClassDef):
            names |= _members(each)
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id in names:
            names |= {ast.unparse(target): names[each.value.id] for target in each.targets}
    return {name: each for name, each in names.items() if not name.startswith("_")}


def _differing(name, theirs, thing):
    """What a function's parameters lack: a name, a default, a place."""
    try:
        ours = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return
    places = {each.name: (i, each) for i, each in enumerate(each for each in ours if each.name != "self")}
    takes_all = any(each.kind is each.VAR_KEYWORD for each in ours)
    by_place = True
    if len(theirs) > 1 and not takes_all and not {each.partition("=")[0] for each in theirs} & places.keys():
        yield f"{name}()", "parameters"
        return
    for i, said in enumerate(theirs):
        parameter, _, default = said.partition("=")
        if parameter.startswith("*"):
            by_place = False
        elif parameter not in places:
            if not takes_all:
                yield f"{name}({parameter})", "parameters"
        elif by_place and (places[parameter][0] != i or places[parameter][1].kind is inspect.Parameter.KEYWORD_ONLY):
            yield f"{name}({parameter})", "by place"
        elif default and places[parameter][1].default is inspect.Parameter.empty:
            yield f"{name}({parameter})", "defaults"
        elif _is_literal(default) and ast.literal_eval(default) != places[parameter][1].default:
            yield f"{name}({parameter})", "defaults"


def _is_literal(text):
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return False
    return True


LACKING = {
    "names": "Absent",
    "parameters": "Parameters that are absent",
    "by place": "Parameters that ours takes by name only, or in another place",
    "defaults": "Parameters with another default",
    "properties": "Properties that are methods here",
    "methods": "Methods that are properties here",
    "equality": "Objects that are equal by value in the original",
}
"""What a page says of each way in which a name differs."""


def lacking(names, module):
    """What a module lacks of the names of an original: pairs of a name and what differs."""
    for name, theirs in names.items():
        owner, _, member = name.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        if owner and holder is None:
            continue  # the class is missing
        if member == "__eq__":
            if holder.__eq__ is object.__eq__:
                yield owner, "equality"
            continue
        if theirs == "property" and member in getattr(holder, "__annotations__", {}):
            continue  # an attribute of each object reads as a property
        try:
            thing = inspect.getattr_static(holder, member)
        except AttributeError:
            yield name, "names"
            continue
        is_method = inspect.isfunction(thing) or isinstance(thing, classmethod | staticmethod)
        if owner and is_method != (theirs != "property"):
            yield name, "properties" if theirs == "property" else "methods"
        elif theirs != "property":
            yield from _differing(name, theirs, getattr(holder, member))


def main(framework, place):
    from rankmesh._frameworks import rows

    told = rows.rows(framework)
    file = told["original"].replace(".", "/") + ".py"
    text = (Path(place) / file).read_text() if Path(place).is_dir() else zipfile.ZipFile(place).read(file).decode()
    recorded = faces() if FILE.exists() else {}
    recorded[framework] = {"version": told["version"], "names": record(text)}
    lines = [f'"{name}": {json.dumps(face)}' for name, face in sorted(recorded.items())]
    FILE.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
