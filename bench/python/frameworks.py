"""What one rank of 65,536 works out at start-up: rankmesh beside the framework's own Python.

No group is made: what torch.distributed makes groups with returns at once, for both alike nothing is communicated.

build/venv/bin/python bench/python/frameworks.py --ours build/release/bin/bench_framework_start_up --peers CHECKOUTS
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samples import keep_samples, rounds_of

WORLD, TP, CP, PP, DP = 65_536, 8, 8, 16, 64
RANK = 5


class Group:
    """A group that is not made."""

    def size(self) -> int:
        return 1

    def rank(self) -> int:
        return 0


def package(name: str, folder: Path | None = None, **names: Any) -> None:
    """A package without its own __init__, which would import what a bookkeeping does not need."""
    made = types.ModuleType(name)
    made.__path__ = [str(folder)] if folder else []
    vars(made).update(names)
    sys.modules[name] = made


def megatron(checkout: Path) -> Callable[[], Any]:
    for name in ("megatron", "megatron.core", "megatron.core.inference"):
        package(name, checkout.joinpath(*name.split(".")))
    state = importlib.import_module("megatron.core.parallel_state")

    def ask() -> None:  # ours has two optimizer instances, for which this would need einops
        state.initialize_model_parallel(
            tensor_model_parallel_size=TP,
            pipeline_model_parallel_size=PP,
            context_parallel_size=CP,
            expert_model_parallel_size=CP,
        )
        state.destroy_model_parallel()

    return ask


def deepspeed(checkout: Path) -> Callable[[], Any]:
    package("deepspeed", comm=None)
    topologies = importlib.util.spec_from_file_location(
        "deepspeed_topology", checkout / "deepspeed" / "runtime" / "pipe" / "topology.py"
    )
    assert topologies is not None
    assert topologies.loader is not None
    module = importlib.util.module_from_spec(topologies)
    topologies.loader.exec_module(module)

    def ask() -> None:  # its grid asks for more, in a time that grows with the square of the world
        topology = module.PipeModelDataParallelTopology(num_pp=PP, num_mp=TP, num_dp=DP * CP)
        topology.get_coord(RANK)
        for axis in topology.get_axis_names():
            topology.get_axis_comm_lists(axis)

    return ask


def picotron(checkout: Path) -> Callable[[], Any]:
    package("picotron", checkout / "picotron")
    manager = importlib.import_module("picotron.process_group_manager")
    return lambda: manager.ProcessGroupManager(TP, CP, PP, DP)


FRAMEWORKS: dict[str, tuple[str, Callable[[Path], Callable[[], Any]]]] = {
    "megatron": ("Megatron-LM", megatron),
    "deepspeed": ("DeepSpeed", deepspeed),
    "picotron": ("picotron", picotron),
}


def without_groups() -> None:
    """torch.distributed as rank 5 of the world, whose groups are not made."""
    import torch.distributed as dist

    names: dict[str, Any] = {
        "get_rank": lambda group=None: RANK if group is None else 0,
        "get_world_size": lambda group=None: WORLD if group is None else 1,
        "is_initialized": lambda: True,
        "new_group": lambda *args, **options: Group(),
        "new_subgroups_by_enumeration": lambda lists, *args, **options: (Group(), [Group() for _ in lists]),
        "barrier": lambda *args, **options: None,
        "get_backend": lambda *args: "gloo",
        "get_process_group_ranks": lambda group: [RANK],
    }
    for name, value in names.items():
        setattr(dist, name, value)
    dist.distributed_c10d._world.default_pg = Group()  # type: ignore[assignment]


def seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="bench_framework_start_up")
    parser.add_argument("--peers", type=Path, required=True, help="a folder with Megatron-LM, DeepSpeed and picotron")
    given = parser.parse_args()
    without_groups()
    for name, (folder, prepare) in FRAMEWORKS.items():
        if not (given.peers / folder).is_dir():
            print(f"{folder} is absent from {given.peers}")
            continue
        theirs = prepare(given.peers / folder)

        def ours(name: str = name) -> float:
            return float(subprocess.run([given.ours, name], capture_output=True, check=True).stdout)

        rounds = [(ours(), 1e9 * seconds(theirs), 1e9 * seconds(theirs)) for _ in range(rounds_of(5))]
        mine, other, again = ([*each] for each in zip(*rounds, strict=True))
        keep_samples(f"start-up beside a framework's Python/{name}", mine, other, again)
        times = f"{statistics.median(mine):.0f} ns beside {statistics.median(other) / 1e6:.1f} ms"
        print(f"{folder}: {times}, {statistics.median(other) / statistics.median(mine):,.0f} times faster", flush=True)


if __name__ == "__main__":
    main()
