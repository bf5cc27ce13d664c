# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's deepspeed.utils.groups, its sequence-parallel groups of ALST and the folding of AutoEP and AutoTP.

The settings are the functions that make groups with their arguments, called in this order: `_init_tp_mesh_device`,
`_create_model_parallel`, `_create_expert_and_data_parallel` (with folding=True: the spec that autotp_size=mp_size and
autoep_size give), `_create_expert_data_and_model_parallel` (tensor and pipeline: the sizes of its mpu),
`_create_zero_param_parallel_group`, `_get_local_all_to_all_group` (devices: of a host), `initialize_sequence_parallel`.
"""

import inspect
from types import SimpleNamespace

import torch.distributed as dist

from .answers import Answers, ask, refusal
from .draws import divisors, factors
from .meshes import fake_world

DISTRIBUTION = PACKAGE = "deepspeed"
RUNS = (
    *("deepspeed.utils.groups", "deepspeed.utils.bwc", "deepspeed.utils.exceptions"),
    *("deepspeed.runtime.sequence_parallel.parallel_state_sp", "deepspeed.module_inject.auto_ep_folding"),
)

source = _groups = _sequence = _folding = _questions = None
_fresh, _devices = {}, 1


class _Comm:
    """deepspeed.comm, which is torch's but for these."""

    def __getattr__(self, name):
        return getattr(dist, name)

    @staticmethod
    def initialize_mesh_device(shape, names):
        return dist.init_device_mesh("cpu", shape, mesh_dim_names=names)

    @staticmethod
    def get_all_ranks_from_group(group):
        return dist.get_process_group_ranks(group)


def start(of):
    global source, _groups, _sequence, _folding, _questions
    source = of
    accelerator = SimpleNamespace(device_count=lambda: _devices)
    source.given = {
        "deepspeed": {"comm": _Comm()},
        "deepspeed.accelerator": {"get_accelerator": lambda: accelerator},
    }
    _groups = source.load("deepspeed.utils.groups")
    _sequence = source.load("deepspeed.runtime.sequence_parallel.parallel_state_sp")
    _folding = source.load("deepspeed.module_inject.auto_ep_folding")
    for module in (_groups, _sequence):
        _fresh[module] = {
            name: value for name, value in vars(module).items() if name.startswith("_") and name[1:2].isupper()
        }
    _questions = [
        name
        for name, call in vars(_groups).items()
        if name.startswith(("get_", "_get_")) and inspect.isfunction(call) and call.__module__ == _groups.__name__
        if name not in ("_get_expert_parallel_ranks", "_get_local_all_to_all_group") and "_dict" not in name
    ]


def _mpu(tensor, pipeline, world):
    return SimpleNamespace(
        get_tensor_model_parallel_world_size=lambda: tensor,
        get_pipeline_model_parallel_world_size=lambda: pipeline,
        get_model_parallel_world_size=lambda: tensor,
        get_data_parallel_world_size=lambda: world // (tensor * pipeline),
    )


def _make(module, settings, world, folding=None):
    """Has the functions make what the settings say; the names of the experts' groups."""
    names = []
    for function, arguments in settings.items():
        given = dict(arguments)
        if given.pop("folding", False):
            given["folding_spec"] = folding(given)
        if "tensor" in given:
            given["mpu"] = _mpu(given.pop("tensor"), given.pop("pipeline"), world)
        if function != "initialize_sequence_parallel" and function != "_get_local_all_to_all_group":
            getattr(module, function)(**given)
        if "expert_parallel_size_" in given:
            names.append(f"ep_size_{given['expert_parallel_size_']}")
    return names


def _answers(module, names):
    """What the getters answer."""
    answers = {}
    for question in _questions:
        call = getattr(module, question, None)
        if call is not None:
            of_group = "group_name" in inspect.signature(getattr(_groups, question)).parameters
            for arguments in [(name,) for name in names] if of_group else [()]:
                answers[f"{question}({', '.join(arguments)})"] = _said(ask(call, *arguments))
    return answers


def _sizes_of_spec(given, world):
    """The sizes of the folding of these arguments."""
    stages, tensor, experts = given.get("pp_size") or 1, given["mp_size"], given["expert_parallel_size_"]
    return {"world_size": world, "pp_size": stages, "tp_size": tensor, "ep_size": experts}


def _new_groups(groups, name, given):
    """All expert groups of a size as the original makes them: stage by stage where there are tensor lanes."""
    steps = (given.get("pp_size") or 1) if (given.get("mp_size") or 1) > 1 else 1
    made = groups._state.groups
    kinds = [made.partition(kind) for kind in made.kinds() if kind.startswith(f"{name}_expert")]
    return [group for i in range(steps) for all in kinds for group in all[i * len(all) // steps :][: len(all) // steps]]


def _sequence_answers(state):
    """What parallel_state_sp answers."""
    calls = [name for name in vars(_sequence) if name.startswith("get_")]
    return {f"parallel_state_sp.{name}()": _said(ask(getattr(state, name))) for name in calls}


def _said(answer):
    """A group of either as its ranks."""
    if isinstance(answer, dist.ProcessGroup):
        return dist.get_process_group_ranks(answer)
    return answer if isinstance(answer, str) or not hasattr(answer, "__iter__") else [_said(each) for each in answer]


def original(settings, rank, world):
    """What DeepSpeed answers."""
    global _devices
    for module, fresh in _fresh.items():
        vars(module).update({name: dict(value) if isinstance(value, dict) else value for name, value in fresh.items()})
    _groups.mpu, _groups.mesh_device, _groups.expert_tensor_parallel_world_size = None, None, 1

    with fake_world(rank, world) as made:
        try:
            _groups._clone_world_group()  # which functions make where they want the world's size
            names = _make(
                _groups, settings, world, lambda given: _folding.build_folding_spec(**_sizes_of_spec(given, world))
            )
            experts = made[""][1:]
            local, sequence = None, settings.get("initialize_sequence_parallel")
            if given := settings.get("_get_local_all_to_all_group"):
                _devices = given["devices"]
                local = _groups._get_local_all_to_all_group()
            if sequence:
                _sequence.initialize_sequence_parallel(**sequence)
        except Exception as error:
            return refusal(error)
        answers, groups = _answers(_groups, names), {}
        if sequence:
            answers |= _sequence_answers(_sequence)
        if local is not None:
            own = {name: each for name, each in local.items() if isinstance(each, dist.ProcessGroup)}
            groups = {name: _said(each) for name, each in own.items()}
    partitions = {names[0]: experts} if len(names) == 1 and len(settings) == 1 else {}
    return Answers(partitions=partitions, groups=groups, answers=answers)


def ours(settings, rank, world):
    """What rankmesh.deepspeed answers."""
    from rankmesh import Error
    from rankmesh.deepspeed.groups import Groups
    from rankmesh.deepspeed.parallel_state_sp import SequenceState

    groups, state, sequence = Groups(rank=rank, world_size=world), SequenceState(rank=rank, world_size=world), None
    try:
        names = _make(groups, settings, world, lambda given: SimpleNamespace(**_sizes_of_spec(given, world)))
        local = {}
        if given := settings.get("_get_local_all_to_all_group"):
            local = groups._get_local_all_to_all_group(device_per_node=given["devices"])
        if sequence := settings.get("initialize_sequence_parallel"):
            state.initialize_sequence_parallel(**sequence)
    except Error as error:
        return refusal(error)
    answers = _answers(groups, names) | (_sequence_answers(state) if sequence else {})
    partitions = {}
    if len(names) == 1 and len(settings) == 1:
        ((_, given),) = settings.items()
        partitions = {names[0]: _new_groups(groups, names[0], given)}
    return Answers(
        partitions=partitions,
        groups={name: list(each) for name, each in local.items() if rank in each},
        answers=answers,
    )


def settings(random):
    """A world and settings for it."""
    tp, pp, ep, dp = factors(random, 4)
    world = tp * pp * ep * dp
    odd = random.random() < 0.1
    size = random.choice([0, -1, 3, 5, 7]) if odd else random.choice(divisors(world))
    first = random.random() < 0.3
    kinds = {
        "_init_tp_mesh_device": {"tensor_model_parallel_size": size},
        "_create_model_parallel": {"model_parallel_size_": size},
        "_create_expert_and_data_parallel": {
            "expert_parallel_size_": size if random.random() < 0.2 else ep,
            "mp_size": random.choice([None, 1, tp, tp, tp * dp]),
            "pp_size": random.choice([None, pp, pp]),
            "mp_mode": random.choice(["tp", "tp", "sp"]),
            "use_data_before_expert_parallel_": first,
        },
        "_create_expert_data_and_model_parallel": {
            "expert_parallel_size_": size if random.random() < 0.2 else ep,
            "tensor": tp,
            "pipeline": pp,
            "use_data_before_expert_parallel_": first,
        },
        "_create_zero_param_parallel_group": {"group_size": size},
        "_get_local_all_to_all_group": {"devices": max(size, 1)},
    }
    given = {name: kinds[name] for name in kinds if random.random() < 0.3}
    if random.random() < 0.1:
        arguments = {"expert_parallel_size_": random.choice(divisors(world)), "mp_size": tp, "folding": True}
        given["_create_expert_and_data_parallel"] = arguments
    if random.random() < 0.1:
        given["initialize_sequence_parallel"] = {"sequence_parallel_size": size}
    return world, given
