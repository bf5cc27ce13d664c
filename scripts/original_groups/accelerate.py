# SPDX-License-Identifier: Apache-2.0
"""accelerate's ParallelismConfig, accelerate.parallelism_config.

The settings are the sizes of ParallelismConfig, in a job whose number of processes is the world's. The kinds are the
names of its device mesh, flattened ones with them; where DeepSpeed makes the groups there is no mesh.
"""

from types import SimpleNamespace

from .answers import Answers, ask, refusal
from .draws import factors
from .meshes import along, fake_world, members, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "accelerate"
RUNS = ("accelerate.parallelism_config",)

AXES = ("dp_replicate", "dp_shard", "cp", "sp", "tp")
FLATTENED = ("dp", "dp_shard_cp", "dp_cp")
PROPERTIES = (
    *("total_size", "non_data_parallel_size", "data_parallel_size"),
    *(f"{axis}_size" for axis in AXES),
    *(f"{axis}_enabled" for axis in AXES),
    *("dp_dim_names", "non_dp_dim_names", "dp_shard_cp_dim_names", "dp_cp_dim_names"),
    *("fsdp_dim_names", "active_mesh_dims"),
)

source = _module = None


def start(of):
    global source, _module
    source = of
    source.given = {"accelerate.utils.versions": {"is_torch_version": lambda *version: True}}
    _module = source.load("accelerate.parallelism_config")


def original(settings, rank, world):
    """What accelerate answers."""
    job = SimpleNamespace(
        multi_device=world > 1, num_processes=world, is_fsdp2=False, is_main_process=False, distributed_type=None
    )
    with fake_world(rank, world):
        try:
            config = _module.ParallelismConfig(**settings)
            config._validate_accelerator(job)
            meshes = along(config.build_device_mesh("cpu"), FLATTENED)
        except Exception as error:
            return refusal(error)
        return Answers(
            partitions={name: partition_of(mesh) for name, mesh in meshes.items()},
            groups={name: members(mesh.get_group()) for name, mesh in meshes.items()},
            answers={name: ask(getattr, config, name) for name in PROPERTIES},
        )


ours = by_rows("accelerate")


def settings(random):
    """A world and settings for it."""
    replicate, shard, other, tp = factors(random, 4)
    given = {"dp_replicate_size": replicate, "dp_shard_size": shard, "tp_size": tp}
    given["cp_size" if random.random() < 0.7 else "sp_size"] = other
    world = replicate * shard * other * tp
    if random.random() < 0.05:
        given |= {"cp_size": 2, "sp_size": 2}
    if random.random() < 0.1:
        world = random.randint(1, 64)
    elif random.random() < 0.08:
        given[random.choice(list(given))] = random.choice([0, -1, 3])
    return world, given
