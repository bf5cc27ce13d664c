"""`rankmesh explain` on dumps of PyTorch's flight recorder, beside its own analyser, and on records of our programs."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import flight_records
import pytest
import rankmesh
from flight_records import FAULTS, Job, dump, job, of_gloo, untimed, without_entries, write
from torch_ranks import ranks
from with_numpy import needs_numpy, np

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
SEEDS = range(8)
TIE = "as many called the one as the other, so records do not tell which is right"

pytestmark = pytest.mark.skipif(not COMMAND, reason="there is no command: RANKMESH_COMMAND names it")


def explain(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    run = subprocess.run(
        [COMMAND, "explain", str(folder), "--json", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode in (0, 1, 3), run.stderr
    said = json.loads(run.stdout)
    assert (said["wrong"], said["findings"] != [], said["doubts"] != []) == {
        0: (False, False, False),
        1: (True, True, False),
        3: (None, False, True),
    }[run.returncode], said
    return run.returncode, said


def kinds(fault: str) -> set[str]:
    """What a fault may be called."""
    return {
        "skip": {"calls_differ", "behind", "cycle"},
        "twice": {"calls_differ", "extra", "cycle", "behind"},
        "swap": {"calls_differ", "cycle"},
        "operation": {"calls_differ"},
        "size": {"calls_differ"},
        "dtype": {"calls_differ"},
        "stop": {"behind"},
        "dead": {"absent"},
        "not started": {"unfinished", "behind"},
        "unfinished": {"unfinished"},
    }[fault]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_finding_names_the_culprit(fault: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        made = job(seed, fault)
        write(made, tmp_path / str(seed))
        code, said = explain(tmp_path / str(seed), "--mesh", str(made.mesh))
        where = f"seed {seed}, {fault} by {made.culprit} at {made.step} of {made.mesh}: {said}"
        if fault == "none":
            assert (code, said["findings"]) == (0, []), where
            continue
        assert code == 1, where
        first = said["findings"][0]
        assert first["kind"] in kinds(fault), where
        assert made.culprit in first["ranks"], where
        coordinates = dict(zip(first["ranks"], first["coordinates"], strict=True))
        assert coordinates[made.culprit] == str(made.mesh.coord(made.culprit)), where


@pytest.mark.parametrize("change", [dict, untimed, without_entries])
def test_a_call_to_which_all_have_come_and_that_none_has_finished_is_nobodys_fault(
    change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    for seed in SEEDS:
        made = job(seed, "stall")
        write(made, tmp_path / str(seed), change)
        code, said = explain(tmp_path / str(seed))
        where = f"seed {seed}, {made.stalled} of {made.mesh}: {said}"
        assert made.stalled is not None
        group, number = made.stalled
        if change is without_entries and group != "0":  # nothing says which status is of which group
            assert code != 0, where
            continue
        assert code == 1, where
        first = said["findings"][0]
        assert (first["kind"], first["ranks"]) == ("unfinished", []), where
        assert (first["group"], first["call"]) == (made.groups[group], number), where
        assert first["text"].startswith("all members have come to "), where
        assert ("their calls agree" in first["text"]) == (change is not without_entries), where


@pytest.mark.parametrize("fault", [*FAULTS[1:], "stall"])
@pytest.mark.parametrize("change", [dict, untimed, of_gloo, without_entries])
def test_nothing_is_never_wrong_where_something_is(
    fault: str, change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    for seed in SEEDS:
        made = job(seed, fault)
        write(made, tmp_path / str(seed), change)
        assert explain(tmp_path / str(seed), "--mesh", str(made.mesh))[0] != 0, f"seed {seed}, {fault}"


@pytest.mark.parametrize("change", [dict, untimed, of_gloo])
def test_without_the_dump_of_a_rank_nobody_can_tell_that_nothing_is_wrong(
    change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    for seed in SEEDS:
        made = job(seed, "none")
        folder = tmp_path / str(seed)
        write(made, folder, change)
        mesh = ("--mesh", str(made.mesh)) if change is of_gloo else ()
        assert explain(folder, *mesh)[0] == 0
        if mesh:
            assert explain(folder)[1]["doubts"] == ["no record says how many ranks the job has, and no mesh was given"]
        (folder / f"nccl_trace_rank_{made.culprit}").unlink()
        code, said = explain(folder, *mesh)
        assert code == 3
        assert said["doubts"][0].startswith(f"no record of rank {made.culprit}"), said


def test_ranks_that_wait_in_a_group_of_gloo_that_is_too_small_wait_for_the_rank_without_a_dump(tmp_path: Path) -> None:
    for seed in SEEDS:
        made = job(seed, "dead")
        write(made, tmp_path / str(seed), of_gloo)
        code, said = explain(tmp_path / str(seed), "--mesh", str(made.mesh))
        if code == 1:
            assert (said["findings"][0]["kind"], said["findings"][0]["ranks"]) == ("absent", [made.culprit]), said
        else:
            assert said["doubts"][0].startswith(f"no record of rank {made.culprit} "), said


def test_work_that_is_not_over_by_the_status_alone_waits_for_a_rank_that_left_no_dump(tmp_path: Path) -> None:
    made = job(0, "none")
    for rank in range(1, made.mesh.size):
        record = dump(made, rank)
        calls = [entry for entry in record["entries"] if entry["process_group"][0] == "0"]
        record["entries"].remove(calls[-1])
        record["pg_status"]["0"]["last_completed_collective"] = len(calls) - 1
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(record))
    code, said = explain(tmp_path)
    assert code == 1
    first = said["findings"][0]
    assert (first["kind"], first["ranks"], first["call"]) == ("absent", [0], len(calls)), said


def test_a_call_that_gloo_notes_as_over_on_some_only_has_failed_there(tmp_path: Path) -> None:
    for seed in SEEDS:
        made = job(seed, "stop")

        def fails(record: dict[str, Any]) -> dict[str, Any]:
            changed = of_gloo(record)
            for entry in changed["entries"]:
                entry |= {"retired": True, "profiling_name": "gloo:all_reduce", "output_sizes": entry["input_sizes"]}
            return changed

        write(made, tmp_path / str(seed), fails)
        code, said = explain(tmp_path / str(seed))
        assert code == 1, said
        first = said["findings"][0]
        assert first["kind"] == "behind", said
        assert made.culprit in first["ranks"], said


@pytest.mark.parametrize("desc", ["mesh_x", "undefined"])
def test_where_most_ranks_agree_on_the_order_the_first_finding_is_who_does_not(desc: str, tmp_path: Path) -> None:
    # Two groups over the same ranks: pairs, of which the others' are alike, and all ranks, whose name says nothing.
    groups = {"a": [0, 1], "b": [2, 3]} if desc == "mesh_x" else {"a": [0, 1, 2, 3]}
    for rank in range(4):
        mine = next(name for name, ranks in groups.items() if rank in ranks)
        names = [mine + "x", mine + "y"]
        made = job(0, "none")
        entry = dump(made, 0)["entries"][0] | {"state": "scheduled", "collective_seq_id": 1, "is_p2p": False}
        entries: list[dict[str, Any]] = []
        for name in reversed(names) if rank == 1 else names:
            of = ("mesh_" + name[1]) if desc == "mesh_x" else desc
            started = {"state": "started"} if not entries else {}
            entries.append(entry | {"process_group": (name, of), "pg_id": 1, "record_id": len(entries)} | started)
        record = dump(made, 0) | {
            "entries": entries,
            "pg_status": {},
            "pg_config": {
                name: {
                    "name": name,
                    "desc": ("mesh_" + name[1]) if desc == "mesh_x" else desc,
                    "ranks": str(groups[mine]),
                }
                for name in names
            },
        }
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(record))
    first = explain(tmp_path)[1]["findings"][0]
    assert (first["kind"], first["ranks"]) == ("cycle", [1]), first
    assert first["text"].startswith("rank 1 called "), first
    assert "as number 1 of all its calls, where ranks {0, 2, 3} called " in first["text"], first
    assert first["details"][0].startswith("2 ranks wait for one another: rank 0 waits in "), first


def ended(late: set[int]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Dumps of Gloo that were written before the ends of the last calls of some ranks were noted."""
    ranks = iter(range(1000))

    def change(record: dict[str, Any]) -> dict[str, Any]:
        made = of_gloo(record)
        if next(ranks) in late:
            made["entries"][-1]["retired"] = False
        return made

    return change


def test_a_call_whose_end_was_not_noted_yet_is_no_fault(tmp_path: Path) -> None:
    for seed in SEEDS:
        made = job(seed, "none")
        for late in ({made.culprit}, set(range(made.mesh.size))):
            folder = tmp_path / f"{seed} {len(late)}"
            write(made, folder, ended(late))
            code, said = explain(folder, "--mesh", str(made.mesh))
            assert code == 3, said
            noted = "PyTorch's Gloo notes the end of a call a moment after it returned, and not whether it failed"
            assert all(doubt.endswith(noted) for doubt in said["doubts"])


def test_a_call_to_which_a_rank_came_after_the_timeout_of_others_can_have_failed(tmp_path: Path) -> None:
    for seed in SEEDS:
        made = job(seed, "none")
        for late in (3, 7):
            folder = tmp_path / f"{seed} {late}"
            begins = iter([10**18 + (rank == made.culprit) * late * 10**9 for rank in range(made.mesh.size)])

            def at_once(record: dict[str, Any], begins: Iterator[int] = begins) -> dict[str, Any]:
                changed = of_gloo(record)
                when = {"timeout_ms": 5000, "time_created_ns": next(begins)}
                return changed | {"entries": [entry | when for entry in changed["entries"]]}

            write(made, folder, at_once)
            code, said = explain(folder, "--mesh", str(made.mesh))
            assert code == (3 if late > 5 else 0), said
            for doubt in said["doubts"][:5]:
                assert doubt.startswith(f"rank {made.culprit} ({made.mesh.coord(made.culprit)}) came to "), said
                assert doubt.endswith(", whose timeout is 5 s: the call can have failed"), said
                assert f" {late} s after rank " in doubt, said


def test_the_parts_of_a_batch_are_over_where_the_batch_is(tmp_path: Path) -> None:
    # As PyTorch's NCCL records them: parts have no state of their own, and an entry of its own ends the batch.
    for name, is_p2p in (("send", True), ("_all_gather_base", False)):
        for state in ("completed", "scheduled"):
            folder = tmp_path / f"{name} {state}"
            folder.mkdir()
            for rank in range(4):
                made = job(0, "none")
                record = dump(made, 0) | {
                    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(4)))}},
                    "pg_status": {"0": {"last_enqueued_collective": 1, "last_completed_collective": 1}},
                }
                parts = [f"nccl:{name}"] * 2
                if is_p2p:
                    parts = [f"nccl:send {rank}->{(rank + 1) % 4}", f"nccl:recv {rank}<-{(rank - 1) % 4}"]
                entry = record["entries"][0] | {
                    "process_group": ("0", "default_pg"),
                    "pg_id": 0,
                    "is_p2p": is_p2p,
                    "p2p_seq_id": int(is_p2p),
                    "collective_seq_id": int(not is_p2p),
                    "state": "scheduled",
                    "retired": False,
                    "input_sizes": [[4]],
                    "output_sizes": [[4]],
                }
                end = {"profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": [], "state": state}
                record["entries"] = [
                    entry | {"record_id": at} | ({"profiling_name": parts[at]} if at < 2 else end) for at in range(3)
                ]
                (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(record))
            code, said = explain(folder)
            assert code == (0 if state == "completed" else 3 if is_p2p else 1), said


def runs(world: rankmesh.World, made: Job) -> None:
    """The program of one rank, called for real."""
    axes = list(made.mesh.axes)
    me = world.join(made.mesh, over=[axes], timeout=2)
    for call in made.programs[world.rank]:
        on = me.on(call.axis) if call.axis else me.on(*axes)
        dtype = np.float32 if call.dtype == "Float" else np.float64
        some, all_of_them = np.ones(call.size, dtype), np.ones(call.size * on.size, dtype)
        if call.operation == "_all_gather_base":
            on.all_gather(some, all_of_them)
        elif call.operation == "_reduce_scatter_base":
            on.reduce_scatter(all_of_them, some)
        elif call.operation == "broadcast":
            on.broadcast(some)
        else:
            on.all_reduce(some)
    if (made.fault, made.culprit) == ("dead", world.rank):
        raise KeyError("dead")


@needs_numpy
@pytest.mark.parametrize("fault", ["skip", "twice", "swap", "operation", "size", "dtype", "stop", "dead"])
def test_the_records_of_a_program_in_python_name_the_culprit_alone(fault: str, tmp_path: Path) -> None:
    for seed in SEEDS[:3]:
        made = job(seed, fault)
        with pytest.raises((rankmesh.Timeout, rankmesh.PeerLost, rankmesh.Disagreement, KeyError)):
            rankmesh.run(made.mesh.size, runs, record=tmp_path / str(seed), args=(made,))
        code, said = explain(tmp_path / str(seed))
        where = f"seed {seed}, {fault} by {made.culprit} at {made.step} of {made.mesh}: {said}"
        assert code == 1, where
        first = said["findings"][0]
        # Who has returned writes no record, and who raises says so.
        assert first["kind"] in {"stop": {"absent"}, "dead": {"left"}}.get(fault, kinds(fault)), where
        if first["details"] == [TIE] and len(first["group"]) == 2:  # no other group had come to that call yet
            assert made.culprit in first["ranks"], where
        else:
            assert first["ranks"] == [made.culprit], where
        assert first["coordinates"] == [str(made.mesh.coord(rank)) for rank in first["ranks"]], where


def dump_of_gloo(rank: int, size: int, leaves_out: int) -> Any:
    """What PyTorch's Gloo dumps right after three calls, of which one rank may leave out the last."""
    import torch
    import torch.distributed as dist

    timeout = timedelta(seconds=60 if leaves_out < 0 else 5)
    group = dist.new_group(list(range(size)), timeout=timeout, group_desc="mesh_x")
    dist.barrier()
    with contextlib.suppress(RuntimeError):
        for call in range(3):
            if (rank, call) != (leaves_out, 2):
                dist.all_reduce(torch.ones(4), group=group)
    record = torch._C._distributed_c10d._dump_fr_trace()
    dist.barrier()
    return record


@pytest.mark.parametrize("leaves_out", [-1, 2])
def test_what_pytorch_itself_dumps_of_gloo_is_blamed_where_a_rank_left_a_call_out_alone(
    leaves_out: int, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank, record in enumerate(ranks(4, dump_of_gloo, tmp_path, leaves_out)):
        (folder / f"trace_rank_{rank}").write_bytes(record)
    code, said = explain(folder, "--mesh", "x=4")
    if leaves_out < 0:
        assert code in (0, 3), said  # 3: written before the end of a call was noted
    else:
        assert (said["findings"][0]["kind"], said["findings"][0]["ranks"]) == ("behind", [leaves_out]), said


def declares(rank: int, size: int, store: str, records: str, placed: list[int] | None, how: str) -> None:
    """Makes a mesh over groups of the backend rankmesh; the last rank then reduces other data than the rest."""
    import rankmesh.torch
    import torch
    import torch.distributed as dist

    os.environ["RANKMESH_RECORD"] = records
    dist.init_process_group("cpu:rankmesh", store=dist.FileStore(store, size), rank=rank, world_size=size)
    if how == "init":
        rankmesh.torch.init("dp=* tp=2", over=[("dp", "tp")], placed=placed or ())
    else:
        rankmesh.torch.install()
        places = torch.tensor(placed or range(size)).reshape(2, 2)
        dist.device_mesh.DeviceMesh("cpu", places, mesh_dim_names=("dp", "tp"))
        dist.device_mesh.init_device_mesh("cpu", (size,), mesh_dim_names=("later",))
    with contextlib.suppress(RuntimeError):
        dist.all_reduce(torch.ones(3 if rank == size - 1 else 4))


@pytest.mark.parametrize("how", ["init", "install"])
@pytest.mark.parametrize(("placed", "coordinate"), [(None, "dp=1 tp=1"), ([3, 1, 2, 0], "dp=0 tp=0")])
def test_records_of_torch_groups_have_the_declared_mesh(
    placed: list[int] | None, coordinate: str, how: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    records = tmp_path / "records"
    ranks(4, declares, tmp_path, str(tmp_path / "store"), str(records), placed, how, initialised=False)
    code, said = explain(records)
    first = said["findings"][0]
    assert code == 1
    assert (first["kind"], first["ranks"], first["coordinates"]) == ("calls_differ", [3], [coordinate]), said
    assert (first["axes"], first["group"]) == ("dp,tp", [0, 1, 2, 3]), said
    mesh = "dp=2 tp=2" + ("" if placed is None else " @[3,1,2,0]")
    assert first["communicator"] == f"'dp,tp' of mesh {mesh}", said
    assert "world=" not in first["text"], said


def test_in_python_the_answer_is_that_of_the_command(tmp_path: Path) -> None:
    made = job(1, "stop")
    write(made, tmp_path / "all")
    hosts = [tmp_path / "host0", tmp_path / "host1"]
    for folder in hosts:
        folder.mkdir()
    for number, file in enumerate(sorted((tmp_path / "all").iterdir())):
        (hosts[number % 2] / file.name).write_bytes(file.read_bytes())
    for records in (tmp_path / "all", str(tmp_path / "all"), hosts, sorted((tmp_path / "all").iterdir())):
        words = [str(each) for each in (records if isinstance(records, list) else [records])]
        run = subprocess.run([COMMAND, "explain", *words], capture_output=True, text=True, timeout=60, check=False)
        answer = rankmesh.explain(records)
        assert answer == explain(Path(words[0]), *words[1:])[1]
        assert str(answer).split() == run.stdout.split()
        assert answer["findings"][0]["ranks"] == [made.culprit]
    for mesh in (str(made.mesh), made.mesh, rankmesh.Placement(made.mesh, list(range(made.mesh.size))[::-1])):
        coordinate = rankmesh.explain(hosts, mesh=mesh)["findings"][0]["coordinates"]
        place = made.mesh.size - 1 - made.culprit if isinstance(mesh, rankmesh.Placement) else made.culprit
        assert coordinate == [str(made.mesh.coord(place))]
    assert pickle.loads(pickle.dumps(answer)) == answer
    assert str(pickle.loads(pickle.dumps(answer))) == str(answer)
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "none", []):
        with pytest.raises(rankmesh.UsageError):
            rankmesh.explain(wrong)
    with pytest.raises(rankmesh.UsageError, match="reaches rank"):
        rankmesh.explain(hosts, mesh=f"dp={2 * made.mesh.size}")


def torch_says(folder: Path) -> set[int]:
    """The ranks that PyTorch's analyser names at the first collective that does not match."""
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    from torch.distributed.flight_recorder.components.loader import read_dir

    args = JobConfig().parse_args([str(folder), "--allow-incomplete-ranks"])
    details, version = read_dir(args)
    for collective in build_db(details, args, version).collectives:
        named = set(collective.missing_ranks or ()) | set(collective.mismatch_collectives or {})
        if named:
            return named
    return set()


def test_pytorchs_analyser_names_no_culprit_that_we_do_not(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    counts = {"faults": 0, "ours names the culprit": 0, "alone": 0, "theirs names the culprit": 0, "theirs alone": 0}
    for fault in FAULTS[1:]:
        for seed in SEEDS:
            made = job(seed, fault)
            folder = tmp_path / f"{fault} {seed}"
            write(made, folder)
            ours = set(explain(folder)[1]["findings"][0]["ranks"])
            try:
                theirs = torch_says(folder)
            except Exception:
                theirs = set()
            counts["faults"] += 1
            counts["ours names the culprit"] += made.culprit in ours
            counts["alone"] += ours == {made.culprit}
            counts["theirs names the culprit"] += made.culprit in theirs
            counts["theirs alone"] += theirs == {made.culprit}
            if theirs == {made.culprit}:
                assert made.culprit in ours, f"{fault} {seed}: ours {ours}"
    print(counts)
    assert counts["faults"] >= 40
    assert counts["ours names the culprit"] == counts["faults"]
    assert counts["alone"] > counts["theirs alone"]


def test_json_and_pickles_of_every_protocol_say_the_same(tmp_path: Path) -> None:
    made = job(3, "operation")
    expected = None
    for protocol in (2, 3, 4, 5, None):
        folder = tmp_path / str(protocol)
        folder.mkdir()
        for rank in range(made.mesh.size):
            record = dump(made, rank)
            if protocol is None:
                (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(record))
            else:
                (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(record, protocol=protocol))
        said = explain(folder)
        expected = expected or said
        assert said == expected


class Runs:
    """What a pickle runs when Python reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_runs_code_is_refused_and_not_run(tmp_path: Path) -> None:
    made: Job = job(1, "none")
    folder = tmp_path / "records"
    write(made, folder)
    trap = tmp_path / "made by the pickle"
    for protocol in (2, 4):
        record = dump(made, 0) | {"extra": Runs(trap)}
        (folder / "nccl_trace_rank_0").write_bytes(pickle.dumps(record, protocol=protocol))
        code, said = explain(folder)
        assert code == 3
        assert not trap.exists()
        assert any("which names or runs code" in note and "nccl_trace_rank_0" in note for note in said["notes"]), said


def test_the_generator_makes_what_it_says() -> None:
    for fault in FAULTS:
        made = flight_records.job(0, fault)
        over = all(entry.state == "completed" for calls in made.enqueued for entry in calls)
        assert over == (fault == "none"), fault


@needs_numpy
def test_the_slow_rank_of_the_example_is_found(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples/python/slow_rank.py"
    subprocess.run([sys.executable, str(example)], cwd=tmp_path, check=True, timeout=300)
    run = subprocess.run(
        [COMMAND, "explain", "--slow", "records"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 1, run.stdout + run.stderr
    said = " ".join(run.stdout.split())
    assert said.startswith(
        "4 records of ranks {0..3}, of threads 1. rank 3 (dp=1 tp=1) computes longer between calls: "
    )
    page = (example.parents[2] / "docs/explain.md").read_text()
    for words in ("who comes last, in the groups that wait most:", "ms more than others in 19 of 39 calls", "it is on"):
        assert words in said
        assert words in page
