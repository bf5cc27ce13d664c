"""Ranks that torchrun starts find each other by its variables alone, and so do those that it restarts."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import rankmesh

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import _agree, _start  # noqa: E402
from rankmesh.torch.backend import Disagreement, Timeout  # noqa: E402
from torch_ranks import Counting, free_port  # noqa: E402

# --- torchrun itself

PROGRAM = """
    import os, sys, time
    from pathlib import Path
    import numpy as np
    import torch, torch.distributed as dist
    import rankmesh.torch
    from rankmesh import World

    folder, starts_torch = Path(sys.argv[1]), sys.argv[2]
    again = (folder / "died").exists()
    with World.from_environment(timeout=60) as world:
        ours = np.full(3, world.rank + 1.0)
        world.join("dp=*").on("dp").all_reduce(ours)
        if starts_torch == "rankmesh":
            rankmesh.torch.init("dp=*", backend="gloo", timeout=60)
        else:
            dist.init_process_group("gloo")
        theirs = torch.full((1,), world.rank + 1.0)
        dist.all_reduce(theirs)
        if not again and world.rank == 1:
            (folder / "died").touch()
            os._exit(1)
        while not again:
            time.sleep(1)  # until torchrun ends this rank
        restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
        (folder / os.environ["RANK"]).write_text(f"{restarts} {world.engine} {ours[0]} {theirs.item()}")
        dist.barrier()
        dist.destroy_process_group()
"""


def torchrun(folder: Path, agents: list[list[str]], starts_torch: str, **variables: str) -> list[list[str]]:
    """What each rank has written, where agents with these options restart the ranks once."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    others = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_", "TORCH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(others)} | variables
    command = [sys.executable, "-m", "torch.distributed.run", "--max-restarts", "1"]
    program_of = [str(program), str(folder), starts_torch]
    log = folder / "log"
    with log.open("w") as out, contextlib.ExitStack() as stack:
        running = [
            subprocess.Popen([*command, *options, *program_of], env=env, stdout=out, stderr=out) for options in agents
        ]
        for agent in running:
            stack.callback(agent.wait)
            stack.callback(agent.terminate)  # which ends its ranks
        with contextlib.suppress(subprocess.TimeoutExpired):
            for agent in running:
                agent.wait(200)
        assert [agent.poll() for agent in running] == [0] * len(agents), log.read_text()
    return [(folder / name).read_text().split() for name in ("0", "1")]


@pytest.mark.skipif("gloo" not in rankmesh.engines(), reason="this build has no Gloo")
def test_torchs_own_group_starts_beside_ours_where_each_start_has_a_store_of_its_own(tmp_path: Path) -> None:
    agent = ["--standalone", "--nproc-per-node", "2"]
    wrote = torchrun(tmp_path, [agent], "torch", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    assert wrote == [["1", "gloo", "3.0", "3.0"]] * 2


@pytest.mark.skipif("gloo" not in rankmesh.engines(), reason="this build has no Gloo")
def test_ranks_of_two_agents_restart_with_nothing_set_though_one_agent_alone_counts_it(tmp_path: Path) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    agent = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--local-addr", "127.0.0.1"]
    wrote = torchrun(tmp_path, [agent] * 2, "rankmesh")
    assert sorted(restarts for restarts, *_ in wrote) == ["0", "1"]
    assert [sums for _, *sums in wrote] == [["gloo", "3.0", "3.0"]] * 2


# --- a store that outlives its ranks

SIZE = 5
LAST = ("does not start", "asks for the start", "joins")  # what a rank of an earlier start does before it dies


def last_of(rank: int, last: str, store: Any, says: str, patience: float) -> list[list[str]] | None:
    """Starts a rank up to this point; the ranks that it then finds in our store and in that of torch."""
    start = _start.Start(rank, SIZE, dist.PrefixStore("plan", store), "")
    start.torch_store = store
    if last == "does not start":
        return None
    if last == "asks for the start":
        if rank == 0:
            _start.lead(start.store)
        else:
            _start.ask(start.store)
        return None
    timeout = datetime.timedelta(seconds=patience)
    start.part_from_earlier(timeout, lambda ranks: f"; {list(ranks)}")
    _agree.note(start.torch_store, "of torch", str(rank))
    start.agree(says, timeout, lambda ranks: "")
    lines = [start.store.get("arrived").decode(), start.torch_store.get("of torch").decode()]
    return [sorted(line.split()[0] for line in each.splitlines()) for each in lines]


def starts(store: Any, last: list[str], says: list[str], patience: float) -> list[Any]:
    """What each rank of one start returns or raises."""

    def run(rank: int) -> Any:
        try:
            return last_of(rank, last[rank], store.clone(), says[rank], patience)  # a connection of its own
        except (Disagreement, Timeout) as error:
            return error

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(run, range(SIZE)))


@pytest.mark.parametrize("seed", range(12))
def test_a_start_has_nothing_of_earlier_ones_however_these_ended(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    dice = random.Random(seed)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True) if seed % 2 else dist.HashStore()
    joins, same = [LAST[-1]] * SIZE, ["dp=*"] * SIZE
    monkeypatch.setattr(_start, "_began", time.time)  # each start is of new processes
    for _ in range(3):  # ends at once where all join, else at a timeout
        starts(store, dice.choice([joins, dice.choices(LAST, k=SIZE)]), same, 0.02)
    for _ in range(2):
        assert starts(store, joins, same, 60) == [[["0", "1", "2", "3", "4"]] * 2] * SIZE
        differ = starts(store, joins, ["dp=*"] * 4 + ["tp=*"], 60)
        assert [type(error) for error in differ] == [Disagreement] * SIZE, differ
        assert {tuple(error.ranks) for error in differ} == {(4,)}
    late = starts(store, [*joins[:3], LAST[0], joins[4]], same, 2)
    assert {(type(each), *each.missing) for each in late if each is not None} == {(Timeout, 3)}


def test_a_rank_that_comes_after_the_others_gave_up_is_told_that_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    joins, nobody = [LAST[-1]] * SIZE, [LAST[0]] * SIZE
    for late, others in (((3,), (0, 1, 2, 4)), ((1, 2), (0, 3, 4)), ((0,), (1, 2, 3, 4))):
        monkeypatch.setattr(_start, "_since", time.time())
        store = dist.HashStore()
        lasts = [LAST[0] if rank in late else LAST[-1] for rank in range(SIZE)]
        starts(store, lasts, ["dp=*"] * SIZE, 0.3)
        since = _start._since
        for rank in late:  # as processes that were there all the time
            monkeypatch.setattr(_start, "_since", since)
            began = time.monotonic()
            error = starts(store, [*nobody[:rank], LAST[-1], *nobody[rank + 1 :]], ["dp=*"] * SIZE, 20)[rank]
            assert (type(error), error.arrived, error.missing) == (Timeout, list(others), list(late))
            assert f"expired in init on rank {rank}: arrived {_agree.named(others)}, missing" in str(error)
            assert time.monotonic() - began < 10
        # Who has been told goes on with the others.
        assert starts(store, joins, ["dp=*"] * SIZE, 60) == [[["0", "1", "2", "3", "4"]] * 2] * SIZE


def test_ranks_that_rank_zero_does_not_answer_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    store = dist.HashStore()
    joins, same = [LAST[-1]] * SIZE, ["dp=*"] * SIZE
    starts(store, joins, same, 60)
    found = starts(store, [LAST[0], *joins[1:]], same, 0.05)
    assert [str(error) for error in found[1:]] == [
        f"the timeout of 50 ms expired in init on rank {rank}: rank 0, which tells the others the id of this "
        f"start, has not answered; arrived rank {rank}, missing rank 0; [0]"
        for rank in range(1, SIZE)
    ]


@pytest.mark.parametrize("size", [2, 64, 2048])
def test_rank_zero_answers_at_once_all_that_asked(size: int) -> None:
    store = dist.HashStore()
    others = [Counting(store) for _ in range(1, size)]
    first = Counting(store)
    start, answer = _start.lead(first)  # type: ignore[arg-type]
    texts = [_start.ask(other) for other in others]  # type: ignore[arg-type]
    answer(60)
    answer(0.001)  # nobody rings
    assert first.requests == 1 + 5 + 1
    for other, text in zip(others, texts, strict=True):
        assert _start.hear(other, text, datetime.timedelta(seconds=1)) == start  # type: ignore[arg-type]
        assert other.requests == 4


# --- the end of a process

ENDS = {
    "init": """
me = rankmesh.torch.init("dp=* tp=2")
group = me.group("tp")
dist.all_reduce(torch.ones(1), group=group)
me.destroy()
""",
    "a framework's module": """
dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(2, 1, context_parallel_size=2)
dist.all_reduce(torch.ones(1), group=parallel_state.get_context_parallel_group())
dist.destroy_process_group()
""",
}


@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS)
def test_a_process_that_ends_right_after_a_call_ends_well(program: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    imports = "import rankmesh.torch, torch, torch.distributed as dist\nfrom rankmesh.megatron import parallel_state\n"
    file.write_text(imports + program, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", str(file)]
    for _ in range(2):  # without the wait at the end, most runs fail
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
