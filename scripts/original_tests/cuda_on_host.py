# SPDX-License-Identifier: Apache-2.0
"""Has what is written for CUDA and NCCL run on the host and Gloo."""

import collections
import functools
import os

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.overrides import TorchFunctionMode


def _on_host(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value


class _Host(TorchFunctionMode):
    """Tensors that are asked for on cuda, made or moved, are on the host."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cuda:
            return args[0]
        kwargs = {key: _on_host(value) for key, value in (kwargs or {}).items()}
        if isinstance(kwargs.get("device"), int):  # the number of a GPU
            kwargs["device"] = "cpu"
        return func(*map(_on_host, args), **kwargs)


def _gloo_for_nccl(backend):
    return "gloo" if isinstance(backend, str) and "nccl" in backend else backend


def _initialise(call):
    @functools.wraps(call)
    def init_process_group(backend=None, *args, **options):
        options.pop("device_id", None)
        return call(_gloo_for_nccl(backend), *args, **options)

    return init_process_group


_made = collections.Counter()


def _make(call):
    """NCCL connects a group when it is used first, so that ranks may make different ones in one call; Gloo connects at once.

    What is asked of NCCL is therefore made by its members only, under a name of their own.
    """

    @functools.wraps(call)
    def new_group(ranks=None, timeout=None, backend=None, *args, **options):
        if ranks is None or _gloo_for_nccl(backend) == backend:
            return call(ranks, timeout, _gloo_for_nccl(backend), *args, **options)
        names, key = c10d._process_group_name, tuple(sorted(ranks))
        _made[key] += 1
        c10d._process_group_name = lambda *args, **options: f"{key} {_made[key]}"
        try:
            group = call(ranks, timeout, "gloo", *args, **options | {"use_local_synchronization": True})
        finally:
            c10d._process_group_name = names
        if group is None:  # this rank is not in it, and is told as by a call of all ranks
            group = dist.GroupMember.NON_GROUP_MEMBER
            c10d._world.pg_group_ranks[group] = {rank: place for place, rank in enumerate(ranks)}
        else:  # no rank ends it while others still connect
            group._get_backend(torch.device("cpu")).barrier().wait()
        return group

    return new_group


def _replace_random_numbers():
    """The generator of each device is the host's, so that it is seeded, saved and set like a device's."""
    generator = torch.default_generator
    torch.cuda.default_generators = (generator,) * torch.cuda.device_count()
    torch.cuda._lazy_call = lambda call, **options: call()  # else it waits until CUDA is initialised
    for module in (torch.cuda, torch.cuda.random):
        module.manual_seed = lambda seed: generator.manual_seed(seed)
        module.get_rng_state = lambda device="cuda": generator.get_state()
        module.set_rng_state = lambda state, device="cuda": generator.set_state(state)


def replace_devices():
    """From now on, in this process: as many GPUs as the launcher has started ranks here, all of them the host."""
    _Host().__enter__()
    cuda = torch.cuda
    cuda.device_count = lambda: int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    cuda.current_device = lambda: int(os.environ.get("LOCAL_RANK", 0))
    cuda.current_stream = lambda device=None: torch.cpu.current_stream()
    for module, name in ((cuda, "set_device"), (cuda, "synchronize"), (cuda, "empty_cache"), (cuda.memory, "empty_cache")):
        setattr(module, name, lambda *device: None)  # one each: torch.compile lists torch's functions, each once
    _replace_random_numbers()
    dist.init_process_group = c10d.init_process_group = _initialise(c10d.init_process_group)
    dist.new_group = c10d.new_group = _make(c10d.new_group)
