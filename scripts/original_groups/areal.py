# SPDX-License-Identifier: Apache-2.0
"""AReaL's ProcessTopology, ParallelGrid and FakeGrid, which the package on PyPI no longer has: `--from` names a checkout
of AReaL 0.3.

The settings are the topology's `axes` and `dims`, and `mapping`, the grid's ranks of the world, rising; the world may be
larger. The groups of a kind are lists of ranks of the world.
"""

import importlib

from .answers import Answers, Raised, ask, refusal
from .draws import factors

DISTRIBUTION, PACKAGE = "areal", "realhf"
RUNS = ("realhf.base.topology",)

AXES = (["pipe", "data", "tensor"], ["data", "pipe", "tensor"])
LISTS = {"dp_groups": "dp_group", "pipe_groups": "pp_group", "model_groups": "slice_group"}
HANDLES = ("ds_model_proc_group", "dp_proc_group", "pp_proc_group", "embedding_proc_group",
           "position_embedding_proc_group", "slice_proc_group", "tp_dp_proc_group")  # fmt: skip
NUMBERS = ("global_rank", "world_size", "data_parallel_size", "pipe_parallel_size", "model_parallel_size",
           "slice_parallel_size", "stage_id", "data_parallel_id", "ds_model_rank", "ds_model_world_size",
           "is_first_stage", "is_last_stage", "p2p_groups", *LISTS, *LISTS.values())  # fmt: skip
GETTERS = ("get_stage_id", "get_global_rank", "get_pipe_parallel_rank", "get_pipe_parallel_world_size",
           "get_data_parallel_rank", "get_data_parallel_world_size", "get_model_parallel_rank",
           "get_model_parallel_world_size", "get_tensor_model_parallel_rank",
           "get_tensor_model_parallel_world_size")  # fmt: skip
FAKE = ("dp_id", "pp_id", "mp_id", "world_size")

source = _module = None


def start(of):
    global source, _module
    source = of
    _module = source.load(RUNS[0])


def _members(group):
    return None if group is None else [int(each) for each in getattr(group, "ranks", group)]


def _answers(module, topology, grid):
    """What a topology and a grid say, the original's or ours."""
    world = topology.world_size()
    answers = {name: ask(getattr, grid, name) for name in NUMBERS}
    answers |= {name: ask(getattr(grid, name)) for name in GETTERS}
    answers = {name: list(it) if isinstance(it, list | tuple) or name in LISTS.values() and it else it
               for name, it in answers.items()}  # fmt: skip
    for axis in (*topology.get_axis_names(), "other"):
        answers[f"get_dim({axis})"] = ask(topology.get_dim, axis)
        answers[f"get_axis_comm_lists({axis})"] = ask(topology.get_axis_comm_lists, axis)
    for rank in range(0, world, max(world // 4, 1)):
        answers[f"get_coord({rank})"] = ask(lambda rank=rank: tuple(topology.get_coord(rank)))
        answers[f"get_rank_repr({rank})"] = ask(topology.get_rank_repr, rank)
        fake = module.FakeGrid(rank, topology)
        answers |= {f"FakeGrid({rank}).{name}": ask(getattr, fake, name) for name in FAKE}
    for stage in (0, topology.get_dim("pipe") - 1):
        answers[f"stage_to_global({stage})"] = ask(grid.stage_to_global, stage)
        answers[f"filter_match(pipe={stage})"] = ask(lambda stage=stage: list(topology.filter_match(pipe=stage)))
    return answers


def original(settings, rank, world):
    """What AReaL answers."""
    mapping = settings.get("mapping")
    place = rank if mapping is None else mapping.index(rank) if rank in mapping else -1
    _module.GLOBAL_PROCESS_GROUP_REGISTRY.clear()
    with source.on(rank, world) as recorder:
        try:
            topology = _module.ProcessTopology(settings["axes"], settings["dims"])
            _module.dist.get_rank = lambda group=None: place  # in the model's process group
            grid = _module.ParallelGrid(topology, None, None if mapping is None else dict(enumerate(mapping)))
        except Exception as error:
            return refusal(error)
        answers = _answers(_module, topology, grid)
        unset = {name: Raised("unset") for name, it in answers.items() if it == Raised("'ParallelGrid' object")}
        return Answers(
            groups={name: _members(getattr(grid, name)) for name in HANDLES},
            answers=answers | unset | {"made": [group.ranks for group in recorder.made]},
        )


def _asked(groups):
    """The ranks of each group that the original's grid asks for, once a backend, in its order."""
    blocks = []
    for kind in groups.kinds():  # those on the host and the ends of pipelines follow each group of the kind before
        if kind.endswith("_gloo") or "embedding" in kind:
            blocks[-1].append(kind)
        else:
            blocks.append([kind])
    made = {}
    for block in blocks:
        for each in zip(*map(groups.partition, block)):
            made |= {(tuple(ranks), kind.endswith("_gloo")): None for kind, ranks in zip(block, each)}
    return [list(ranks) for ranks, _ in made]


def ours(settings, rank, world):
    """What rankmesh answers."""
    from rankmesh import Error

    module = importlib.import_module("rankmesh.areal.topology")
    mapping = settings.get("mapping")
    try:
        topology = module.ProcessTopology(settings["axes"], settings["dims"])
        given = None if mapping is None else dict(enumerate(mapping))
        grid = module.ParallelGrid(topology, None, given, rank=rank, world_size=world)
    except Error as error:
        return refusal(error)
    return Answers(
        groups={name: _members(getattr(grid, name)) for name in HANDLES},
        answers=_answers(module, topology, grid) | {"made": _asked(grid._groups.groups)},
    )


def settings(random):
    """A world and settings for it."""
    dims = factors(random, 3)
    world = dims[0] * dims[1] * dims[2]
    given = {"axes": random.choice(AXES), "dims": dims}
    if random.random() < 0.3:
        more = world + random.randint(0, 8)
        given["mapping"] = sorted(random.sample(range(more), world))
        world = more
    if random.random() < 0.1:
        given["dims"] = random.choice([dims[:2], [*dims, 1], [0, *dims[1:]], [-1, *dims[1:]]])
    return world, given
