# SPDX-License-Identifier: Apache-2.0
"""AReaL's ArchonParallelDims, the mesh of its engine Archon.

The settings are its arguments. The kinds are the names of its meshes of one axis, with those that it flattens.
"""

import functools

from .answers import Answers, Raised, ask, refusal
from .draws import factors
from .meshes import fake_world, group_of, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "areal"
RUNS = ("areal.experimental.models.archon.parallel_dims",)

NAMES = ("pp", "dp_shard", "dp_shard_mod_ep", "dp_shard_in_ep", "cp", "tp", "dp", "dp_shard_cp", "dp_cp", "pp_cp_tp",
         "ep")  # fmt: skip
ANSWERS = (
    "dp_replicate", "dp_shard", "cp", "tp", "pp", "ep", "etp", "world_size", "dp_replicate_enabled",
    "dp_shard_enabled", "dp_enabled", "dp_cp_enabled", "fsdp_enabled", "cp_enabled", "tp_enabled", "pp_enabled",
    "ep_enabled", "etp_enabled", "fsdp_gradient_divide_factor", "seq_len_divisor", "context_and_model_parallel_size",
)  # fmt: skip

source = _dims = None


def start(of):
    global source, _dims
    source = of
    _dims = source.load(RUNS[0])


def original(settings, rank, world):
    """What AReaL answers."""
    with fake_world(rank, world):
        try:
            dims = _dims.ArchonParallelDims(**settings, world_size=world, device_type="cpu")
            meshes = {name: dims.get_mesh(name) for name in NAMES}
        except Exception as error:
            return refusal(error)
        meshes = {name: each for name, each in meshes.items() if each is not None}
        answers = {name: ask(functools.partial(getattr, dims, name)) for name in ANSWERS}
        return Answers(
            partitions={name: partition_of(each) for name, each in meshes.items()},
            groups={name: group_of(each) for name, each in meshes.items()},
            answers={name: each for name, each in answers.items() if not isinstance(each, Raised)},
        )


_by_rows = by_rows("archon")


def ours(settings, rank, world):
    """What rankmesh answers; get_group needs a name, and the groups by name are compared."""
    found = _by_rows(settings, rank, world)
    if not found.refused:
        found.answers.pop("get_group")
    return found


def settings(random):
    """A world and settings for it."""
    pp, dp, cp, tp = factors(random, 4)
    world = pp * dp * cp * tp
    given = {"pp": pp, "cp": cp, "tp": tp}
    if random.random() < 0.7:
        given["dp_shard"] = dp
    if random.random() < 0.6:
        given["ep"] = random.choice((1, 2, 3, cp, cp * tp, dp * cp, dp * cp * tp))
        given["etp"] = random.choice((1, 1, tp, tp, 2))
    if random.random() < 0.1:
        world = random.randint(1, 64)
    return world, given
