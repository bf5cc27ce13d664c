# SPDX-License-Identifier: Apache-2.0
"""Megatron Core's megatron.core.parallel_state.

The settings are the arguments of initialize_model_parallel; the kinds are the `group_desc` of its groups. Ours is of a
later version than PyPI's 0.16.1 and has what either has. The release has no weight re-materialisation (gtp_remat_size,
the kinds with GTP, get_all_ranks with its place), which a folder with `--from` may have and is compared then.
"""

import inspect
import itertools

from .answers import Answers, ask, refusal
from .draws import divisors, factors
from .recorder import Group

DISTRIBUTION, PACKAGE = "megatron-core", "megatron"
RUNS = ("megatron.core.parallel_state",)
NEEDS = ("einops",)

source = _state = _fresh = _questions = None


def start(of):
    global source, _state, _fresh, _questions
    source = of
    source.given = {"megatron.core.utils": {"is_torch_min_version": lambda version: True}}
    _state = source.load("megatron.core.parallel_state")
    _fresh = {name: value for name, value in vars(_state).items() if name.startswith("_") and not callable(value)}
    _questions = [
        (name, options)
        for name, call in vars(_state).items()
        if name.startswith(("get_", "is_", "has_")) and inspect.isfunction(call) and call.__module__ == _state.__name__
        if "buffer" not in name and name != "get_nccl_options"
        for options in _options(inspect.signature(call))
    ]


def _options(signature):
    """The ways to call it: both values of what is true or false, some of what is a number."""
    values = {"check_initialized": (), "vp_stage": (0, 1), "group_size": (2, 4, 8)}
    names = list(signature.parameters)
    chosen = [(None, *values.get(name, (not signature.parameters[name].default,))) for name in names]
    for choice in itertools.product(*chosen):
        yield {name: value for name, value in zip(names, choice, strict=True) if value is not None}


def _said(answer):
    """A group as its ranks, in the order in which the process group has them."""
    if isinstance(answer, Group):
        return list(answer.ranks)
    return [_said(each) for each in answer] if isinstance(answer, list) else answer


def original(settings, rank, world):
    """What Megatron answers."""
    vars(_state).update({name: dict(value) if isinstance(value, dict) else value for name, value in _fresh.items()})
    with source.on(rank, world) as recorder:
        try:
            _state.initialize_model_parallel(**settings)
        except Exception as error:
            return refusal(error)
        answers = {
            _written(name, options): _said(ask(getattr(_state, name), **options)) for name, options in _questions
        }
    partitions, groups = {}, {}
    for group in recorder.made:
        kind = group.options["desc"]
        partitions.setdefault(kind, []).append(group.asked)
        groups.setdefault(kind, None)
        if rank in group.ranks:
            groups[kind] = group.ranks
    return Answers(partitions=partitions, groups=groups, answers=answers)


def _written(name, options):
    return f"{name}({', '.join(f'{option}={value}' for option, value in options.items())})"


def _listed(answer):
    """A group of ours as its ranks."""
    return answer if isinstance(answer, str) or not hasattr(answer, "__iter__") else [_listed(each) for each in answer]


def ours(settings, rank, world):
    """What rankmesh.megatron answers."""
    from rankmesh import Error
    from rankmesh.megatron.parallel_state import ParallelState

    state = ParallelState(rank, world)
    known = inspect.signature(state.initialize_model_parallel).parameters
    sizes = {name: value for name, value in settings.items() if name in known}
    try:
        state.initialize_model_parallel(**sizes)
    except Error as error:
        return refusal(error)
    made, answers = state.groups, {}
    for name, options in _questions:
        call = getattr(state, name, None)
        if call is not None and options.keys() <= inspect.signature(call).parameters.keys():
            answers[_written(name, options)] = _listed(ask(call, **options))
    groups = {kind: made.of(kind, rank) for kind in made.kinds()}
    if not _has("gtp_remat_size"):
        groups = {kind: group for kind, group in groups.items() if "GTP" not in kind}
        answers.pop("get_all_ranks()")
    return Answers(
        partitions={kind: made.partition(kind) for kind in groups},
        groups={kind: None if group is None else list(group) for kind, group in groups.items()},
        answers=answers,
    )


def _has(argument):
    """True if this version of the original knows it."""
    return argument in inspect.signature(_state.initialize_model_parallel).parameters


def settings(random):
    """A world and settings for it."""
    tp, cp, pp, dp = factors(random, 4)
    world = tp * cp * pp * dp
    given = {"tensor_model_parallel_size": tp, "context_parallel_size": cp, "pipeline_model_parallel_size": pp}
    if random.random() < 0.6:
        etp = random.choice([tp, *divisors(world // pp)])
        given["expert_model_parallel_size"] = random.choice(divisors(world // pp // etp or 1))
        given["expert_tensor_parallel_size"] = random.choice([None, etp])
    if random.random() < 0.4:
        order = ["tp", "cp", "ep", "dp", "pp"]
        random.shuffle(order)
        given["order"] = "-".join(order if random.random() < 0.5 else [*(each for each in order if each != "pp"), "pp"])
    if random.random() < 0.3:
        given["num_distributed_optimizer_instances"] = random.choice([2, *divisors(dp * cp)])
    if cp > 1 and random.random() < 0.5:
        inner = random.choice(divisors(cp))
        given["hierarchical_context_parallel_sizes"] = [inner, cp // inner]
    if random.random() < 0.2:
        given["virtual_pipeline_model_parallel_size"] = random.choice([1, 2, 3])
    if random.random() < (0.3 if dp * cp % 2 == 0 else 0.05) and _has("hybrid_context_parallel"):
        given["hybrid_context_parallel"] = True
    if random.random() < 0.3 and _has("create_all_gather_group"):
        given["create_all_gather_group"] = True
    if random.random() < 0.3 and _has("gtp_remat_size"):
        given["gtp_remat_size"] = random.choice(divisors(dp))
        given["expert_gtp_remat_size"] = random.choice([1, *divisors(dp)])
    if random.random() < 0.2:
        given["create_gloo_process_groups"] = False
    if random.random() < 0.05:
        world = random.randint(1, 64)
    elif random.random() < 0.08:
        given[random.choice([name for name in given if name.endswith("parallel_size")])] = random.choice([0, -1, 3, 5])
    return world, given
