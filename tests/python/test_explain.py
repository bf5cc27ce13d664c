"""`rankmesh explain` on dumps of PyTorch's flight recorder, beside its own analyser, and on records of our programs."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import flight_records
import numpy as np
import pytest
import rankmesh
from flight_records import FAULTS, Job, dump, job, write

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
SEEDS = range(8)
TIE = "as many called the one as the other, so records do not tell which is right"

pytestmark = pytest.mark.skipif(not COMMAND, reason="there is no command: RANKMESH_COMMAND names it")


def explain(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    run = subprocess.run(
        [COMMAND, "explain", str(folder), "--json", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode in (0, 1), run.stderr
    return run.returncode, json.loads(run.stdout)


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
        assert code == 0
        assert not trap.exists()
        assert any("which names or runs code" in note and "nccl_trace_rank_0" in note for note in said["notes"]), said


def test_the_generator_makes_what_it_says() -> None:
    for fault in FAULTS:
        made = flight_records.job(0, fault)
        over = all(entry.state == "completed" for calls in made.enqueued for entry in calls)
        assert over == (fault == "none"), fault
