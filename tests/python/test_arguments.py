"""Arguments that a function does not take are one sentence, whichever function it is and whatever is wrong."""

from __future__ import annotations

import array
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import rankmesh
from rankmesh import (
    Communicator,
    Group,
    Mesh,
    Placement,
    UsageTypeError,
    World,
    _core,
    _engine,
    _frameworks,
    run,
)

ONE, TWO = array.array("d", [1]), array.array("d", [1, 1])
COMMUNICATOR: list[tuple[Callable[[Communicator], Any], str]] = [
    (lambda on: on.all_reduce(), "all_reduce lacks the argument 'buffer'; call all_reduce(buffer)"),  # type: ignore[call-arg]
    (
        lambda on: on.all_reduce(ONE, op="max"),  # type: ignore[call-arg]
        "all_reduce has no argument 'op'; it has 'buffer', 'out', 'reduction'",
    ),
    (lambda on: on.send(ONE), "send lacks the argument 'to'; call send(buffer, to)"),  # type: ignore[call-arg]
    (
        lambda on: on.broadcast(ONE, 0, 1),  # type: ignore[call-arg]
        "broadcast takes 2 arguments without a name, not 3",
    ),
    (
        lambda on: on.broadcast(ONE, buffer=ONE),  # type: ignore[misc]
        "broadcast was given the argument 'buffer' twice: by its place and by its name",
    ),
    (lambda on: on.barrier(1), "barrier takes no arguments without a name, not 1"),  # type: ignore[call-arg]
]
OTHERS: list[tuple[Callable[[], Any], str]] = [
    (lambda: run(), "run lacks the argument 'size'; call run(size, program)"),  # type: ignore[call-arg]
    (lambda: run(2), "run lacks the argument 'program'; call run(size, program)"),  # type: ignore[call-arg]
    (
        lambda: run(1, print, 3),  # type: ignore[arg-type,call-arg]
        "run takes 2 arguments without a name, not 3; name the others, as in timeout=",
    ),
    (lambda: run(1, print, checked="x"), "the argument 'checked' of run is of type str; it must be bool or None"),  # type: ignore[arg-type]
    (lambda: Group(), "Group lacks the argument 'ranks'; call Group(ranks)"),  # type: ignore[call-arg]
    (lambda: Mesh("dp=2").group(), "group lacks the argument 'rank'; call group(rank)"),  # type: ignore[call-arg]
    (lambda: Placement("dp=2", [0, 1]), "the argument 'mesh' of Placement is of type str; it must be Mesh"),  # type: ignore[call-overload]
    (
        lambda: rankmesh.convert({}),  # type: ignore[call-arg]
        "convert lacks the argument 'from_'; call convert(settings, from_=..., to=...)",
    ),
    (lambda: World.from_environment(3), "from_environment takes no arguments without a name, not 1; name the others"),  # type: ignore[call-arg]
    (lambda: rankmesh.wait_all(None), "the argument 'pendings' of wait_all is None; it must be Iterable[Pending[_T]]"),  # type: ignore[arg-type]
    (
        lambda: run(1, lambda world: world.join("dp=*").split(0, over="dp")),  # type: ignore[arg-type]
        "the argument 'over' of split is of type str; it must be Communicator or None",
    ),
]


def check(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(UsageTypeError) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert isinstance(caught.value, TypeError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("call", "text"), OTHERS)
def test_arguments_that_a_function_does_not_take_are_named(call: Callable[[], Any], text: str) -> None:
    check(call, text)


def test_arguments_that_a_communicator_does_not_take_are_named() -> None:
    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        for call, text in COMMUNICATOR:
            check(lambda call=call: call(on), text)  # type: ignore[misc]

    run(1, program)


def everything(of: Any, seen: set[int]) -> list[Any]:
    """All functions, methods and classes of a module, and of its submodules."""
    found: list[Any] = []
    for name, value in vars(of).items():
        if id(value) in seen or (name.startswith("__") and name != "__init__"):
            continue
        seen.add(id(value))
        if type(value).__name__ in ("nb_func", "nb_method"):
            found.append(value)
        elif (inspect.isclass(value) and value.__module__.startswith("rankmesh.")) or (
            inspect.ismodule(value) and value.__name__.startswith("rankmesh._")
        ):
            found += everything(value, seen)
    return found


def test_no_function_lists_signatures() -> None:
    functions = [each for module in (_core, _engine, _frameworks) for each in everything(module, set())]
    assert len(functions) > 200
    for function in functions:
        with pytest.raises((TypeError, rankmesh.Error)) as caught:
            function(*[object()] * 40, there_is_no_such=1)
        text = str(caught.value)
        assert "incompatible function arguments" not in text
        assert "\n" not in text, text


SPOKEN: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: on_two("dp=2 tp=1", "dp", "tp"),
        ValueError,
        'was not declared; add over=[("dp", "tp")] to the declaration',
    ),
    (lambda: on_two("dp=2"), ValueError, 'no axis is given; name at least one axis of mesh dp=2, such as "dp"'),
    (lambda: on_two("dp=1"), ValueError, "make a size '*', or set partial=True to leave ranks out"),
    (
        lambda: run(2, lambda world: world.join("dp=2 tp=1", axes=["tp"]).on("dp")),
        ValueError,
        "axis 'dp' of mesh dp=2 tp=1 was left out of axes; add it there, or leave axes away",
    ),
    (lambda: run(0, print), ValueError, "run was asked for 0 ranks; a world has 1 or more"),
    (
        lambda: run(
            1,
            lambda world: world.join("dp=*").on("dp").all_gather_v(ONE, TWO, [1]),
        ),
        ValueError,
        "was given 2 elements out; the counts {1} sum to 1",
    ),
    (lambda: rankmesh.from_mpi4py(None), Exception, ""),
    (
        lambda: Placement(Mesh("dp=2 tp=2"), memoryview(bytes(range(4))).cast("B", (2, 2))),
        ValueError,
        "the ranks are an array of 2 dimensions; pass x.ravel()",
    ),
    (lambda: rankmesh.convert("dp=*", from_="rankmesh", to="megatron"), ValueError, "add world=N, or replace"),
    (lambda: rankmesh.convert("dp=2", from_="x", to="megatron"), ValueError, "unknown framework 'x' for from_; one of"),
    (lambda: Mesh("dp=4; ep=4"), ValueError, "one mesh is needed here; rankmesh.convert takes"),
    (lambda: rankmesh.check("dp=4; ep=4"), ValueError, "one mesh is needed here; rankmesh.convert takes"),
    (lambda: rankmesh.plan("x", on="node:1 gpu:8", device=""), ValueError, ""),
]


def on_two(mesh: str, *axes: str) -> Any:
    return run(2, lambda world: world.join(mesh).on(*axes))


@pytest.mark.parametrize(("call", "kind", "text"), SPOKEN)
def test_errors_speak_python(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    """Also those of the library below, which propose what the caller can write."""
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert text in said
    assert not any(word in said for word in ("{{", "}}", "::", " .", " --", "\n", "incompatible"))
