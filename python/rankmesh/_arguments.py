"""Explains why a function of the extension modules does not accept the arguments of a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

_VAGUE = re.compile(
    r"\b(Any|object|Iterable|Iterator|Sequence|Callable|Mapping|PathLike|Supports\w+|Literal|timedelta)\b"
)
_NUMBERS = {"int": r"u?int\d*|bool", "float": r"float\d*|u?int\d*|bool", "bool": r"bool_?"}


def in_a_sentence(text: str) -> str:
    """Returns one sentence instead of nanobind's error, which lists every signature and the types of the arguments."""
    head, _, tail = text.partition("\nInvoked with types: ")
    name = head[: head.index("(")]
    given, keywords = _given(tail)
    try:
        calls = [_parsed(line) for line in re.findall(r"^    \d+\. (.*)$", head, re.MULTILINE)]
        if calls[0].args and calls[0].args[0].arg == "self":
            name = given[0].rpartition(".")[2] if name == "__init__" else name
            calls, given = [_Call(call.args[1:], call.named, call.required, call.open) for call in calls], given[1:]
        return min((_fault(name, call, given, keywords) for call in calls), key=lambda fault: fault[0])[1]
    except (SyntaxError, IndexError):  # the defaults in this signature are not expressions
        return f"{name} does not take these arguments: {', '.join([*given, *keywords])}; see help({name})"


class _Call:
    def __init__(self, args: list[ast.arg], named: list[ast.arg], required: set[str], is_open: bool) -> None:
        self.args = args
        self.named = named
        self.required = required
        self.open = is_open


def _given(text: str) -> tuple[list[str], dict[str, str]]:
    """Returns the types of the positional and of the keyword arguments."""
    keywords: dict[str, str] = {}
    found = re.search(r"(?:, |^)kwargs = \{ (.*) \}$", text)
    if found:
        text = text[: found.start()]
        keywords = dict(each.split(": ", 1) for each in found[1].split(", "))
    return text.split(", ") if text else [], keywords


def _parsed(signature: str) -> _Call:
    function = ast.parse(f"def {signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    of = function.args
    args = [*of.posonlyargs, *of.args]
    required = {each.arg for each in args[: len(args) - len(of.defaults)]}
    required |= {each.arg for each, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if value is None}
    return _Call(args, of.kwonlyargs, required, of.vararg is not None or of.kwarg is not None)


def _fault(name: str, call: _Call, given: Sequence[str], keywords: Mapping[str, str]) -> tuple[int, str]:
    """Returns how far the arguments are from a signature, and what is wrong."""
    names = [each.arg for each in call.args]
    known = [*names, *(each.arg for each in call.named)]
    if len(given) > len(names) and not call.open:
        most = f"{len(names) or 'no'} argument{'' if len(names) == 1 else 's'} without a name"
        named = [each.arg for each in call.named]
        instead = f"; name the others, as in {named[0]}=" if named else ""
        return 2, f"{name} takes {most}, not {len(given)}{instead}"
    if not call.open:
        for keyword in keywords:
            if keyword not in known:
                return 2, f"{name} has no argument '{keyword}'; it has {_listed(known)}"
    for keyword in keywords:
        if keyword in names[: len(given)]:
            return 2, f"{name} was given the argument '{keyword}' twice: by its place and by its name"
    missing = [each for each in known[len(given) :] if each in call.required and each not in keywords]
    if missing:
        needed = ", ".join([each for each in names if each in call.required])
        needed += "".join(f", {each.arg}=..." for each in call.named if each.arg in call.required)
        return 3, f"{name} lacks the argument '{missing[0]}'; call {name}({needed.removeprefix(', ')})"
    types = {**dict(zip(names, given, strict=False)), **keywords}
    wanted = {
        each.arg: ast.unparse(each.annotation) if each.annotation else "object" for each in call.args + call.named
    }
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
