# SPDX-License-Identifier: Apache-2.0
"""torchtitan's ParallelDims, torchtitan.distributed.parallel_dims.

The settings are ParallelDims' arguments but world_size. A group is a name that get_optional_mesh takes. There are no
partitions: the original makes some groups several times, and others for nobody.
"""

import itertools

from .answers import Answers, refusal
from .draws import factors
from .meshes import ask_mesh, described, fake_world, members

DISTRIBUTION = PACKAGE = "torchtitan"
RUNS = ("torchtitan.distributed.parallel_dims",)

NAMES = ("pp", "batch", "loss", "dp_replicate", "dp_shard", "dp", "fsdp", "cp", "tp", "ep", "efsdp")
PROPERTIES = (
    "dp_enabled", "dp_replicate_enabled", "dp_shard_enabled", "cp_enabled", "dp_cp_enabled", "fsdp_enabled",
    "tp_enabled", "pp_enabled", "ep_enabled", "non_data_parallel_size", "seq_len_divisor", "dp_shard",
)  # fmt: skip
SETS = [names for size in (1, 2, 3) for names in itertools.combinations(NAMES, size)]
AXES = ("dp", "cp", "tp", "ep", "pp", "dp_shard")

source = _module = None


def start(of):
    global source, _module
    source = of
    source.given = {"torchtitan.tools.utils": {"device_type": "cpu"}}
    _module = source.load("torchtitan.distributed.parallel_dims")


def _ask(dims):
    """What both answer, since they have the same functions."""

    answers = {name: getattr(dims, name) for name in PROPERTIES}
    for names in SETS:
        which = names[0] if len(names) == 1 else list(names)
        answers[f"get_optional_mesh({which})"] = ask_mesh(dims.get_optional_mesh, which)
        answers[f"get_activated_mesh({which})"] = ask_mesh(dims.get_activated_mesh, list(names))
    for name in NAMES:
        answers[f"get_optional_mesh({name}, include_singleton_axes)"] = ask_mesh(
            dims.get_optional_mesh, name, include_singleton_axes=True
        )
        answers[f"get_mesh({name})"] = ask_mesh(dims.get_mesh, name)
    for size in range(1, len(AXES) + 1):
        for axes in itertools.combinations(AXES, size):
            answers[f"resolve_mesh{axes}"] = ask_mesh(dims.resolve_mesh, axes)
    for name in ("spmd_dense_mesh", "spmd_sparse_mesh", "get_dense_tp_mesh"):
        answers[f"{name}()"] = ask_mesh(getattr(dims, name))
    answers["spmd_meshes()"] = [described(mesh) for mesh in dims.spmd_meshes()]
    for axes in (("ep", "efsdp"), ("tp", "cp"), ("dp_shard", "dp_replicate"), ("dp_shard", "cp", "ep")):
        answers[f"get_optional_mesh({axes})"] = ask_mesh(dims.get_optional_mesh, list(axes))
        answers[f"resolve_mesh{axes} in that order"] = ask_mesh(dims.resolve_mesh, axes)
    one = dims.get_all_one_dimensional_meshes()
    answers["get_all_one_dimensional_meshes()"] = {str(name): described(mesh) for name, mesh in one.items()}
    answers["world_mesh"] = described(dims.world_mesh)
    groups = {str(name): members(mesh.get_group()) for name, mesh in dims._single_axis_meshes.items()}
    return groups, answers


def original(settings, rank, world):
    """What torchtitan answers."""
    with fake_world(rank, world):
        try:
            dims = _module.ParallelDims(**settings, world_size=world)
            dims.build_mesh()
        except Exception as error:
            return refusal(error)
        groups, answers = _ask(dims)
    return Answers(groups=groups, answers=answers)


def ours(settings, rank, world):
    """What rankmesh.torchtitan answers."""
    from rankmesh.torchtitan import ParallelDims

    try:
        dims = ParallelDims(**settings, world_size=world)
        dims.build_mesh(rank=rank)
    except Exception as error:
        return refusal(error)
    groups, answers = _ask(dims)
    return Answers(groups=groups, answers=answers)


def settings(random):
    """A world and settings for it."""
    names = ("dp_replicate", "dp_shard", "cp", "tp", "pp")
    given = dict(zip(names, factors(random, 5), strict=True))
    world = 1
    for size in given.values():
        world *= size
    shared = given["dp_shard"] * given["cp"] * given["tp"]
    given["ep"] = random.choice([each for each in range(1, shared + 1) if shared % each == 0] + [1, 1, 2, 3])
    if random.random() < 0.8:
        given["spmd_backend"] = random.choice(("partial_dtensor", "spmd_types", "full_dtensor"))
    if random.random() < 0.3:
        given["dp_shard"] = -1
    if random.random() < 0.1:
        given[random.choice(names)] = random.choice((0, -1, 3, 7))
    if random.random() < 0.1:
        world = random.randint(1, 64)
    return world, given
