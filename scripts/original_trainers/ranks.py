# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a trainer: forks of one process, which imports for all of them what they use."""

import importlib
import os
import signal
import socket
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from .rank import main as train


def start(count, trainer, *arguments):
    """The exit status of the first rank that failed, else 0; the others are ended then."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "LOCAL_SIZE": str(count)}
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    served = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}  # rank 0 starts no store
    os.environ.update(sizes | store | served)
    framework = importlib.import_module(trainer).FRAMEWORK
    for name in (framework.package, *framework.imports, "rankmesh.torch"):  # the last is imported by the first call of ours
        importlib.import_module(name)
    ranks = {}
    for rank in range(count):
        process = os.fork()
        if not process:
            _be(rank, trainer, *arguments)
        ranks[process] = rank
    kept = dist.TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),
        timeout=timedelta(minutes=5),
    )
    signal.signal(signal.SIGTERM, lambda *_: _end(ranks))
    first = 0
    while ranks:
        process, status = os.wait()
        del ranks[process]
        if status and not first:
            first = os.waitstatus_to_exitcode(status)
            _end(ranks)
    del kept
    return first


def _end(ranks):
    for process in ranks:
        os.kill(process, signal.SIGKILL)


def _be(rank, *arguments):
    """Is this rank, until its end."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
    folder = Path("printed") / str(rank)
    folder.mkdir(parents=True)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout.reconfigure(line_buffering=True)
    status = 1
    try:
        train(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # past what the process before has to end


if __name__ == "__main__":
    sys.exit(start(int(sys.argv[1]), *sys.argv[2:]))
