"""Flight records from Python: where they are asked for, what is in them, and who writes them."""

from __future__ import annotations

import array
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import World, run

SIGNAL = signal.SIGUSR2  # which stays rankmesh's in this process


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def one_is_late() -> Callable[[World], None]:
    """A program in which rank 0 waits in vain for rank 1, which is outside any call."""
    reduced, over = threading.Event(), threading.Event()

    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        on.all_reduce(array.array("d", [1] * 3))
        if world.rank == 1:
            reduced.set()
            assert over.wait(60)
            return
        assert reduced.wait(60)
        try:
            on.within(0.1).barrier()
        finally:
            over.set()

    return program


@pytest.mark.parametrize("given", [str, os.fsencode, Path])
def test_every_rank_writes_when_something_goes_wrong(given: Callable[[Path], Any], tmp_path: Path) -> None:
    folder = tmp_path / "größe" / "records"  # which is made
    with pytest.raises(rankmesh.Timeout):
        run(2, one_is_late(), record=given(folder))
    records = [read(folder / f"rank-{rank}.json") for rank in range(2)]
    assert sorted(os.listdir(folder)) == ["rank-0.json", "rank-1.json"]
    assert [(each["rank"], each["world_size"], each["engine"]) for each in records] == [
        (0, 2, "threads"),
        (1, 2, "threads"),
    ]
    assert records[0]["reason"] == "timeout"
    assert (records[0]["arrived"], records[0]["missing"]) == ([0], [1])
    calls = [[(call["operation"], call["state"]) for call in each["entries"]] for each in records]
    assert calls == [[("all_reduce", "completed"), ("barrier", "failed")], [("all_reduce", "completed")]]


def test_nothing_is_written_where_nothing_goes_wrong_or_no_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(2, lambda world: world.join("dp=*").on("dp").barrier(), record=tmp_path)
    with pytest.raises(rankmesh.Timeout):
        run(2, one_is_late())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("given", "written"), [(None, ["theirs"]), ("", []), ("mine", ["mine"])])
def test_the_argument_comes_before_the_variable(
    given: str | None, written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKMESH_RECORD", "theirs")
    with pytest.raises(rankmesh.Timeout):
        run(2, one_is_late(), record=given)
    assert os.listdir(tmp_path) == written


def test_a_written_record_has_the_calls_of_each_communicator(tmp_path: Path) -> None:
    def program(world: World) -> None:
        me = world.join("dp=2 tp=2")
        me.on("tp").broadcast(array.array("f", [1] * 10), 1)
        pending = me.on("dp").start_all_reduce(array.array("q", [1] * 4), reduction="max")
        world.write_record(tmp_path / f"{world.rank}.json")
        pending.wait()

    run(4, program)
    for rank in range(4):
        record = read(tmp_path / f"{rank}.json")
        assert (record["rank"], record["reason"]) == (rank, "request")
        assert [each["mesh"] for each in record["meshes"]] == ["dp=2 tp=2"]
        first, second = record["entries"]
        keys = ("operation", "argument", "reduction", "input_sizes", "input_dtypes", "blocking")
        assert [first.get(key) for key in keys] == ["broadcast", 1, None, [[10]], ["f32"], True]
        assert [second.get(key) for key in keys] == ["all_reduce", None, "max", [[4]], ["i64"], False]
        assert (first["state"], second["state"]) == ("completed", "scheduled")
        ranks = [record["pg_config"][call["process_group"][0]]["ranks"] for call in (first, second)]
        assert ranks == [str([rank // 2 * 2, rank // 2 * 2 + 1]), str([rank % 2, rank % 2 + 2])]


def appear(*paths: Path) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until and not all(path.exists() for path in paths):
        time.sleep(0.01)
    return all(path.exists() for path in paths)


def test_a_signal_has_all_ranks_of_the_process_write(tmp_path: Path) -> None:
    files = [tmp_path / f"rank-{rank}.json" for rank in range(3)]

    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        on.barrier()
        if world.rank == 0:
            signal.raise_signal(SIGNAL)
            assert appear(*files)
        on.barrier()  # where the others wait meanwhile

    run(3, program, record=tmp_path, record_signal=SIGNAL)
    records = [read(file) for file in files]
    assert [each["reason"] for each in records] == ["signal"] * 3
    assert records[0]["entries"][-1]["state"] == "completed"


def test_the_world_of_this_process_has_the_same_options(tmp_path: Path) -> None:
    with World.from_environment(engine="threads", record=tmp_path, record_signal=SIGNAL):
        signal.raise_signal(SIGNAL)
        assert appear(tmp_path / "rank-0.json")
    assert read(tmp_path / "rank-0.json")["world_size"] == 1


def test_a_rank_that_an_exception_ends_writes_why(tmp_path: Path) -> None:
    def program(world: World) -> None:
        on = world.join("dp=*").on("dp")
        on.all_reduce(array.array("d", [1] * 3))
        if world.rank == 1:
            raise KeyError("mine")
        on.barrier()

    with pytest.raises(KeyError):
        run(2, program, record=tmp_path)
    records = [read(tmp_path / f"rank-{rank}.json") for rank in range(2)]
    assert [each["reason"] for each in records] == ["peer_lost", "exception"]
    assert records[0]["lost"] == [1]
    assert records[1]["error"] == "KeyError: 'mine'"
    assert [call["operation"] for call in records[1]["entries"]] == ["all_reduce"]


def test_an_exception_that_leaves_a_with_block_is_written_and_one_that_is_caught_is_not(tmp_path: Path) -> None:
    with World.from_environment(engine="threads", record=tmp_path), pytest.raises(ZeroDivisionError):
        1 / 0  # noqa: B018
    assert os.listdir(tmp_path) == []
    with pytest.raises(ZeroDivisionError), World.from_environment(engine="threads", record=tmp_path):
        1 / 0  # noqa: B018
    record = read(tmp_path / "rank-0.json")
    assert (record["reason"], record["error"]) == ("exception", "ZeroDivisionError: division by zero")


def test_the_first_error_stands(tmp_path: Path) -> None:
    late = one_is_late()

    def program(world: World) -> None:
        try:
            late(world)
        except rankmesh.Timeout:
            raise KeyError("later") from None

    with pytest.raises(KeyError):
        run(2, program, record=tmp_path)
    assert read(tmp_path / "rank-0.json")["reason"] == "timeout"


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"record": 3}, TypeError, "the record is 3, which is int; it must be a path: a str, bytes or os.PathLike"),
        ({"record": "a\0b"}, ValueError, r"which is str, which is no path: embedded null"),
        ({"record_signal": "USR1"}, TypeError, "the record_signal is 'USR1', which is str; it must be an int"),
        ({"record_signal": signal.SIGKILL}, ValueError, "record_signal=9 is no signal that can be caught; it is one"),
        ({"record_signal": -1}, ValueError, "record_signal=-1 is no signal that can be caught; it is one such as SIG"),
    ],
)
def test_what_is_no_folder_and_no_signal_is_refused(options: Any, kind: type[Exception], text: str) -> None:
    for call in (lambda: run(1, lambda world: None, **options), lambda: World.from_environment(**options)):
        with pytest.raises(kind, match=text) as caught:
            call()
        assert isinstance(caught.value, rankmesh.Error)


def test_a_record_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with World.from_environment(engine="threads") as world:
        with pytest.raises(rankmesh.UsageError, match=r"record is not written: '.*folder' cannot be replaced: Is a"):
            world.write_record(tmp_path / "folder")
        with pytest.raises(rankmesh.UsageError, match=r"record is not written: '.*file/x.json.*' cannot be written"):
            world.write_record(tmp_path / "file" / "x.json")
        with pytest.raises(TypeError, match="the path is None, which is NoneType; it must be a path"):
            world.write_record(None)  # type: ignore[arg-type]
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    with pytest.raises(rankmesh.UsageError, match="this world was closed"):
        world.write_record(tmp_path / "late.json")
