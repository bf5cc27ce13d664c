"""A state dict over 4 processes from FSDP's shards to tensor parallelism: seconds and bytes beside torch's ways.

Also the plan of one rank for layouts of real models, beside Megatron-core's planner where its package is given.

PYTHONPATH=build/release/python:tests/python build/venv/bin/python bench/python/torch_reshard.py --megatron FOLDER
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import multiprocessing
import random
import shutil
import statistics
import sys
import tempfile
import time
import types
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from rankmesh import Mesh, Sharding
from rankmesh.torch import reshard, reshard_plan
from reshard_models import MODELS
from samples import rounds_of
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

SIZE = 4
MODELS_HERE = {"large tensors": (4, 1024), "small tensors": (50, 16)}  # layers, hidden
SHAPES = {"qkv": (3, 1), "o": (1, 1), "up": (4, 1), "down": (1, 4)}  # in units of the hidden size

State = dict[str, Any]


# --- moving


def states(layers: int, hidden: int) -> tuple[State, State]:
    """The state dict cut by FSDP, and one of zeros cut by tensor parallelism."""
    mesh = init_device_mesh("cpu", (SIZE,), mesh_dim_names=("r",))
    have: State = {}
    want: State = {}
    for layer in range(layers):
        for name, units in SHAPES.items():
            shape = tuple(hidden * unit for unit in units)
            whole = torch.randn(shape, generator=torch.Generator().manual_seed(layer)).bfloat16()
            have[f"{layer}.{name}"] = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
            cut = Shard(1) if name in ("o", "down") else Shard(0)
            want[f"{layer}.{name}"] = distribute_tensor(torch.zeros_like(whole), mesh, [cut], src_data_rank=None)
        for name in ("norm1", "norm2", "bias1", "bias2"):
            whole = torch.full((hidden,), layer + 0.5).bfloat16()
            have[f"{layer}.{name}"] = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
            want[f"{layer}.{name}"] = distribute_tensor(
                torch.zeros_like(whole), mesh, [Replicate()], src_data_rank=None
            )
    return have, want


class Bytes:
    """Counts what this rank sends with reshard, and what it reads and writes with DCP."""

    def __init__(self) -> None:
        self.count = 0
        exchange, view = dist.batch_isend_irecv, FileSystemReader._slice_file

        def counted(ops: list[Any]) -> Any:
            self.count += sum(each.tensor.nbytes for each in ops if each.op is dist.isend)
            return exchange(ops)

        def read(reader: Any, file: Any, info: Any) -> Any:
            self.count += info.length
            return view(reader, file, info)

        dist.batch_isend_irecv = counted
        FileSystemReader._slice_file = read  # type: ignore[method-assign]


def by_reshard(have: State, want: State, folder: Path) -> None:
    reshard(have, want, host=SIZE)


def by_checkpoint(have: State, want: State, folder: Path) -> None:
    dcp.save(have, checkpoint_id=folder)
    dcp.load(want, checkpoint_id=folder)


def by_full_tensors(have: State, want: State, folder: Path) -> None:
    for name, tensor in have.items():
        whole = tensor.full_tensor()
        target = want[name]
        target.to_local().copy_(
            distribute_tensor(whole, target.device_mesh, target.placements, src_data_rank=None).to_local()
        )


def by_redistribute(have: State, want: State, folder: Path) -> None:
    for name, tensor in have.items():
        want[name].to_local().copy_(tensor.redistribute(placements=want[name].placements).to_local())


WAYS: dict[str, Callable[[State, State, Path], None]] = {
    "rankmesh.torch.reshard": by_reshard,
    "reshard again": by_reshard,
    "DCP save and load": by_checkpoint,
    "full_tensor": by_full_tensors,
    "redistribute": by_redistribute,
}


def serve(rank: int, folder: Path, sizes: tuple[int, int], rounds: int, out: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", SIZE), rank=rank, world_size=SIZE)
    have, want = states(*sizes)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    moved: dict[str, int] = {}
    count = Bytes()
    for turn in range(rounds + 1):
        for name in random.Random(turn).sample([*WAYS], len(WAYS)):
            for each in want.values():
                each.to_local().zero_()
            count.count = 0
            there = folder / f"{turn}"
            dist.barrier()
            begin = time.perf_counter()
            WAYS[name](have, want, there)
            dist.barrier()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
            moved[name] = count.count
            check(have, want)
            if rank == 0 and there.exists():
                moved[name] += sum(each.stat().st_size for each in there.iterdir())
                shutil.rmtree(there)
    out.send((seconds, moved))


def check(have: State, want: State) -> None:
    first = next(iter(have))
    whole, part = have[first].full_tensor(), want[first]
    expected: DTensor = distribute_tensor(whole, part.device_mesh, part.placements, src_data_rank=None)
    assert torch.equal(part.to_local(), expected.to_local())


def moving(model: str, rounds: int, folder: str | None) -> None:
    layers, hidden = MODELS_HERE[model]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=folder) as there:
        running, pipes = [], []
        for rank in range(SIZE):
            here, end = context.Pipe()
            args = rank, Path(there), (layers, hidden), rounds, end
            running.append(context.Process(target=serve, args=args, daemon=True))
            running[-1].start()
            pipes.append(here)
        results = [pipe.recv() for pipe in pipes]
        for process in running:
            process.join()
    all_bytes = 2 * layers * hidden * (hidden * sum(a * b for a, b in SHAPES.values()) + 4)
    tensors = layers * (len(SHAPES) + 4)
    print(f"{model}: {SIZE} processes over Gloo, {all_bytes / 1e6:.3g} MB in {tensors} tensors; {rounds} rounds")
    ours = results[0][0]["rankmesh.torch.reshard"]
    for name in WAYS:
        seconds = results[0][0][name]
        ratio = statistics.median(each / other for each, other in zip(seconds, ours, strict=True))
        moved = sum(moved[name] for _, moved in results)
        text = f", {moved / all_bytes:.2f} of the state dict's bytes" if moved else ""
        print(f"  {name:24} {statistics.median(seconds):.3f} s, {ratio:.2f} of ours{text}")


# --- planning


def megatron(folder: str) -> tuple[Any, Any]:
    """Megatron-core's planner and its records, without the rest of the package."""
    for name in ("megatron", "megatron.core", "megatron.core.resharding"):
        module = types.ModuleType(name)
        module.__path__ = [str(Path(folder, *name.split(".")))]
        sys.modules[name] = module
    return tuple(importlib.import_module(f"megatron.core.resharding.{each}") for each in ("planner", "utils"))  # type: ignore[return-value]


def dense(world: int) -> tuple[dict[str, Sharding], dict[str, Sharding]]:
    """Llama 405B from tp=8 pp=8 to tp=8: Megatron's planner cuts keys and values no further, and fuses nothing."""
    layers, hidden, ffn, half = 126, 16384, 53248, world // 2
    stages = [Mesh("dp=* tp=8", half // 8).shifted(stage * (half // 8)) for stage in range(8)]
    rollout = Mesh("dp=* tp=8", half).shifted(half)
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        **{"q": ((hidden, hidden), "0=tp"), "k": ((1024, hidden), "0=tp"), "v": ((1024, hidden), "0=tp")},
        **{"gate": ((ffn, hidden), "0=tp"), "up": ((ffn, hidden), "0=tp"), "o": ((hidden, hidden), "1=tp")},
        **{"down": ((hidden, ffn), "1=tp"), "norm": ((hidden,), "replicated")},
    }
    names = {
        f"{layer}.{name}": (layer * 8 // layers, *stated) for layer in range(layers) for name, stated in shapes.items()
    }
    before = {name: Sharding(stages[stage], shape, split) for name, (stage, shape, split) in names.items()}
    return before, {name: Sharding(rollout, shape, split) for name, (_, shape, split) in names.items()}


def records(utils: Any, layouts: dict[str, Sharding], world: int) -> list[list[Any]]:
    """Returns what each rank tells Megatron's planner of its tensors."""
    out: list[list[Any]] = [[] for _ in range(world)]
    for name, sharding in layouts.items():
        mesh, cut = sharding.mesh, sharding.split != "replicated"
        for rank in mesh.ranks:
            shape = tuple(each.stop - each.start for each in sharding.slices(rank))
            meta = utils.ParameterMetadata(name, shape, torch.bfloat16, 2, cut, int(sharding.split[0]) if cut else 0)
            meta.owner_rank, meta.resolved_name = rank, name
            meta.tensor_parallel_group_ranks = list(mesh.group(rank, "tp"))
            meta.data_parallel_group_ranks = list(mesh.group(rank, "dp"))
            out[rank].append(meta)
    return out


def by_megatron(
    folder: str, before: dict[str, Sharding], after: dict[str, Sharding], world: int
) -> tuple[float, list[int]]:
    """Seconds until rank 0 has planned for all ranks, without the exchange, and the elements that each rank sends."""
    planner, utils = megatron(folder)
    told, plans = [records(utils, before, world), records(utils, after, world)], []

    def gather(out: list[Any], mine: Any) -> None:
        out[:] = told.pop(0)

    def broadcast(given: list[Any], **options: Any) -> None:
        plans.extend(given)

    module = torch.nn.Module()
    module.pg_collection = types.SimpleNamespace()
    fakes = {"get_rank": lambda: 0, "get_world_size": lambda: world}
    with contextlib.ExitStack() as stack:
        for name, fake in {**fakes, "all_gather_object": gather, "broadcast_object_list": broadcast}.items():
            stack.enter_context(unittest.mock.patch.object(dist, name, fake))
        begin = time.process_time()
        planner.build_centralized_reshard_plan(module, module)
        seconds = time.process_time() - begin
    sent = [0] * world
    for rank, plan in enumerate(plans):
        for op in plan.recv_ops:
            shape = after[op.param_name].slices(rank)
            sizes = zip(op.my_slice, (each.stop - each.start for each in shape), strict=True)
            cut = [size if part.stop is None else part.stop - part.start for part, size in sizes]
            sent[op.peer_rank] += math.prod(cut)
    return seconds, sent


def planned(before: dict[str, Any], after: dict[str, Any], rank: int) -> tuple[float, Any]:
    """The fewest seconds of the processor for the plan of one rank in three tries, and the plan."""
    tries = []
    for _ in range(3):
        begin = time.process_time()
        moves = reshard_plan(before, after, rank=rank, host=8)
        tries.append(time.process_time() - begin)
    return min(tries), moves


def beside_megatron(folder: str, worlds: list[int]) -> None:
    for world in worlds:
        before, after = dense(world)
        own, _ = planned(before, after, world - 1)
        theirs, sent = by_megatron(folder, before, after, world)
        plans = [reshard_plan(before, after, rank=rank, host=8) for rank in range(world // 2)]
        ours = [sum(math.prod(b - a for a, b in m.box) for m in plan.sends) for plan in plans]
        print(
            f"Llama 405B, {world} ranks: one rank {1e3 * own:.0f} ms, Megatron's rank 0 {1e3 * theirs:.0f} ms\n"
            f"  the most that a trainer sends, over the mean: {max(ours) / statistics.mean(ours):.2f}, Megatron "
            f"{max(sent) / statistics.mean(sent[: world // 2]):.2f}; all, over Megatron's: {sum(ours) / sum(sent):.2f}"
        )


def planning(worlds: list[int]) -> None:
    for model, make in MODELS.items():
        for world in worlds:
            before, after = make(world)
            for rank in (0, world - 1):
                seconds, moves = planned(before, after, rank)
                counts = f"{len(moves.sends)} sends, {len(moves.receives)} receives, {moves.looked_at} pieces looked at"
                print(f"{model}, {world} ranks, rank {rank}: {1e3 * seconds:.0f} ms, {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worlds", type=int, nargs="*", default=[128, 512, 2048])
    parser.add_argument("--folder", help="where DCP writes")
    parser.add_argument("--megatron", help="the unpacked package of Megatron-core")
    options = parser.parse_args()
    planning(options.worlds)
    if options.megatron:
        beside_megatron(options.megatron, options.worlds)
    for model in MODELS_HERE:
        moving(model, rounds_of(options.rounds), options.folder)


if __name__ == "__main__":
    main()
