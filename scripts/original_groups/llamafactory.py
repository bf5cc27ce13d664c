# SPDX-License-Identifier: Apache-2.0
"""LlamaFactory's DistributedInterface, v1/accelerator/interface.py.

The settings are those of its configuration. The kinds are the dimensions of both meshes.
"""

from unittest import mock

import torch

from .answers import Answers, ask, refusal
from .draws import divisors, factors
from .meshes import fake_world, group_of, members, partition_of

DISTRIBUTION = PACKAGE = "llamafactory"
RUNS = ("llamafactory.v1.accelerator.helper", "llamafactory.v1.accelerator.interface")

MESHES = {"model": ("mp_replicate", "mp_shard"), "data": ("dp", "cp")}

source = _helper = _module = None


def start(of):
    global source, _helper, _module
    source = of
    _helper, _module = map(source.load, RUNS)


def _answers(interface, dims):
    """What the interface says of itself."""
    answers = {}
    for dim in (None, *dims):
        answers |= {f"{name}({dim})": ask(getattr(interface, name), dim) for name in ("get_rank", "get_world_size")}
        group = ask(interface.get_group, dim)
        answers[f"get_group({dim})"] = group if group is None else members(group)
    sizes = {name: getattr(interface.strategy, f"{name}_size") for kind in MESHES.values() for name in kind}
    shapes = {name: getattr(interface.strategy, f"{name}_mesh_shape") for name in MESHES}
    return answers | sizes | shapes


def original(settings, rank, world):
    """What LlamaFactory answers."""
    replaced = {
        "set_device_index": lambda: None,
        "get_current_device": lambda: torch.device("cpu"),
        "get_device_count": lambda: 1,
        "get_process_group_backend": lambda: "fake",
    }
    interface = object.__new__(_module.DistributedInterface)
    with (
        fake_world(rank, world),
        mock.patch.multiple(_helper, **replaced),
        mock.patch.object(_module, "init_process_group", lambda **options: None),
    ):
        try:
            interface.__init__(settings)
        except Exception as error:
            return refusal(error)
        meshes = {"model": interface.model_device_mesh, "data": interface.data_device_mesh}
        places = {name: (meshes[kind], axis) for kind, names in MESHES.items() for axis, name in enumerate(names)}
        return Answers(
            partitions={kind: partition_of(*place) for kind, place in places.items()},
            groups={kind: group_of(*place) for kind, place in places.items()},
            answers=_answers(interface, _module.Dim),
        )


def ours(settings, rank, world):
    """What rankmesh answers."""
    from rankmesh import Error
    from rankmesh.framework import state
    from rankmesh.llamafactory import Dim, DistributedInterface

    try:
        interface = DistributedInterface(settings, rank=rank, world_size=world)
        made = state("llamafactory", rank=rank, world_size=world, **settings)
    except Error as error:
        return refusal(error)
    return Answers(
        partitions={kind: made.partition(kind) for kind in made.groups},
        groups=made.groups,
        answers=_answers(interface, Dim),
    )


def settings(random):
    """A world and settings for it."""
    dp, cp = factors(random, 2)
    world, given = dp * cp, {"cp_size": cp}
    replicas = random.choice(divisors(world))
    if random.random() < 0.5:
        given["dp_size"] = dp
    if random.random() < 0.6:
        given["mp_replicate_size"] = replicas
    if "mp_replicate_size" in given and random.random() < 0.5:
        given["mp_shard_size"] = world // replicas
    if random.random() < 0.1:
        world = random.randint(1, 64)
    elif random.random() < 0.1:
        given[random.choice([*given])] = random.choice([0, -1, 3, 5])
    return world, given
