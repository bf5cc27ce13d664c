"""Ranks as processes: Gloo, MPI, launchers, Ctrl-C, forks, and what happens when the interpreter ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import rankmesh

TIMEOUT = 60
HEAD = "import os, signal, sys, threading, time\nimport numpy as np\nimport rankmesh\nfrom rankmesh import World\n"
MPIRUN = shutil.which("mpirun")
needs_gloo = pytest.mark.skipif("gloo" not in rankmesh.engines(), reason="this build has no Gloo")
needs_mpi = pytest.mark.skipif(
    "mpi" not in rankmesh.engines() or not MPIRUN, reason="this build has no MPI, or no mpirun"
)


def start(program: str, rank: int, size: int, store: Path | None, **extra: str) -> subprocess.Popen[str]:
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("RANKMESH_", "OMPI_", "PMI", "SLURM_"))
    }
    env.update(RANK=str(rank), WORLD_SIZE=str(size), PYTHONFAULTHANDLER="1", **extra)
    if store is not None:
        env.update(RANKMESH_STORE=str(store), RANKMESH_JOB=store.parent.name)
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(program)],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """How each ended: its exit status, and what it wrote."""
    results = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=TIMEOUT)
            results.append((process.returncode, out, err))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return results


def alone(program: str) -> tuple[int, str, str]:
    return ended([start(program, 0, 1, None)])[0]


def together(program: str, size: int, store: Path) -> list[tuple[int, str, str]]:
    return ended([start(program, rank, size, store) for rank in range(size)])


SUMS = """
    with World.from_environment(timeout=30) as world:
        me = world.join("dp=2 tp=*", over=[("dp", "tp")])
        x = np.full(1000, world.rank + 1.0)
        me.on("dp", "tp").all_reduce(x)
        pending = me.on("tp").start_all_reduce(np.ones(3))
        print(f"{world.engine} {world.size} {x[0]} {pending.wait()[0]} {me.on('dp').all_gather_object(world.rank)}")
"""


@needs_gloo
def test_processes_over_gloo_find_each_other_through_a_folder(tmp_path: Path) -> None:
    for rank, (status, out, err) in enumerate(together(SUMS, 4, tmp_path / "store")):
        assert (status, err) == (0, "")
        assert out == f"gloo 4 10.0 2.0 {[rank % 2, rank % 2 + 2]}\n"


@needs_mpi
def test_processes_under_mpirun_are_an_mpi_world() -> None:
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [str(MPIRUN), "--oversubscribe", "-n", "4", sys.executable, "-c", HEAD + textwrap.dedent(SUMS)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mpi 4 10.0 2.0 [") == 4


@needs_mpi
def test_communicators_cross_between_mpi4py_and_us() -> None:
    pytest.importorskip("mpi4py")
    program = """
        from mpi4py import MPI
        world = rankmesh.from_mpi4py(MPI.COMM_WORLD)
        me = world.join("dp=*")
        comm = rankmesh.to_mpi4py(me.on("dp"))
        assert comm.Get_size() == world.size and comm.Get_rank() == world.rank
        assert comm.allreduce(world.rank) == 1
        assert me.on("dp").all_reduce(np.ones(2))[1] == 2.0
        try:
            rankmesh.from_mpi4py(3)
        except TypeError as error:
            print(error)
        del comm, me, world
    """
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [str(MPIRUN), "--oversubscribe", "-n", "2", sys.executable, "-c", HEAD + textwrap.dedent(program)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT)
    if "communicators cross only between the same MPI" in done.stderr:
        pytest.skip("mpi4py works on another MPI")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a communicator is 3, which is int; it must be mpi4py's") == 2


@needs_gloo
def test_a_rank_that_raises_is_lost_to_the_others(tmp_path: Path) -> None:
    program = """
        world = World.from_environment(timeout=30)
        on = world.join("dp=*").on("dp")
        if world.rank == 1:
            raise KeyError("of rank 1")
        try:
            on.barrier()
        except rankmesh.PeerLost as lost:
            print(lost.ranks)
    """
    results = together(program, 3, tmp_path / "store")
    assert [out for _, out, _ in results] == ["[1]\n", "", "[1]\n"]
    assert [status for status, _, _ in results] == [0, 1, 0]
    assert "KeyError: 'of rank 1'" in results[1][2]


@needs_gloo
def test_ctrl_c_ends_a_blocking_call_within_a_second(tmp_path: Path) -> None:
    program = """
        world = World.from_environment(timeout=60)
        on = world.join("dp=*").on("dp")
        if world.rank == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            try:
                on.all_reduce(np.ones(3))
            except KeyboardInterrupt:
                print(time.monotonic() - begin < 1.5)
        else:
            time.sleep(3)
            try:
                on.all_reduce(np.ones(3))
            except rankmesh.PeerLost as lost:
                print(lost.ranks)
    """
    results = together(program, 2, tmp_path / "store")
    assert [out for _, out, _ in results] == ["True\n", "[0]\n"], results
    assert [status for status, _, _ in results] == [0, 0], results


@pytest.mark.parametrize("what", ["start", "join", "world"])
@needs_gloo
def test_ctrl_c_ends_what_waits_for_ranks_that_do_not_come(tmp_path: Path, what: str) -> None:
    program = f"""
        print("up", flush=True)
        world = World.from_environment(timeout=60)
        if {what!r} != "world":
            me = world.join("dp=*")
            me.on("dp").start_barrier().wait()
    """
    size = 2
    # With "join" and "start" the peer comes, makes its world, and then sleeps.
    peer = f"""
        world = World.from_environment(timeout=60)
        if {what!r} == "start":
            me = world.join("dp=*")
        print("up", flush=True)
        time.sleep(20)
    """
    processes = [start(program, 0, size, tmp_path / "store")]
    if what != "world":
        processes.append(start(peer, 1, size, tmp_path / "store"))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
    time.sleep(0.5)
    begin = time.monotonic()
    processes[0].send_signal(signal.SIGINT)
    _, err = processes[0].communicate(timeout=TIMEOUT)
    took = time.monotonic() - begin
    for process in processes[1:]:
        process.kill()
        process.communicate()
    assert "KeyboardInterrupt" in err
    assert processes[0].returncode in (1, 130, -signal.SIGINT)
    assert took < 2.0


@pytest.mark.parametrize("engine", ["threads", pytest.param("gloo", marks=needs_gloo)])
def test_the_interpreter_ends_cleanly_with_work_pending(tmp_path: Path, engine: str) -> None:
    program = """
        world = World.from_environment(timeout=60)
        on = world.join("dp=*").on("dp")
        x = np.ones(3)
        if world.rank == 0:
            pending = on.start_all_reduce(x)
            print("pending", flush=True)
            sys.exit(3)
        time.sleep(0.5)
        try:
            on.all_reduce(x)
            on.barrier()
        except rankmesh.PeerLost as lost:
            print("lost", lost.ranks)
    """
    if engine == "threads":
        status, out, err = alone(program)
        assert (status, out, err) == (3, "pending\n", "")
        return
    results = together(program, 2, tmp_path / "store")
    assert results[0][:2] == (3, "pending\n")
    assert "Fatal Python error" not in results[0][2] + results[1][2]
    assert results[1][0] == 0, results


def test_a_forked_child_is_told_that_the_world_is_its_parents() -> None:
    status, out, err = alone(
        """
        import warnings
        warnings.simplefilter("ignore")  # from Python 3.12 on, of a fork beside threads
        world = World.from_environment()
        on = world.join("dp=1").on("dp")
        child = os.fork()
        if child == 0:
            try:
                on.barrier()
            except ValueError as error:
                print(error, flush=True)
            print(World.from_environment(engine="threads").size, flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        on.barrier()
        print("parent", world.size)
        """
    )
    assert (status, err) == (0, "")
    assert "this belongs to the process that this one was forked off; make a world of its own after the fork" in out
    assert out.endswith("1\nparent 1\n")


def test_a_subinterpreter_is_refused_in_words() -> None:
    status, out, err = alone(
        """
        try:
            import _interpreters as interpreters
            created = [interpreters.create("isolated"), interpreters.create("legacy")]
        except ImportError:  # as it is until Python 3.12
            import _xxsubinterpreters as interpreters
            created = [interpreters.create(isolated=True), interpreters.create(isolated=False)]
        for which in created:
            try:
                failed = getattr(interpreters, "exec", interpreters.run_string)(which, "import rankmesh")
            except Exception as error:
                failed = error
            print(getattr(failed, "msg", failed))
            interpreters.destroy(which)
        print(rankmesh.Mesh(dp=2))
        """
    )
    assert (status, err) == (0, "")
    assert out.count("module rankmesh._core does not support loading in subinterpreters\n") == 2
    assert out.endswith("dp=2\n")


def test_importing_costs_little_and_loads_no_engine() -> None:
    code = """
        heavy = {"numpy", "torch", "dataclasses", "enum", "typing", "re"}
        print(sorted(m for m in sys.modules if m in heavy or m.startswith("rankmesh")))
    """
    out = subprocess.run(
        [sys.executable, "-S", "-c", "import sys, rankmesh" + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    ).stdout
    assert out == "['rankmesh', 'rankmesh._core', 'rankmesh._errors']\n"


def test_what_was_never_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rankmesh' has no attribute 'wrld'"):
        _ = rankmesh.wrld  # type: ignore[attr-defined]
    assert set(rankmesh.__all__) <= set(dir(rankmesh))
