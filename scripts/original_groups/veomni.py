# SPDX-License-Identifier: Apache-2.0
"""VeOmni's veomni.distributed.parallel_state.

The settings are init_parallel_state's arguments. The kinds are the names of its device mesh, with those that it is
flattened into, and of its extra meshes: ep, ep_fsdp and ep_replicate, where ep is one of extra_parallel_names. The
accessors are ParallelState's properties, and a mesh is what meshes.described says of it.
"""

import functools
import importlib

from .answers import Answers, Raised, ask, refusal
from .draws import factors
from .meshes import along, described, fake_world, group_of, members, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "veomni"
RUNS = ("veomni.distributed.parallel_state",)

FLATTENED = ("dp", "dp_shard_sp", "dp_sp", "sp")
MESHES = ("dp_mesh", "dp_replicate_mesh", "dp_shard_mesh", "fsdp_mesh", "tp_mesh", "pp_mesh", "ep_mesh", "ep_fsdp_mesh")
GROUPS = (
    "dp_group", "dp_replicate_group", "dp_shard_group", "dp_shard_sp_group", "fsdp_group", "ep_group", "sp_group",
    "ulysses_group", "cp_group",
)  # fmt: skip
VALUES = (
    "global_rank", "world_size", "dp_rank", "dp_enabled", "dp_replicate_rank", "dp_replicate_enabled", "dp_shard_rank",
    "dp_shard_enabled", "fsdp_rank", "dp_shard_sp_enabled", "fsdp_enabled", "fsdp_size", "tp_rank", "tp_enabled",
    "pp_rank", "pp_enabled", "is_first_pp_stage", "is_last_pp_stage", "ep_enabled", "ep_size", "ep_rank",
    "ep_fsdp_size", "ep_gradient_divide_factor", "any_extra_parallel_enabled", "sp_rank", "sp_enabled", "sp_size",
    "ulysses_rank", "ulysses_enabled", "cp_rank", "cp_enabled", "dp_size", "dp_shard_size", "dp_replicate_size",
)  # fmt: skip
OF_EXTRA = {
    "rank": None,
    "enabled": None,
    "fsdp_size": None,
    "group": members,
    "mesh": described,
    "fsdp_mesh": described,
}

source = _module = None


def start(of):
    global source, _module
    source = of
    source.given = {"veomni.utils.device": {"get_device_type": lambda: "cpu"}}
    _module = source.load("veomni.distributed.parallel_state")


def _ask(call, form=None):
    found = ask(call)
    if isinstance(found, Raised):
        return Raised("")
    return found if form is None or found is None else form(found)


def _kinds(state):
    """The mesh and the axis of each kind."""
    kinds = {name: (mesh, 0) for name, mesh in along(state.device_mesh, FLATTENED).items()}
    for mesh in filter(None, state.extra_parallel_fsdp_device_mesh.values()):
        kinds |= {name: (mesh, axis) for axis, name in enumerate(mesh.mesh_dim_names)}
    return kinds


def original(settings, rank, world):
    """What VeOmni answers."""
    with fake_world(rank, world):
        try:
            _module.clear_parallel_state()
            state = _module.init_parallel_state(**settings)
        except Exception as error:
            return refusal(error)
        kinds = _kinds(state)
        partitions = {kind: partition_of(*place) for kind, place in kinds.items()}
        groups = {kind: group_of(*place) for kind, place in kinds.items()}
        answers = {name: _ask(functools.partial(getattr, state, name)) for name in VALUES}
        answers |= {name: _ask(functools.partial(getattr, state, name), members) for name in GROUPS}
        answers |= {name: _ask(functools.partial(getattr, state, name), described) for name in MESHES}
        for extra in state.extra_parallel_names:
            for of, form in OF_EXTRA.items():
                call = functools.partial(getattr(state, f"extra_parallel_{of}"), extra)
                answers[f"extra_parallel_{of}({extra})"] = _ask(call, form)
    return Answers(partitions=partitions, groups=groups, answers=answers)


_by_rows = by_rows("veomni")


def ours(settings, rank, world):
    """What rankmesh answers, the parts of each name as well."""
    found = _by_rows(settings, rank, world)
    if found.refused:
        return found
    state = importlib.import_module("rankmesh.veomni").ParallelState(**settings, rank=rank, world_size=world)
    for name in settings.get("extra_parallel_names", ("ep",)):
        for of, form in OF_EXTRA.items():
            if form is not described:
                group = _ask(functools.partial(getattr(state, f"extra_parallel_{of}"), name))
                found.answers[f"extra_parallel_{of}({name})"] = list(group) if of == "group" and group else group
    return found


def settings(random):
    """A world and settings for it."""
    replicas, shards, sequence, tp, pp = factors(random, 5)
    world = replicas * shards * sequence * tp * pp
    given = {"dp_size": replicas * shards, "tp_size": tp, "pp_size": pp}
    given[random.choice(("ulysses_size", "ulysses_size", "cp_size"))] = sequence
    if replicas > 1 or random.random() < 0.5:
        given |= {"dp_replicate_size": replicas, "dp_shard_size": shards}
    if random.random() < 0.5:
        count = random.choice((1, 1, 2))
        given["extra_parallel_names"] = ("ep", "emb")[:count]
        inner = shards * sequence
        legal = [size for size in range(1, inner + 1) if inner % size == 0]
        given["extra_parallel_sizes"] = tuple(random.choice([*legal, *legal, 3]) for _ in range(count))
        given["extra_parallel_placement_innermost"] = tuple(random.random() < 0.05 for _ in range(count))
    if random.random() < 0.1:
        given[random.choice(sorted(name for name in given if name.endswith("size")))] = random.choice((0, -1, 2, 3))
    if random.random() < 0.1:
        given |= {"cp_size": 2, "ulysses_size": 2}
    if random.random() < 0.1:
        world = random.randint(1, 64)
    return world, given
