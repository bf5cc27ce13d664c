"""A training step on rankmesh's groups beside the same step on torch's own over Gloo, in turn in the same processes.

PYTHONPATH=build/release/python build/venv/bin/python bench/python/training_step.py --processes 2 4
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import rankmesh.torch
import torch
import torch.distributed as dist
from collectives import in_turn
from samples import keep_samples, rounds_of
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_bring_up import processes

WIDTH, LAYERS, SAMPLES = 512, 4, 128  # 1 million parameters
CHECKED = {"RANKMESH_CHECK": "1"}

Step = Callable[[], Any]


def step_of(wrap: Callable[[nn.Module], nn.Module]) -> Step:
    """Returns a step of a model, forward to optimizer."""
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    model = wrap(nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters())
    samples = torch.randn(SAMPLES, WIDTH)

    def step() -> None:
        model(samples).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ddp(mesh: DeviceMesh) -> Step:
    return step_of(lambda model: DistributedDataParallel(model, process_group=mesh.get_group()))


def fsdp(mesh: DeviceMesh) -> Step:
    return step_of(lambda model: fully_shard(model, mesh=mesh))


def by_backend(backend: str, variables: dict[str, str]) -> DeviceMesh:
    """Returns a mesh of all ranks on a group of this backend, made with these variables of the environment."""
    os.environ.update(variables)
    group = dist.new_group(backend=backend)
    for name in variables:
        del os.environ[name]
    assert isinstance(group, dist.ProcessGroup)
    return DeviceMesh.from_group(group, "cpu", mesh_dim_names=("dp",))


def by_install(size: int) -> DeviceMesh:
    rankmesh.torch.install()
    return init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))


def rank_program(rank: int, size: int, store: dist.Store, make: Callable[[DeviceMesh], Step], records: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    own = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    recorded = {"RANKMESH_RECORD": records, "RANKMESH_RECORD_EVERY": "1s"}
    meshes = {
        "training step: {} on {}/install()": by_install(size),
        "training step: {} on {}/init": rankmesh.torch.init("dp=*").device_mesh()["dp"],
        "training step: {} on {}/rankmesh": by_backend("rankmesh", {}),
        "training step: {} on {}/rankmesh+gloo": by_backend("rankmesh+gloo", {}),
        "training step, recorded each second: {} on {}/rankmesh": by_backend("rankmesh", recorded),
        "training step, checked: {} on {}/rankmesh": by_backend("rankmesh", CHECKED),
        "training step, checked: {} on {}/rankmesh+gloo": by_backend("rankmesh+gloo", CHECKED),
    }
    theirs = make(own)
    for name, mesh in meshes.items():
        found = in_turn(dist.barrier, rounds_of(31), 2, make(mesh), theirs)
        if rank == 0:
            full = name.format(make.__name__.upper(), size)
            keep_samples(full, *found)
            mine, other, again = map(statistics.median, found)
            own_again = f"torch's own beside itself {again / other:.3f}"
            print(f"{full:55} {mine / 1e6:7.2f} ms, ratio {mine / other:.3f} ({own_again})", flush=True)
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    given = parser.parse_args()
    for name in [each for each in os.environ if each.startswith("RANKMESH_") and each[9:] not in ("SAMPLES", "ROUNDS")]:
        del os.environ[name]
    for size in given.processes:
        for make in (ddp, fsdp):
            with tempfile.TemporaryDirectory() as records:
                processes(size, rank_program, make, records)


if __name__ == "__main__":
    main()
