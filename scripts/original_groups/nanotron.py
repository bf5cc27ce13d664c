# SPDX-License-Identifier: Apache-2.0
"""nanotron's ParallelContext, nanotron.parallel.context.

The settings are ParallelContext's arguments but backend. The kinds are world tp dp pp expert mp, after its attributes
world_pg, tp_pg and so on. A group is made once: where two kinds have one group, the attributes are one process group.
"""

from unittest import mock

from .answers import Answers, ask, refusal
from .draws import factors
from .meshes import fake_world, members
from .ours import by_rows

DISTRIBUTION = PACKAGE = "nanotron"
RUNS = ("nanotron.distributed", "nanotron.parallel.context")

KINDS = ("tp", "dp", "pp", "expert", "mp")  # in the order of their making

source = _module = None


def start(of):
    global source, _module
    source = of
    _, _module = map(source.load, RUNS)


def original(settings, rank, world):
    """What nanotron answers."""
    context = object.__new__(_module.ParallelContext)
    asked = []
    create = _module.ParallelContext.create_new_group

    def record(self, groups):
        asked.append([[int(each) for each in ranks] for ranks in groups])
        return create(self, groups)

    replaced = {"create_new_group": record, "set_device": lambda self: None}
    with fake_world(rank, world), mock.patch.multiple(_module.ParallelContext, **replaced):
        try:
            context.__init__(**settings)
        except Exception as error:
            return refusal(error)
        groups = {kind: members(getattr(context, f"{kind}_pg")) for kind in ("world", *KINDS)}
        answers = {f"{kind}_pg": group for kind, group in groups.items()}
        answers |= {f"get_3d_ranks({each})": ask(lambda: list(context.get_3d_ranks(each))) for each in range(world)}  # noqa: B023
        answers["world_rank_matrix"] = context.world_rank_matrix.tolist()
        answers["world_ranks_to_pg"] = [[int(each) for each in ranks] for ranks in context.world_ranks_to_pg]
        answers |= {name: getattr(context, name) for name in sorted(settings)}
        same = [
            (a, b) for a in KINDS for b in KINDS if a < b and getattr(context, f"{a}_pg") is getattr(context, f"{b}_pg")
        ]
        answers["kinds that are one group"] = [list(pair) for pair in same]
    return Answers(
        partitions={"world": [list(range(world))]} | dict(zip(KINDS, asked, strict=True)),
        groups=groups,
        answers=answers,
    )


answers_of_rows = by_rows("nanotron")


def ours(settings, rank, world):
    """What rankmesh.nanotron answers."""
    from rankmesh.framework import state

    found = answers_of_rows(settings, rank, world)
    if not found.refused:
        asked = state("nanotron", rank=rank, world_size=world, **settings).ask
        found.answers |= {
            f"get_3d_ranks({each})": ask(asked, "get_3d_ranks", world_rank=each) for each in range(world)
        }
    return found


def settings(random):
    """A world and settings for it."""
    names = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "expert_parallel_size")
    given = dict(zip(names, factors(random, 4), strict=True))
    world = 1
    for size in given.values():
        world *= size
    if given["expert_parallel_size"] == 1 and random.random() < 0.5:
        del given["expert_parallel_size"]
    if random.random() < 0.1:
        world = random.randint(1, 64)
    if random.random() < 0.05:
        given[random.choice(names)] = random.choice((0, -1, 3))
    return world, given
