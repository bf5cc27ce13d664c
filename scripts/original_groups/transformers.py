# SPDX-License-Identifier: Apache-2.0
"""transformers' DistributedConfig and its device meshes, transformers.distributed.

The settings are the sizes of DistributedConfig, with tp_plan ("auto": tp_size is what is left of the world) and
enable_expert_parallel. The kinds are the names of its meshes of dense and of expert layers.
"""

from .answers import Answers, ask, refusal
from .draws import divisors, factors
from .meshes import along, fake_world, members, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "transformers"
RUNS = ("transformers.distributed.configuration_utils", "transformers.distributed.utils")

SIZES = ("tp_size", "fsdp_size", "dp_replicate_size", "pp_size", "ep_size", "efsdp_size", "dp_size")

source = _config = _utils = None


def start(of):
    global source, _config, _utils
    source = of
    yes = lambda *version: True  # noqa: E731
    names = ("is_torch_available", "is_torch_distributed_available", "is_torch_greater_or_equal")
    source.given = {"transformers.utils": dict.fromkeys(names, yes)}
    _config = source.load("transformers.distributed.configuration_utils")
    _utils = source.load("transformers.distributed.utils")


def original(settings, rank, world):
    """What transformers answers."""
    with fake_world(rank, world):
        try:
            config = _config.DistributedConfig(**settings)
            _, meshes = _utils.initialize_distributed_mesh(config)
        except Exception as error:
            return refusal(error)
        both = {} if meshes is None else along(meshes._dense_mesh) | along(meshes._expert_mesh)
        return Answers(
            partitions={name: partition_of(mesh) for name, mesh in both.items()},
            groups={name: members(mesh.get_group()) for name, mesh in both.items()},
            answers={name: ask(getattr, config, name) for name in SIZES},
        )


ours = by_rows("transformers")


def settings(random):
    """A world and settings for it."""
    pp, replicate, fsdp, tp = factors(random, 4)
    if pp > 1 and random.random() < 0.8:
        replicate = fsdp = 1
    given = {"tp_size": tp, "fsdp_size": fsdp, "dp_replicate_size": replicate, "pp_size": pp}
    world = pp * replicate * fsdp * tp
    given = {name: size for name, size in given.items() if size > 1 or random.random() < 0.5}
    if random.random() < 0.5:
        given["ep_size"] = tp * random.choice(divisors(fsdp)) if random.random() < 0.9 else random.choice([2, 3, 5])
    if random.random() < 0.1:
        given["enable_expert_parallel"] = True
    if random.random() < 0.2:
        given["tp_plan"] = "auto"
        if random.random() < 0.5:
            given.pop("tp_size", None)
    if random.random() < 0.05:
        world = random.randint(1, 64)
    elif random.random() < 0.08:
        given[random.choice(["tp_size", "fsdp_size", "pp_size", "ep_size"])] = random.choice([0, -1, 3])
    return world, given
