# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's parallel_state of October 2022, as vLLM 0.1.7 has it.

The settings are the arguments of initialize_model_parallel, and `then`, calls of setters after it: a list of (name,
value). Every function answers without options, some with `ignore_virtual` or a stage. No split is negative, which ours
refuses where it is asked.
"""

from .answers import Answers, Raised, ask, refusal
from .draws import factors

DISTRIBUTION, PACKAGE = "vllm==0.1.7", "vllm"
RUNS = ("vllm.model_executor.parallel_utils.parallel_state",)

KINDS = ("_DATA_PARALLEL_GROUP", "_MODEL_PARALLEL_GROUP", "_TENSOR_MODEL_PARALLEL_GROUP",
         "_PIPELINE_MODEL_PARALLEL_GROUP", "_EMBEDDING_GROUP", "_POSITION_EMBEDDING_GROUP")  # fmt: skip
LISTS = ("_EMBEDDING_GLOBAL_RANKS", "_POSITION_EMBEDDING_GLOBAL_RANKS", "_PIPELINE_GLOBAL_RANKS",
         "_DATA_PARALLEL_GLOBAL_RANKS", "_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK",
         "_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "_PIPELINE_MODEL_PARALLEL_SPLIT_RANK")  # fmt: skip
WITH_VIRTUAL = ("is_pipeline_first_stage", "is_pipeline_last_stage", "is_rank_in_embedding_group")
OF_STAGES = ("is_pipeline_stage_before_split", "is_pipeline_stage_after_split")
SETTERS = ("set_tensor_model_parallel_world_size", "set_pipeline_model_parallel_world_size",
           "set_tensor_model_parallel_rank", "set_pipeline_model_parallel_rank",
           "set_pipeline_model_parallel_split_rank", "set_virtual_pipeline_model_parallel_rank")  # fmt: skip

source = _state = None


def start(of):
    global source, _state
    source = of
    _state = source.load(RUNS[0])


def _answers(state, then):
    """Every answer of a module or an object."""
    for name, value in then:
        getattr(state, name)(value)
    getters = [name for name in dir(_state) if name.startswith(("get_", "is_"))]
    answers = {name: ask(getattr(state, name)) for name in getters}
    answers |= {f"{name}(True)": ask(getattr(state, name), True) for name in WITH_VIRTUAL}
    answers |= {f"{name}({stage})": ask(getattr(state, name), stage) for name in OF_STAGES for stage in (-1, 0, 1, 2)}
    return answers


def _ranks(answer):
    if isinstance(answer, Raised):  # the text of an IndexError is Python's
        return Raised("IndexError") if answer.text.endswith("index out of range") else answer
    return getattr(answer, "ranks", answer)


def original(settings, rank, world):
    """What Megatron answers."""
    given = dict(settings)
    then = given.pop("then", [])
    for name in [name for name in vars(_state) if name.startswith("_") and name[1:2].isupper()]:
        setattr(_state, name, None)
    with source.on(rank, world) as recorder:
        try:
            _state.initialize_model_parallel(**given)
        except Exception as error:
            return refusal(error)
        groups = {kind: list(group.ranks) if (group := getattr(_state, kind)) else None for kind in KINDS}
        answers = {name: _ranks(answer) for name, answer in _answers(_state, then).items()}
        answers |= {name: list(it) if isinstance(it := getattr(_state, name), range) else it for name in LISTS}
    made, partitions = [group.ranks for group in recorder.made], {}
    for kind in KINDS[:3]:
        count = world // len(groups[kind] or range(world))  # none of sizes below 1
        partitions[kind], made = made[:count], made[count:]
    partitions |= {kind: made[place::3] for place, kind in enumerate(KINDS[3:])}  # one of each for a pipeline
    return Answers(partitions=partitions, groups=groups, answers=answers)


def ours(settings, rank, world):
    """What rankmesh answers."""
    from rankmesh import Error, Group
    from rankmesh.megatron2022.parallel_state import for_rank

    given = dict(settings)
    then = given.pop("then", [])
    try:
        state = for_rank(rank, world, **given)
        answers = _answers(state, then) | {name: ask(state.variable, name) for name in LISTS}
    except Error as error:
        return refusal(error)
    groups = state.groups
    return Answers(
        partitions={kind: groups.partition(kind) for kind in KINDS},
        groups={kind: list(it) if (it := groups.of(kind, rank)) else None for kind in KINDS},
        answers={name: list(it) if isinstance(it, Group) else it for name, it in answers.items()},
    )


def settings(random):
    """A world and settings for it."""
    tp, pp, dp = factors(random, 3)
    world = tp * pp * dp
    given = {"tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp}
    if random.random() < 0.4:
        given["virtual_pipeline_model_parallel_size"] = random.choice([1, 2, 3, 4])
    if random.random() < 0.5:
        given["pipeline_model_parallel_split_rank"] = random.randint(0, pp - (random.random() < 0.9))
    if random.random() < 0.1:
        world = random.randint(1, 64)
    elif random.random() < 0.05:
        given[random.choice([name for name in given if name.endswith("size")])] = random.choice([0, -1, 3, 5])
    if random.random() < 0.5:
        given["then"] = [(random.choice(SETTERS), random.choice([None, 1, 2, 3])) for _ in range(random.randint(1, 4))]
    return world, given
