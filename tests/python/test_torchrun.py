"""Ranks that torchrun starts find each other by its variables alone, and torch's own group finds its port as before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import rankmesh

pytest.importorskip("torch", reason="PyTorch is not installed")
if "gloo" not in rankmesh.engines():
    pytest.skip("this build has no Gloo", allow_module_level=True)

PROGRAM = """
    import os, sys
    from pathlib import Path
    import numpy as np
    import torch, torch.distributed as dist
    from rankmesh import World

    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    with World.from_environment(timeout=60) as world:
        ours = np.full(3, world.rank + 1.0)
        world.join("dp=2 tp=2", over=[("dp", "tp")]).on("dp", "tp").all_reduce(ours)
        dist.init_process_group("gloo")
        theirs = torch.full((1,), world.rank + 1.0)
        dist.all_reduce(theirs)
        if attempt == "0" and world.rank == 1:
            os._exit(1)
        Path(sys.argv[1], os.environ["RANK"]).write_text(f"{attempt} {world.engine} {ours[0]} {theirs.item()}")
        dist.destroy_process_group()
"""


def test_nothing_of_ours_has_to_be_set_for_a_start_and_a_restart(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    ours = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # torchrun's agent keeps its store over a restart unless told not to, and torch's own ranks then read the addresses of the dead.
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    command += ["--max-restarts", "1", str(program), str(tmp_path)]
    ended = subprocess.run(command, env=env, text=True, capture_output=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    for rank in range(4):
        assert (tmp_path / str(rank)).read_text() == "1 gloo 10.0 10.0"
