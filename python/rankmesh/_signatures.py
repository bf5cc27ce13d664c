"""Signatures of the functions of the extension modules, as `inspect.signature` finds them, and why they do not accept
the arguments of a call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from inspect import Parameter
from typing import Any

_VAGUE = re.compile(
    r"\b(Any|object|Iterable|Iterator|Sequence|Callable|Mapping|PathLike|Supports\w+|Literal|timedelta)\b"
)
_NUMBERS = {"int": r"u?int\d*|bool", "float": r"float\d*|u?int\d*|bool", "bool": r"bool_?"}


def signature_of(function: Any) -> inspect.Signature:
    """Returns the signature in the documentation of a nanobind function, without `self` if the function is bound.

    The signature of a class is that of its `__init__`, which the `inspect` of Python 3.11.2 does not find.
    """
    if isinstance(function, type):
        made = inspect.signature(function.__init__)  # type: ignore[misc]
        return made.replace(parameters=[*made.parameters.values()][1:])
    signatures = [_parsed(text, defaults or ()) for text, _, defaults in function.__nb_signature__]
    signature = signatures[0]
    if len(signatures) > 1:  # overloads: the first parameters are the same, all others are any
        parameters = [*signature.parameters.values()][: "self" in signature.parameters]
        rest = [Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD)]
        signature = signature.replace(parameters=[*parameters, *rest])
    if getattr(function, "__self__", None) is not None:
        signature = signature.replace(parameters=[*signature.parameters.values()][1:])
    return signature


def _parsed(text: str, defaults: tuple[object, ...] = ()) -> inspect.Signature:
    """Reads `def name(a: int, b: str = \\0) -> None`; annotations stay text."""
    name = text[len("def ") : text.index("(")]
    text = re.sub(r"\\=?(\d+)", r"defaults[\1]", text)
    made: dict[str, Any] = {}
    exec(f"from __future__ import annotations\n{text}: ...", {"defaults": defaults}, made)
    return inspect.signature(made[name])


def in_a_sentence(text: str) -> str:
    """Returns one sentence instead of nanobind's error, which lists every signature and the types of the arguments."""
    head, _, tail = text.partition("\nInvoked with types: ")
    name = head[: head.index("(")]
    given, keywords = _given(tail)
    try:
        lines = re.findall(r"^    \d+\. (.*)$", head, re.MULTILINE)
        calls = [[*_parsed(f"def {line}").parameters.values()] for line in lines]
        if calls[0] and calls[0][0].name == "self":
            name = given[0].rpartition(".")[2] if name == "__init__" else name
            calls, given = [call[1:] for call in calls], given[1:]
        return min((_fault(name, call, given, keywords) for call in calls), key=lambda fault: fault[0])[1]
    except (SyntaxError, NameError, IndexError):  # the defaults in this signature are not expressions
        return f"{name} does not take these arguments: {', '.join([*given, *keywords])}; see help({name})"


def _given(text: str) -> tuple[list[str], dict[str, str]]:
    """Returns the types of the positional and of the keyword arguments."""
    keywords: dict[str, str] = {}
    found = re.search(r"(?:, |^)kwargs = \{ (.*) \}$", text)
    if found:
        text = text[: found.start()]
        keywords = dict(each.split(": ", 1) for each in found[1].split(", "))
    return text.split(", ") if text else [], keywords


def _fault(name: str, call: Sequence[Parameter], given: Sequence[str], keywords: Mapping[str, str]) -> tuple[int, str]:
    """Returns how far the arguments are from a signature, and what is wrong."""
    listed = [each for each in call if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    named = [each.name for each in listed if each.kind is Parameter.KEYWORD_ONLY]
    names = [each.name for each in listed if each.name not in named]
    known, required = [*names, *named], [each.name for each in listed if each.default is Parameter.empty]
    is_open = len(listed) < len(call)
    if len(given) > len(names) and not is_open:
        most = f"{len(names) or 'no'} argument{'' if len(names) == 1 else 's'} without a name"
        instead = f"; name the others, as in {named[0]}=" if named else ""
        return 2, f"{name} takes {most}, not {len(given)}{instead}"
    if not is_open:
        for keyword in keywords:
            if keyword not in known:
                return 2, f"{name} has no argument '{keyword}'; it has {_listed(known)}"
    for keyword in keywords:
        if keyword in names[: len(given)]:
            return 2, f"{name} was given the argument '{keyword}' twice: by its place and by its name"
    missing = [each for each in known[len(given) :] if each in required and each not in keywords]
    if missing:
        needed = ", ".join(each if each in names else f"{each}=..." for each in required)
        return 3, f"{name} lacks the argument '{missing[0]}'; call {name}({needed})"
    types = {**dict(zip(names, given, strict=False)), **keywords}
    wanted = {each.name: "object" if each.annotation is Parameter.empty else each.annotation for each in listed}
    for argument, kind in types.items():
        if not _takes(wanted.get(argument, "object"), kind):
            kind = "None" if kind == "NoneType" else f"of type {kind.rpartition('.')[2]}"
            return 1, f"the argument '{argument}' of {name} is {kind}; it must be {_short(wanted[argument])}"
    for argument, kind in types.items():
        if kind == "NoneType" and "None" not in wanted.get(argument, ""):
            return 1, f"the argument '{argument}' of {name} is None; give one"
    return 1, f"{name} does not take arguments of these types: {', '.join(types.values())}; see help({name})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in names) or "none"


def _takes(wanted: str, kind: str) -> bool:
    """Returns True if an argument of a type may match an annotation."""
    if kind == "NoneType":
        return bool(re.search(r"\b(None|Any|object)\b", wanted))
    if _VAGUE.search(wanted):
        return True
    words = re.split(r" \| ", wanted)
    kind = kind.rpartition(".")[2]
    return any(re.fullmatch(_NUMBERS.get(word, re.escape(word.rpartition(".")[2])), kind) for word in words)


def _short(wanted: str) -> str:
    """`rankmesh._engine.Communicator | None` as 'Communicator or None'."""
    return re.sub(r"\b[a-z_]\w*\.(?:\w+\.)*", "", wanted).replace(" | ", " or ")
