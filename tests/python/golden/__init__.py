"""Cases recorded from the original systems, and what the package's modules answer to them.

Each system is the module of its name here, with one function for each kind of case, of that name, which takes the
case's config and the file's meta, and returns the answer in the schema's own shape with lists written out: the
comparison encodes long ones as the case does. What it raises stands where the case expects an error; `attempt` puts
an error inside an answer. A part of an answer may be a function of what the case expects there, for rows of which the
case has only some.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# Their texts are Python's, torch's or numpy's own, and change between versions: the type alone is compared.
TYPE_ALONE = {"KeyError", "IndexError", "AttributeError", "TypeError", "ZeroDivisionError", "UnboundLocalError"}
# Of such texts too, whatever the type, and of what an assertion says of a table half made.
OWN_TEXTS = ("invalid shape dimension", "cannot reshape tensor", "is not in list", "mismatch the return idx")


class Raised:
    """An exception that is an answer."""

    def __init__(self, error: BaseException) -> None:
        self.types = {kind.__name__ for kind in type(error).__mro__}
        self.text = str(error)

    def __repr__(self) -> str:
        return f"{sorted(self.types)} {self.text!r}"


class Refused:
    """What rankmesh refuses by a rule of docs/frameworks.md where the original goes on; it stands for any value."""

    def __init__(self, rule: str) -> None:
        self.rule = rule


def attempt(call: Callable[[], Any]) -> Any:
    """The value of a call, or what it raises."""
    try:
        return call()
    except Exception as error:
        return refused_or_raised(error)


def refused_or_raised(error: Exception) -> Raised | Refused:
    rule = getattr(error, "rule", "")
    return Refused(rule) if rule else Raised(error)


def ranks(group: Iterable[int]) -> list[int]:
    return list(group)


def groups(partition: Iterable[Iterable[int]]) -> list[list[int]]:
    return [list(group) for group in partition]


def words(text: str) -> str:
    """The text with one space where lines that go on in the source put several, up to a table of the world."""
    return " ".join(text.split(", mapping: {")[0].split())


def fnv1a64(text: str) -> str:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def encoded_ranks(listed: list[int]) -> dict[str, Any]:
    text = ",".join(map(str, listed))
    return {"len": len(listed), "head": listed[:8], "tail": listed[-8:], "fnv1a64": fnv1a64(text)}


def encoded_groups(listed: list[list[int]]) -> dict[str, Any]:
    text = ";".join(",".join(map(str, group)) for group in listed)
    lengths = sorted({len(group) for group in listed})
    return {
        "n": len(listed),
        "len": lengths[0] if len(lengths) == 1 else lengths,
        "first": listed[0][:16] if listed else [],
        "last": listed[-1][:16] if listed else [],
        "fnv1a64": fnv1a64(text),
    }


def difference(expected: Any, got: Any, refused: list[str], where: str = "") -> str:
    """Where an answer is not what a case expects, in words with both values; "" if it is."""
    if callable(got):
        got = attempt(functools.partial(got, expected))
    differ = f"at {where or 'the whole'}: expected {str(expected)[:160]} got {str(got)[:160]}"
    if isinstance(got, Refused):
        refused.append(got.rule)
        return ""
    if isinstance(expected, dict) and isinstance(expected.get("error"), dict) and "type" in expected["error"]:
        kind, text = expected["error"]["type"], expected["error"]["message"]
        if not isinstance(got, Raised) or kind not in got.types:
            return differ
        if kind in TYPE_ALONE or any(own in text for own in OWN_TEXTS) or words(text) in words(got.text):
            return ""
        return differ
    if isinstance(expected, dict) and isinstance(got, list):
        if "head" in expected:
            got = encoded_ranks(got)
        elif "n" in expected:
            got = encoded_groups(got)
    if isinstance(expected, dict) and isinstance(got, dict):
        got = {str(key): value for key, value in got.items()}
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key not in expected or key not in got:
                return f"at {where}/{key}: expected {expected.get(key)!r} got {got.get(key)!r}"
            if found := difference(expected[key], got[key], refused, f"{where}/{key}"):
                return found
        return ""
    if isinstance(expected, list) and isinstance(got, (list, tuple)) and len(expected) == len(got):
        for i, (wanted, value) in enumerate(zip(expected, got, strict=True)):
            if found := difference(wanted, value, refused, f"{where}/{i}"):
                return found
        return ""
    return "" if type(expected) is type(got) and expected == got else differ


def check(path: Path) -> tuple[int, list[str], list[str]]:
    """How many cases of a file are answered right, the lines of those that are not, and the rules of refusals."""
    file = json.loads(path.read_text())
    system = importlib.import_module(f"golden.{file['system']}")
    passed, failed, refused = 0, [], []
    for case in file["cases"]:
        config = case["config"]
        answer = getattr(system, case["kind"], None)
        if answer is None:
            found = "nobody here knows this kind"
        else:
            found = difference(case["expect"], attempt(lambda a=answer, c=config: a(c, file.get("meta", {}))), refused)
        if found:
            failed.append(f"{file['system']} {case['kind']} {json.dumps(config)}: {found}")
        else:
            passed += 1
    return passed, failed, refused


def recorded(system: str) -> list[Path]:
    """The files of a system: a small part of the cases is kept in the tree, all of them may lie beside it."""
    tests = Path(__file__).resolve().parents[2]
    kept = sorted((tests / "golden" / "cases").glob(f"*{system}*.json"))
    return [*kept, *sorted((tests.parents[1] / "shared" / "golden").glob(f"{system}.json"))]


def main(paths: list[str]) -> int:
    """`python -m golden FILE...` closes with `N passed, N failed`, as the command rankmesh-golden does."""
    passed, failed, refused = 0, 0, []
    for path in paths:
        right, lines, rules = check(Path(path))
        passed += right
        failed += len(lines)
        refused += rules
        print(*lines, sep="\n", end="\n" if lines else "")
    print("refused:", ", ".join(f"{rule} {refused.count(rule)}" for rule in sorted(set(refused))) or "none")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
