# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: DeepSpeed's tests fork their ranks from a server that imports DeepSpeed once for all of them."""

import multiprocessing
import sys

import torch.multiprocessing
import unit.common  # noqa: F401  # torch and deepspeed

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it is compiled; Gloo does its work as well


def _from_server(method=None):
    return multiprocessing.get_context("forkserver" if method == "spawn" else method)


def pytest_configure(config):
    multiprocessing.set_forkserver_preload([__name__])
    torch.multiprocessing.get_context = _from_server
