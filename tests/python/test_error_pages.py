"""The pages of errors and of environment variables: each error reads as shown, and no variable is left out."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import rankmesh
from rankmesh import Mesh, World, run

np = pytest.importorskip("numpy")
ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"^### ([^\n]*)\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
SHOWN = dict(SECTION.findall((ROOT / "docs/errors.md").read_text(encoding="utf-8")))
LAUNCHERS = ("RANKMESH_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "WORLD_SIZE", "RANK")


def one_leaves(world: World, *, slowly: bool) -> None:
    dp = world.join("dp=4", timeout=1 if slowly else 30).on("dp")
    if world.rank != 3:
        dp.barrier()
    elif slowly:
        come.wait(30)


come = threading.Event()


def one_comes_late() -> None:
    def program(world: World) -> None:
        try:
            one_leaves(world, slowly=True)
        finally:
            come.set()

    come.clear()
    run(4, program)


def started(**variables: str) -> Callable[[], object]:
    def start() -> object:
        os.environ.update(variables)
        return World.from_environment(engine=variables.get("RANKMESH_ENGINE"))

    return start


def of_tp(world: World) -> rankmesh.Communicator:
    return world.join("dp=2 tp=2").on("tp")


MADE: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "The ranks join different plans": (
        rankmesh.Disagreement,
        lambda: run(4, lambda world: world.join("tp=*" if world.rank == 2 else "dp=*")),
    ),
    "A call is not the same on all ranks": (
        rankmesh.Disagreement,
        lambda: run(4, lambda world: world.join("dp=4").on("dp").all_reduce(np.ones(3 if world.rank == 1 else 2))),
    ),
    "A call is not the same, in checked mode": (
        rankmesh.Disagreement,
        lambda: run(
            4,
            lambda world: world.join("dp=4").on("dp").all_reduce(np.ones(3 if world.rank == 1 else 2)),
            checked=True,
        ),
    ),
    "The timeout expired": (rankmesh.Timeout, one_comes_late),
    "A rank is gone": (rankmesh.PeerLost, lambda: run(4, lambda world: one_leaves(world, slowly=False))),
    "Mesh covers some of the ranks": (rankmesh.UsageError, lambda: run(8, lambda world: world.join("dp=3 tp=2"))),
    "Mesh does not fit a world": (rankmesh.UsageError, lambda: run(8, lambda world: world.join("dp=* tp=3"))),
    "Mesh has no axis": (rankmesh.UnknownName, lambda: Mesh("dp=4 tp=2").group(3, "ttp")),
    "Rank is outside mesh": (rankmesh.UsageError, lambda: Mesh("dp=4 tp=2").group(9, "tp")),
    "Axes were not declared": (
        rankmesh.UsageError,
        lambda: run(4, lambda world: world.join("dp=2 tp=2").on("dp", "tp")),
    ),
    "Buffers of a wrong length": (
        rankmesh.UsageError,
        lambda: run(4, lambda world: of_tp(world).all_gather(np.ones(2), np.ones(3))),
    ),
    "Argument is not an array": (
        rankmesh.UsageTypeError,
        lambda: run(4, lambda world: of_tp(world).all_reduce(["a"])),
    ),
    "No store in which processes meet": (
        rankmesh.UsageError,
        started(WORLD_SIZE="4", RANK="0", RANKMESH_ENGINE="gloo"),
    ),
    "Rank is not known": (
        rankmesh.UsageError,
        started(WORLD_SIZE="4", RANKMESH_ENGINE="gloo", RANKMESH_STORE="store"),
    ),
    "Rank of a smaller world": (
        rankmesh.UsageError,
        started(WORLD_SIZE="4", RANK="7", RANKMESH_ENGINE="gloo", RANKMESH_STORE="store"),
    ),
    "No job id": (
        rankmesh.UsageError,
        started(WORLD_SIZE="2", RANK="1", RANKMESH_ENGINE="gloo", RANKMESH_STORE="store"),
    ),
    "The launcher announced another number of processes": (
        rankmesh.UsageError,
        started(WORLD_SIZE="4", RANK="0", RANKMESH_ENGINE="threads"),
    ),
    "No engine has that name": (rankmesh.UsageError, started(RANKMESH_ENGINE="glo")),
}


def without_chance(text: str) -> str:
    """The text without whose timeout was the first to expire, and how long a rank was away."""
    return re.sub(r"expired on rank \d+", "expired on rank R", re.sub(r"for \d+\.\d s", "for T s", text))


@pytest.mark.parametrize("name", MADE)
def test_error_when_made_reads_as_its_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "'gloo'" in SHOWN[name] and not {"gloo", "mpi"} <= set(rankmesh.engines()):
        pytest.skip("needs gloo and mpi")
    for variable in [each for each in os.environ if each.startswith(LAUNCHERS)]:
        monkeypatch.delenv(variable)
    for variable in ("WORLD_SIZE", "RANK", "RANKMESH_ENGINE", "RANKMESH_STORE"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)  # which ends what the error's own start sets
    kind, made = MADE[name]
    with pytest.raises(kind) as raised:
        made()
    assert type(raised.value) is kind
    assert without_chance(str(raised.value)) == without_chance(SHOWN[name])


def test_errors_of_the_page_are_those_that_are_made() -> None:
    assert list(SHOWN) == list(MADE)


@pytest.mark.parametrize(
    ("page", "ranks", "sizes"),
    [
        ("start-cpp", 8, lambda rank: "dp=* tp=4" if rank == 2 else "dp=* tp=2"),
        ("start-torch", 4, lambda _: "dp=* tp=3"),
    ],
)
def test_error_of_a_first_page_reads_as_shown(page: str, ranks: int, sizes: Callable[[int], str]) -> None:
    with pytest.raises(rankmesh.Error) as raised:
        run(ranks, lambda world: world.join(sizes(world.rank), over=[("dp", "tp")]))
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert f"{raised.value}\n```" in text


def test_environment_page_when_read_has_every_variable() -> None:
    read = set()
    for folder in ("src", "cli", "python"):
        for path in (ROOT / folder).rglob("*.[ch]pp" if folder != "python" else "*.py"):
            read.update(re.findall(r'"(RANKMESH_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    read.add("RANKMESH_REDIS_PASSWORD_FILE")
    read.add("RANKMESH_SECRET_FILE")
    page = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(RANKMESH_[A-Z_]+)`", page)) - {"RANKMESH_TP", "RANKMESH_TP_SIZE"}
    assert named == read
