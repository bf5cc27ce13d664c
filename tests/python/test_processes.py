"""Ranks as processes: Gloo, MPI, launchers, Ctrl-C, forks, and what happens when the interpreter ends."""

from __future__ import annotations

import json
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
HEAD = "import os, signal, sys, threading, time\nfrom array import array\nimport rankmesh\nfrom rankmesh import World\n"
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
        x = array("d", [world.rank + 1.0] * 1000)
        me.on("dp", "tp").all_reduce(x)
        pending = me.on("tp").start_all_reduce(array("d", [1] * 3))
        print(f"{world.engine} {world.size} {x[0]} {pending.wait()[0]} {me.on('dp').all_gather_object(world.rank)}")
"""


ELASTIC = """
    again = "AGAIN" in os.environ
    world = World.rejoin(timeout=50) if again else World.from_environment(timeout=50)
    try:
        dp = world.join("dp=*").on("dp")
        dp.all_reduce(array("d", [1] * 1))
        if world.rank == 1 and not again:
            os._exit(7)
        if not again:
            dp.all_reduce(array("d", [1] * 1))
    except rankmesh.PeerLost as lost:
        assert lost.ranks == [1]
        world = world.survivors(50)
        print(world.size, world.join("dp=*").on("dp").all_reduce(array("q", [5]))[0])
        try:
            world.grow(0, 1)
        except rankmesh.UsageError as error:
            print(error)
        world = world.grow(1, 50)
        world.join("dp=*").on("dp").all_reduce(array("d", [1] * 1))
    me = world.join("dp=*")
    connections = me.usage().connections
    me.suspend()
    rests = me.usage().connections
    me.resume()
    print(world.rank, world.size, me.on("dp").all_reduce(array("q", [world.rank]))[0], connections, rests)
"""


@needs_gloo
def test_a_process_takes_the_place_of_a_rank_that_has_ended(tmp_path: Path) -> None:
    store = tmp_path / "store"
    processes = [start(ELASTIC, rank, 3, store) for rank in range(3)]
    processes.append(start(ELASTIC, 1, 3, store, AGAIN="1"))
    results = ended(processes)
    assert [status for status, _, _ in results] == [0, 7, 0, 0], results
    refused = "a world is to grow by 0 processes; 1 to 256 can enter it at once"
    for rank in (0, 2):
        assert results[rank][1] == f"2 10\n{refused}\n{rank} 3 3 2 0\n"
    assert results[3][1] == "1 3 3 2 0\n"


@needs_gloo
def test_processes_over_gloo_find_each_other_through_a_folder(tmp_path: Path) -> None:
    for rank, (status, out, err) in enumerate(together(SUMS, 4, tmp_path / "store")):
        assert (status, err) == (0, "")
        assert out == f"gloo 4 10.0 2.0 {[rank % 2, rank % 2 + 2]}\n"


def under_mpirun(program: str, size: int) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [str(MPIRUN), "--oversubscribe", "-n", str(size), sys.executable, "-c", HEAD + textwrap.dedent(program)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT)


@needs_mpi
def test_processes_under_mpirun_are_an_mpi_world() -> None:
    done = under_mpirun(SUMS, 4)
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
        assert me.on("dp").all_reduce(array("d", [1] * 2))[1] == 2.0
        try:
            rankmesh.from_mpi4py(3)
        except TypeError as error:
            print(error)
        del comm, me, world
    """
    done = crossing(program)
    assert done.stdout.count("a communicator is 3, which is int; it must be mpi4py's") == 2


def crossing(program: str) -> subprocess.CompletedProcess[str]:
    """The end of two ranks that use mpi4py."""
    pytest.importorskip("mpi4py")
    done = under_mpirun(program, 2)
    if "communicators cross only between the same MPI" in done.stderr:
        pytest.skip("mpi4py works on another MPI")
    assert done.returncode == 0, done.stderr
    return done


@needs_mpi
def test_a_communicator_of_mpi4py_keeps_ours_and_does_not_free_it() -> None:
    done = crossing(
        """
        from mpi4py import MPI
        comm = rankmesh.to_mpi4py(rankmesh.from_mpi4py(MPI.COMM_WORLD).join("dp=*").on("dp"))
        assert comm.allreduce(1) == 2
        for free in (comm.Free, comm.Disconnect):
            try:
                free()
            except ValueError as error:
                print(error)
        own = comm.Dup()
        assert own.allreduce(1) == 2
        own.Free()
        assert comm.allreduce(1) == 2
        """
    )
    text = "of the communicator that to_mpi4py gave for 'dp' of mesh dp=2, which is rankmesh's; free a Dup() of it"
    for call in ("Free", "Disconnect"):
        assert done.stdout.count(f"{call} {text}") == 2


@needs_mpi
def test_a_call_after_mpi_finalize_is_refused() -> None:
    done = crossing(
        """
        from mpi4py import MPI
        world = rankmesh.from_mpi4py(MPI.COMM_WORLD)
        on = world.join("dp=*").on("dp")
        MPI.Finalize()
        for call in (on.barrier, on.start_barrier, lambda: world.join("dp=*")):
            try:
                call()
            except ValueError as error:
                print(error)
        """
    )
    assert done.stdout.count("MPI was called after MPI_Finalize; finalise it when the worlds") == 6


@pytest.mark.parametrize("uncaught", [False, True])
@needs_mpi
def test_an_exception_ends_the_job_only_where_it_ends_the_program(uncaught: bool) -> None:
    done = under_mpirun(
        f"""
        try:
            1 / 0
        except ZeroDivisionError:  # as a prompt does, and pytest
            sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
        world = World.from_environment(timeout=30)
        on = world.join("dp=*").on("dp")
        if {uncaught} and world.rank == 0:
            raise KeyError("of rank 0")
        on.barrier()
        print("fine", flush=True)
        """,
        2,
    )
    assert ("by an exception; other ranks may wait for this rank" in done.stderr) == uncaught, done.stderr
    assert (done.returncode != 0, done.stdout.count("fine")) == ((True, 0) if uncaught else (False, 2))


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


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("raise KeyError('mine')", "exception"),
        ("world.close(); raise KeyError('mine')", None),
        ("sys.exit(3)", None),
        ("if os.fork() == 0: raise KeyError('mine')\n        os.wait()", None),
    ],
)
def test_what_ends_the_interpreter_is_in_the_flight_record(end: str, reason: str | None, tmp_path: Path) -> None:
    alone(
        f"""
        world = World.from_environment(engine="threads", record={str(tmp_path)!r})
        {end}
        """
    )
    records = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert [(each["reason"], each["error"]) for each in records] == ([(reason, "KeyError: 'mine'")] if reason else [])


@needs_gloo
def test_the_records_of_processes_say_who_failed(tmp_path: Path) -> None:
    program = f"""
        world = World.from_environment(timeout=30, record={str(tmp_path / "records")!r})
        on = world.join("dp=*").on("dp")
        on.all_reduce(array("d", [1] * 3))
        if world.rank == 1:
            raise KeyError("of rank 1")
        on.barrier()
    """
    together(program, 3, tmp_path / "store")
    records = [json.loads((tmp_path / f"records/rank-{rank}.json").read_text()) for rank in range(3)]
    assert [each["reason"] for each in records] == ["peer_lost", "exception", "peer_lost"]
    assert [each.get("lost") for each in records] == [[1], None, [1]]
    assert records[1]["error"] == "KeyError: 'of rank 1'"
    assert [call["state"] for call in records[1]["entries"]] == ["completed"]


@needs_gloo
def test_ctrl_c_ends_a_blocking_call_within_a_second(tmp_path: Path) -> None:
    program = """
        world = World.from_environment(timeout=60)
        on = world.join("dp=*").on("dp")
        if world.rank == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            try:
                on.all_reduce(array("d", [1] * 3))
            except KeyboardInterrupt:
                print(time.monotonic() - begin < 1.5)
        else:
            time.sleep(3)
            try:
                on.all_reduce(array("d", [1] * 3))
            except rankmesh.PeerLost as lost:
                print(lost.ranks)
    """
    results = together(program, 2, tmp_path / "store")
    assert [out for _, out, _ in results] == ["True\n", "[0]\n"], results
    assert [status for status, _, _ in results] == [0, 0], results


@pytest.mark.parametrize("what", ["start", "drop", "prepare", "join", "world"])
@needs_gloo
def test_ctrl_c_ends_what_waits_for_ranks_that_do_not_come(tmp_path: Path, what: str) -> None:
    program = f"""
        print("up", flush=True)
        world = World.from_environment(timeout=60)
        if {what!r} != "world":
            me = world.join("dp=*", lazy={what!r} == "prepare")
            me.prepare("dp")
            pending = me.on("dp").start_barrier()
            if {what!r} == "start":
                pending.wait()
            del pending
            time.sleep(0.1)
    """
    size = 2
    # With all but "world" the peer comes, makes its world, and then sleeps.
    peer = f"""
        world = World.from_environment(timeout=60)
        if {what!r} != "join":
            me = world.join("dp=*", lazy={what!r} == "prepare")
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
        x = array("d", [1] * 3)
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


@needs_gloo
def test_the_interpreter_ends_with_a_daemon_thread_inside_a_collective(tmp_path: Path) -> None:
    program = """
        world = World.from_environment(timeout=30)
        on = world.join("dp=*").on("dp")
        if world.rank == 0:
            threading.Thread(target=on.barrier, daemon=True).start()
            time.sleep(0.3)
        else:
            time.sleep(1)
            try:
                on.all_reduce(array("d", [1] * 3))
            except rankmesh.PeerLost as lost:
                print(lost.ranks)
    """
    assert together(program, 2, tmp_path / "store") == [(0, "", ""), (0, "[0]\n", "")]


@pytest.mark.parametrize(
    "program",
    [
        "time.sleep(0.5), group.barrier()",
        "group.barrier() if world.rank else time.sleep(20)",
        "spin(group)",
        "group.broadcast_object(Slow())",  # Python runs inside a bound function
    ],
)
def test_the_interpreter_ends_with_a_daemon_thread_inside_a_run(program: str) -> None:
    assert alone(
        f"""
        def spin(group):
            while True:
                group.all_reduce(array("d", [1] * 3))
        class Slow:
            def __reduce__(self):
                while True:
                    time.sleep(0.001)
        def main(world):
            group = world.join("dp=*").on("dp")
            {program}
        threading.Thread(target=rankmesh.run, args=(2, main), daemon=True).start()
        time.sleep(0.3)
        """
    ) == (0, "", "")


@pytest.mark.parametrize(
    "program",
    [
        # A world whose log holds a younger one: ending the first destroys the second.
        """
        held = []
        first = World.from_environment(engine="threads", log=lambda line, held=held: None)
        held += [World.from_environment(engine="threads"), [bytearray(n) for n in range(2000)]]
        del held
        """,
        # Cycles through a log that Python cannot see.
        """
        def log(line): pass
        world = World.from_environment(engine="threads", log=log)
        pending = world.join("dp=1").on("dp").start_barrier()
        """,
        """
        def log(line): pass
        def main(world):
            global kept
            kept = world.join("dp=*").on("dp").start_barrier()
            kept.wait()
        rankmesh.run(2, main, log=log)
        """,
    ],
)
def test_what_a_log_holds_ends_with_the_interpreter(program: str) -> None:
    assert alone(program) == (0, "", "")


@needs_gloo
def test_the_interpreter_does_not_wait_for_what_is_pending(tmp_path: Path) -> None:
    program = """
        world = World.from_environment(timeout=20)
        on = world.join("dp=*").on("dp")
        if world.rank == 0:
            pending = on.start_all_reduce(array("d", [1] * 3))
            print(flush=True)
            sys.exit(3)
        time.sleep(30)
    """
    processes = [start(program, rank, 2, tmp_path / "store") for rank in range(2)]
    assert processes[0].stdout is not None
    processes[0].stdout.readline()
    begin = time.monotonic()
    processes[0].communicate(timeout=TIMEOUT)
    took = time.monotonic() - begin
    processes[1].kill()
    processes[1].communicate()
    assert processes[0].returncode == 3
    assert took < 5


@pytest.mark.parametrize(
    ("end", "status", "text"),
    [
        ("return 5", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("raise KeyError('mine')", 1, "KeyError: 'mine'"),
    ],
)
def test_the_forked_child_of_a_rank_ends_as_its_program_does(end: str, status: int, text: str) -> None:
    ended_as, out, err = alone(
        f"""
        def child():
            print("child", end="")
            {end}
        def main(world):
            if world.rank == 1:
                pid = os.fork()
                if pid == 0:
                    return child()
                print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            world.join("dp=*").on("dp").barrier()
        rankmesh.run(2, main, timeout=10)
        print("parent")
        """
    )
    assert (ended_as, out) == (0, f"child{status}\nparent\n")
    assert text in err


def test_ctrl_c_works_in_a_forked_child() -> None:
    status, out, err = alone(
        """
        rankmesh.run(1, lambda world: None)
        pid = os.fork()
        if pid == 0:
            def main(world):
                if world.rank == 0:
                    print("up", flush=True)
                    while True:
                        pass
            try:
                rankmesh.run(2, main)
            except KeyboardInterrupt:
                os._exit(7)
            os._exit(0)
        time.sleep(1)
        os.kill(pid, signal.SIGINT)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    assert (status, out, err) == (0, "up\n7\n", "")


@needs_gloo
def test_ctrl_c_ends_a_collective_in_a_forked_child(tmp_path: Path) -> None:
    program = """
        size = os.environ.pop("WORLD_SIZE")
        World.from_environment(engine="threads").join("dp=1").on("dp").barrier()
        os.environ["WORLD_SIZE"] = size
        pid = os.fork()
        if pid == 0:
            world = World.from_environment(timeout=20)
            group = world.join("dp=*").on("dp")
            if world.rank == 1:
                time.sleep(2)
                os._exit(0)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                group.barrier()
            except KeyboardInterrupt:
                os._exit(7)
            except rankmesh.PeerLost:
                os._exit(8)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    results = together(program, 2, tmp_path / "store")
    assert [result[:2] for result in results] == [(0, "7\n"), (0, "0\n")], results


def test_a_rank_that_does_not_end_is_given_up() -> None:
    status, out, err = alone(
        """
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        world = World.from_environment(engine="threads")
        begin = time.monotonic()
        try:
            rankmesh.run(2, lambda world: threading.Event().wait())
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begin < 6)
        sys.exit(5)
        """
    )
    assert (status, out, err) == (5, "interrupted True\n", "")


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
