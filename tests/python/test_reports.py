"""What is printed of answers is what the command prints, and answers pickle."""

from __future__ import annotations

import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Mesh, Reshard, Sharding, check, convert, diff, draw, place, show

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
needs_command = pytest.mark.skipif(not COMMAND, reason="the command is not built")
MACHINES = "node:4(25GB/s,5us) gpu:4(450GB/s,2us)"


def printed(*arguments: str) -> str:
    """What the command prints on a terminal of 80 columns, without its last line end."""
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.removesuffix("\n")


def test_a_mesh_that_fits_the_limits_and_not_the_machines_is_refused_with_the_reason() -> None:
    assert check("dp=4 tp=4", on=MACHINES)
    report = check("dp=1 tp=16", on=MACHINES)
    assert not report
    assert report.shortage.startswith("NO tp in one node (the default): 1 of 1 group of 16 ranks")
    assert check("dp=64", on=MACHINES).shortage == "rank 63 has no device"
    assert check("dp=4 tp=4").fits
    with pytest.raises(rankmesh.UsageError, match="keep requires a cluster; add on='node:4 gpu:8'"):
        check("dp=4 tp=4", keep=["tp:node"])


@needs_command
def test_str_is_what_the_command_prints() -> None:
    assert str(check("pp=2 dp=4 tp=2", over=[("dp", "tp")])) == printed("check", "pp=2 dp=4 tp=2", "--over", "dp,tp")
    assert str(check("dp=512 tp=8", world=5000)) == printed("check", "dp=512 tp=8", "--world", "5000")
    for mesh in ("tp=4 dp=4", "dp=4 tp=4", "dp=2 tp=2 @[3,1,2,0]", "dp=* tp=16", "dp=64"):
        assert str(check(mesh, on=MACHINES)) == printed("check", mesh, "--on", MACHINES)
    assert str(check("dp=8 tp=2", on=MACHINES, keep=["dp:node", "tp:node"])) == printed(
        "check", "dp=8 tp=2", "--on", MACHINES, "--keep", "dp:node", "--keep", "tp:node"
    )
    for mesh in ("tp=4 dp=4", "dp=4 tp=4", "dp=2 tp=2 @[3,1,2,0]"):
        assert str(place(mesh, on=MACHINES)) == printed("place", mesh, "--on", MACHINES)
    assert str(place("tp=4 dp=4", on=MACHINES, weights={"dp": 0.5}, bytes=3 << 10)) == printed(
        "place", "tp=4 dp=4", "--on", MACHINES, "--weights", "dp=0.5", "--bytes", "3072"
    )
    settings = "tp_size=2 pp_size=2 dp_size=2"
    conversion = convert(settings, from_="picotron", to="torchtitan")
    assert str(conversion) == printed("convert", "--from", "picotron", "--to", "torchtitan", "--", *settings.split())


@needs_command
def test_str_of_a_reshard_is_the_command_s_table_in_elements() -> None:
    reshard = Reshard(Sharding("dp=2 tp=2", (4, 6), "0=tp"), Sharding("tp=3 @4", (4, 6), "1=tp"), host=4)
    of_command = printed(
        *("reshard", "dp=2 tp=2", "tp=3 @4", "--shape", "4x6", "--split", "0=tp", "--into", "1=tp"),
        *("--on", "node:2 gpu:4", "--bytes", "1"),
    )
    heading, _, table = str(reshard).partition("\n")
    assert heading == "4x6, 4 ranks a host"
    assert table.replace("elements are", "bytes are") == of_command.partition("\n")[2]


@needs_command
@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ("pp=2 dp=2 tp=4", "pp=2 tp=4 dp=2", {"on": "node:4 gpu:4"}),
        ("dp=4 tp=8", None, {"on": "node:4 gpu:8", "on_b": "node:8 gpu:4"}),
        ("dp=4 tp=2", "dp=2 tp=2 cp=3 @4", {"first": 2}),
        ("dp=4", "dp=2 tp=2 @[3,1,2,0]", {}),
        ("dp=4", "dp=4", {}),
    ],
)
def test_diff_is_that_of_the_command(a: str, b: str | None, options: dict[str, Any], tmp_path: Path) -> None:
    found = diff(a, b, **options)
    flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    assert str(found) == printed("diff", *(each for each in (a, b) if each), *flags)
    printed("diff", *(each for each in (a, b) if each), *flags, "--out", str(tmp_path / "theirs.svg"))
    found.write(tmp_path / "ours.svg")
    assert (tmp_path / "ours.svg").read_text() == (tmp_path / "theirs.svg").read_text() == found.svg()
    found.write(str(tmp_path / "ours.txt"))
    assert (tmp_path / "ours.txt").read_text() == f"{found}\n"


@needs_command
@pytest.mark.parametrize("ending", ["html", "svg", "txt"])
def test_draw_writes_what_the_command_writes(ending: str, tmp_path: Path) -> None:
    options = {"on": "node:4 gpu:4", "rank": 5}
    colors = {} if ending == "txt" else {"color_by": "tp"}
    flags = [text for name, value in (options | colors).items() for text in (f"--{name.replace('_', '-')}", str(value))]
    ours, theirs = (tmp_path / f"{whose}.{ending}" for whose in ("ours", "theirs"))
    picture = draw("pp=2 dp=2 tp=4", ours, **options, **colors)  # type: ignore[arg-type]
    printed("draw", "pp=2 dp=2 tp=4", *flags, "--out", str(theirs))
    assert ours.read_text() == theirs.read_text()
    by_form = {"html": picture.page(), "svg": picture.svg(), "txt": picture.text()}
    assert ours.read_text() == by_form[ending]


def test_differences_are_values_too() -> None:
    found = diff(Mesh("pp=2 dp=2 tp=4"), "pp=2 tp=4 dp=2", on="node:4 gpu:4")
    assert found
    assert (found.ranks, found.common, found.moved, len(found.first)) == ((16, 16), 16, 12, 8)
    assert [(axis.axis, axis.size, axis.groups, axis.same) for axis in found.axes] == [
        ("pp", (2, 2), (8, 8), 8),
        ("dp", (2, 2), (8, 8), 0),
        ("tp", (4, 4), (4, 4), 0),
    ]
    assert found.levels == {"node": 0}
    assert not diff("dp=4", "dp=4")
    assert show("dp=4").text() == draw("dp=4").text()


def test_wrong_questions_are_refused_in_words(tmp_path: Path) -> None:
    for wrong, text in (
        (lambda: diff("dp=4"), "one mesh on one cluster has nothing to differ from; pass another mesh, or on_b"),
        (lambda: diff("dp=4", on_b="node:4"), "on_b says where the second mesh runs, but not where the first does"),
        (lambda: diff("dp=4", "tp=4", first=-1), "the number of ranks to list is -1; it must be 0 or more"),
        (lambda: draw("dp=4", color_by="tp"), "mesh dp=4 has no axis 'tp'"),
        (lambda: draw("dp=4", "mesh.png"), "the path is 'mesh.png', which does not say what the picture is written as"),
        (lambda: diff("dp=4", "tp=4").write("a.html"), "it ends in .svg, .txt"),
    ):
        with pytest.raises(rankmesh.UsageError) as error:
            wrong()  # type: ignore[no-untyped-call]
        assert text in str(error.value)
    with pytest.raises(FileNotFoundError):
        draw("dp=4", tmp_path / "no folder" / "mesh.svg")


def fields(value: Any) -> dict[str, Any]:
    """All that a value has, by name; values within by their fields."""

    def plain(of: Any) -> Any:
        if isinstance(of, list):
            return [plain(each) for each in of]
        return (
            fields(of)
            if type(of).__module__.startswith("rankmesh._") and type(of).__eq__ is object.__eq__
            else repr(of)
        )

    names = [name for name in dir(value) if not name.startswith("_")]
    return {name: plain(getattr(value, name)) for name in names if not callable(getattr(value, name))}


@pytest.mark.parametrize(
    "make",
    [
        lambda: check("pp=2 dp=4 tp=2", over=[("dp", "tp")], world=20),
        lambda: check("dp=1"),
        lambda: place("tp=4 dp=4", on=MACHINES, weights={"dp": 0.5}),
        lambda: place("dp=2 tp=2 @[3,1,2,0]", on=MACHINES),
        lambda: convert({"tp_size": 2, "pp_size": 2, "dp_size": 2}, from_="picotron", to="torchtitan"),
        lambda: convert("dp=2 tp=4", from_="rankmesh", to="tensorrt-llm"),
        lambda: Reshard(Sharding("dp=2 tp=2", (4, 6), "0=tp"), Sharding("tp=3 @4", (4, 6), "1=tp"), host=4),
    ],
)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_answers_pickle(make: Any, protocol: int) -> None:
    answer = make()
    copy = pickle.loads(pickle.dumps(answer, protocol))
    assert type(copy) is type(answer)
    assert fields(copy) == fields(answer) != {}
    assert (str(copy), repr(copy)) == (str(answer), repr(answer))
    if hasattr(answer, "__bool__"):
        assert bool(copy) == bool(answer)
