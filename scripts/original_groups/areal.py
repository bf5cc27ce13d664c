# SPDX-License-Identifier: Apache-2.0
"""AReaL's allocation texts, its ParallelHelper (fsdp) and its ArchonParallelDims (archon).

The settings are `alloc_mode`, a text such as sglang:d4t2+fsdp:d8, or an `engine`, fsdp or archon, with the arguments of
ParallelStrategy. The world is that of the engine; of a text it is that of its one part for training. The kinds are the
names of the engine's mesh, with those that it is flattened into. Accessors that begin with alloc_mode are of the text,
all others of the engine.
"""

import enum
import functools
import importlib
from types import SimpleNamespace

from .answers import Answers, Raised, ask, refusal
from .draws import factors
from .meshes import described, fake_world, group_of, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "areal"
RUNS = (
    "areal.api.alloc_mode", "areal.engine.fsdp_utils.parallel", "areal.experimental.models.archon.parallel_dims",
)  # fmt: skip
NEEDS = ("lark",)

SIZES = ("data_parallel_size", "pipeline_parallel_size", "tensor_parallel_size", "context_parallel_size",
         "expert_parallel_size", "expert_tensor_parallel_size", "expert_data_parallel_size")  # fmt: skip
OF_TEXT = ("world_size", "type_", "gen_backend", "train_backend", "gen_instance_size")
OF_FSDP = (
    "dp_enabled", "sp_enabled", "tp_enabled", "ep_enabled", "etp_enabled", "dp_size", "sp_size", "tp_size", "ep_size",
    "etp_size", "gradient_div_factor", "context_and_model_parallel_size", "seq_len_divisor",
)  # fmt: skip
OF_ARCHON = (
    "dp_shard", "dp_replicate_enabled", "dp_shard_enabled", "dp_enabled", "dp_cp_enabled", "fsdp_enabled", "cp_enabled",
    "tp_enabled", "pp_enabled", "ep_enabled", "etp_enabled", "fsdp_gradient_divide_factor", "seq_len_divisor",
    "context_and_model_parallel_size",
)  # fmt: skip
MESHES = ("pp", "dp", "dp_shard", "dp_shard_cp", "dp_cp", "pp_cp_tp", "cp", "tp", "ep", "ep_tp", "dp_shard_mod_ep",
          "dp_shard_in_ep", "dp_mod_ep", "dp_in_ep", "sp", "dp_sp", "sp_tp")  # fmt: skip

source = _texts = _fsdp = _archon = None


class _Scheduling(str, enum.Enum):
    separation = "separation"
    colocation = "colocation"


def start(of):
    global source, _texts, _fsdp, _archon
    source = of
    source.given = {
        "areal.infra.platforms": {"current_platform": SimpleNamespace(device_type="cpu")},
        "areal.api.cli_args": {"SchedulingStrategyType": _Scheduling, "SchedulingStrategy": SimpleNamespace},
    }
    for name in ("lark", "torch.distributed.fsdp", "torch.distributed.tensor.parallel"):
        importlib.import_module(name)  # what they import is looked for before stubs stand in for packages
    _texts, _fsdp, _archon = map(source.load, RUNS)


def _strategy(strategy):
    return None if strategy is None else {name: getattr(strategy, name) for name in SIZES}


def _of_text(mode):
    """What the text says, of each part and of all."""
    answers = {f"alloc_mode.{name}": _ask(functools.partial(getattr, mode, name)) for name in OF_TEXT}
    answers |= {f"alloc_mode.{name}": _ask(lambda: _strategy(getattr(mode, name))) for name in ("gen", "train")}  # noqa: B023
    answers["alloc_mode.allocations"] = [
        {"backend": each.backend, "name": each.name, "world_size": each.world_size, "sizes": _strategy(each.parallel),
         "scheduling": str(each.scheduling_strategy.type.value), "target": each.scheduling_strategy.target}
        for each in mode.allocations
    ]  # fmt: skip
    return answers


def _ask(call):
    found = ask(call)
    return found.name if isinstance(found, enum.Enum) else found


def _of_engine(engine, strategy, world):
    """The mesh that the engine builds, and what it answers besides."""
    if engine == "fsdp":
        helper = _fsdp.ParallelHelper.from_parallel_strategy(strategy)
        mesh = helper.world_mesh
        answers = {name: _ask(functools.partial(getattr, helper, name)) for name in OF_FSDP}
        return mesh, answers, lambda name: mesh[name]
    dims = _archon.ArchonParallelDims(
        dp_shard=strategy.dp_size, tp=strategy.tp_size, cp=strategy.cp_size, pp=strategy.pp_size, ep=strategy.ep_size,
        etp=strategy.etp_size, world_size=world, device_type="cpu",
    )  # fmt: skip
    mesh = dims.world_mesh
    answers = {name: _ask(functools.partial(getattr, dims, name)) for name in OF_ARCHON}
    return mesh, answers, dims.get_mesh


def original(settings, rank, world):
    """What AReaL answers."""
    with fake_world(rank, world):
        try:
            if "alloc_mode" in settings:
                mode = _texts._AllocationMode.from_str(settings["alloc_mode"])
                answers = _of_text(mode)
                trains = mode._get_training_allocations()
                if len(trains) != 1 or trains[0].backend == "megatron":
                    return Answers(answers=answers)
                engine, strategy = trains[0].backend, trains[0].parallel
            else:
                answers = {}
                sizes = {name: value for name, value in settings.items() if name != "engine"}
                engine, strategy = settings["engine"], _texts.ParallelStrategy(**sizes)
            mesh, of_engine, part = _of_engine(engine, strategy, world)
        except Exception as error:
            return refusal(error)
        answers |= of_engine | {"world_mesh": described(mesh)}
        parts = {name: ask(part, name) for name in MESHES}
        parts = {name: each for name, each in parts.items() if each is not None and not isinstance(each, Raised)}
        answers |= {f"get_mesh({name})": described(each) for name, each in parts.items()}
        parts = {name: each for name, each in parts.items() if each.ndim == 1}
        return Answers(
            partitions={name: partition_of(each) for name, each in parts.items()},
            groups={name: group_of(each) for name, each in parts.items()},
            answers=answers,
        )


ours = by_rows("areal")


def _dims(random, letters, sizes):
    return "".join(f"{letter}{size}" for letter, size in zip(letters, sizes, strict=True) if random.random() < 0.9)


def _text(random):
    """A text of one to three parts, and the world of its part for training."""
    backend = random.choice(("fsdp", "archon", "megatron"))
    d, t, p, c = factors(random, 4)
    world = d * t * p * c
    if backend != "fsdp" and random.random() < 0.3:
        e = random.choice((1, 2, 4, d * c))
        ffn = random.choice(("", f"t{random.choice((1, t))}")) + f"d{max(1, d * c // e)}p{p}e{e}"
        train = f"{backend}:(attn:d{d}p{p}t{t}c{c}|ffn:{ffn})"
    else:
        name = random.choice(("", "", "[actor]"))
        train = f"{backend}{name}:d{d}t{t}" + (f"p{p}" if p > 1 else "") + (f"c{c}" if c > 1 else "")
        if backend != "fsdp" and random.random() < 0.3:
            train += f"e{random.choice((2, d, c * t, d * c * t))}"
    name = "[rollout]" if "[" in train or random.random() < 0.1 else ""
    inference = f"{random.choice(('sglang', 'vllm'))}{name}:" + _dims(random, "dtp", factors(random, 3))
    parts = random.choice(([train], [inference, train], [inference, train], [inference]))
    text = random.choice(("+", "+", "+", "|", " + ")).join(parts)
    if random.random() < 0.1:
        text += random.choice(("+fsdp[critic]:d2", "|fsdp[critic]:d2", "+d4", "x", ":", "+fsdp[actor]:d0"))
    return world, {"alloc_mode": text}


def settings(random):
    """A world and settings for it."""
    if random.random() < 0.5:
        return _text(random)
    d, t, p, c = factors(random, 4)
    given = {"engine": random.choice(("fsdp", "archon")), "data_parallel_size": d, "tensor_parallel_size": t,
             "context_parallel_size": c}  # fmt: skip
    if given["engine"] == "archon" or random.random() < 0.05:
        given["pipeline_parallel_size"] = p
    world = d * t * c * given.get("pipeline_parallel_size", 1)
    if random.random() < 0.6:
        given["expert_parallel_size"] = random.choice((c, c * t, d * c, d * c * t, 2, 3))
        given["expert_tensor_parallel_size"] = random.choice((1, 1, t, t, 2))
    if random.random() < 0.1:
        world = random.randint(1, 64)
    return world, given
