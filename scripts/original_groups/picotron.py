# SPDX-License-Identifier: Apache-2.0
"""picotron's ProcessGroupManager, which PyPI does not have: `--from` names a checkout of picotron.

The settings are its arguments.
"""

from .answers import Answers, refusal
from .draws import factors
from .ours import by_rows

DISTRIBUTION = PACKAGE = "picotron"
RUNS = ("picotron.process_group_manager",)

KINDS = ("tp_group", "cp_group", "pp_group", "dp_group", "cp_dp_group", "pp_dp_group")

source = _module = None


def start(of):
    global source, _module
    source = of
    _module = source.load(RUNS[0])


def original(settings, rank, world):
    """What picotron answers."""
    with source.on(rank, world) as recorder:
        try:
            manager = _module.ProcessGroupManager(**settings)
        except Exception as error:
            return refusal(error)
        answers = {name: getattr(value, "ranks", value) for name, value in vars(manager).items()}
    answers |= {"world_group": list(range(world)), "__str__": str(manager)}
    del answers["grid"]  # ours is a mesh
    made, partitions = [group.asked for group in recorder.made], {}
    for kind in KINDS:
        count = world // len(answers[kind])
        partitions[kind], made = made[:count], made[count:]
    return Answers(partitions=partitions, groups={kind: answers[kind] for kind in KINDS}, answers=answers)


ours = by_rows("picotron")


def settings(random):
    """A world and settings for it."""
    sizes = dict(zip(("tp_size", "cp_size", "pp_size", "dp_size"), factors(random, 4), strict=True))
    world = 1
    for size in sizes.values():
        world *= size
    if random.random() < 0.1:
        world = random.randint(1, 64)
    elif random.random() < 0.05:
        sizes[random.choice([*sizes])] = random.choice([0, -1, 3])
    return world, sizes
